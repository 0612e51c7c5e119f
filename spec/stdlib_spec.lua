-- A process is what lua5.4 gives a script: each program here prints the same under both.
-- runs under: mare
-- needs: plain or asan
local proc = require "spec.support.proc"

-- Gives programs `show`, which prints values with addresses replaced.
local prelude = [==[
local function show(...)
  local t = table.pack(...)
  for i = 1, t.n do t[i] = tostring(t[i]):gsub("0x%x+", "ADDRESS") end
  print(table.concat(t, " | "))
end
]==]
local env = { LUA_CPATH = "./none/?.so", LUA_PATH = "./none/?.lua", LUA_INIT = false }

local function clean(text) return (text:gsub("/%S-lua_[%w_]+%.lua", "script.lua"):gsub("^%S*lua[%d.]*:", "mare:")) end

local function same(text, bare)
  if not bare then text = prelude .. text end
  local want, got = proc.lua(text, {}, { env = env }), proc.mare(text, {}, { env = env })
  assert.is_true(#want.out + #want.err > 1, "the program prints something")
  assert.equal(clean(want.out), clean(got.out))
  assert.equal(clean(want.err), clean(got.err))
  assert.equal(want.code, got.code)
end

local function each(programs)
  for name, text in pairs(programs) do
    it(name, function() same(text) end)
  end
end

describe("names and types", function()
  it("of every library are the same", function()
    same [==[
      local function dump(t, prefix, seen)
        local keys = {}
        for k in pairs(t) do keys[#keys + 1] = k end
        table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
        for _, k in ipairs(keys) do
          local v = t[k]
          print(prefix .. tostring(k), type(v), math.type(v))
          if type(v) == "table" and not seen[v] and k ~= "arg" then
            seen[v] = true
            dump(v, prefix .. tostring(k) .. ".", seen)
          end
        end
      end
      dump(_G, "", { [_G] = true })
      dump(getmetatable(""), "string metatable.", {})
      dump(getmetatable(io.stdout), "file metatable.", {})]==]
  end)
end)

describe("lazy globals are not seen", function()
  -- Without the prelude: nothing of the libraries has been used when these begin.
  local programs = {
    ["by getmetatable"] = "print(getmetatable(_G))",
    ["by debug.getmetatable"] = "print(debug.getmetatable(_G), debug.getmetatable('').__index == string)",
    ["by next"] = "local n = 0 local k = next(_G) while k do n = n + 1 k = next(_G, k) end print(n)",
    ["by next from a given key"] = "local k, n = 'print', 0 next(_G, 'print') next(_G, 'utf8') for _ in next, _G do n = n + 1 end print(n)",
    ["by pairs"] = "local t = {} for k in pairs(_G) do t[#t + 1] = k end table.sort(t) print(table.concat(t, ' '))",
    ["by pairs over package.loaded"] = "local t = {} for k in pairs(package.loaded) do t[#t + 1] = k end table.sort(t) print(table.concat(t, ' '))",
    ["by pairs(...) == next"] = "print(pairs({}) == next, (pairs(_G)) == next)",
    ["by rawget"] = "print(type(rawget(_G, 'string')), rawget(_G, 'string') == string, rawget(_G, 'nosuch'), rawget(_G, 'print') == print)",
    ["by rawget on package.loaded"] = "print(rawget(package.loaded, 'os') == os, rawget(package.loaded, 'math') == math)",
    ["by a strict mode"] = [[
      local declared = {}
      setmetatable(_G, { __newindex = function(t, k, v)
        if not declared[k] and debug.getinfo(2, "S").what ~= "main" then error("assign to undeclared " .. k, 2) end
        declared[k] = true
        rawset(t, k, v)
      end, __index = function(_, k) error("undeclared " .. k, 2) end })
      a = 1
      print(a, string.rep("x", 3), pcall(function() return nosuch end))
      print(pcall(function() b = 2 end))
      print(type(getmetatable(_G)), utf8.char(65))]],
    ["by a metatable without __index"] = "setmetatable(_G, {}) print(type(string), type(coroutine), type(require), nosuch)",
    ["by debug.setmetatable"] = "debug.setmetatable(_G, { __index = function() return 7 end }) print(type(table), type(os), nosuch)",
    ["by assigning nil to a library"] = [[
      string = nil print(string, ('x'):rep(2)) os = nil print(os, rawget(_G, 'os')) print = print local n = 0 for k in pairs(_G)
      do n = n + 1 end print(n)]],
    ["by assigning nil after use"] = [[
      local f = string.format string = nil print(string, type(f), rawget(_G, 'string'), package.loaded.string ~= nil)]],
    ["by assigning nil to functions"] = "local print = print next = nil pairs = nil print(next, pairs, rawget(_G, 'next'))",
    ["by rawset of nil"] = "rawset(_G, 'io', nil) print(io, rawget(_G, 'io'), require 'io' ~= nil, io)",
    ["by removing a loaded module"] = "package.loaded.os = nil print(type(os), (pcall(require, 'os')))",
    ["by replacing a loaded module"] = "package.loaded.math = 5 print(require 'math', type(math))",
    ["by replacing a global"] = "table = { own = true } print(table.own, require('table').own, type(require('table').concat))",
    ["by a sandbox through __index"] = [[
      local env = setmetatable({}, { __index = _G }) print(load('x = 1 return string.rep("a", 2), x', 'c', 't', env)()) print(x)]],
    ["by a copied sandbox"] = [[
      local env = {} for k, v in pairs(_G) do env[k] = v end print(load('return type(math), type(next), type(_G)', 'c', 't', env)())]],
    ["by an environment of its own"] = "print(load('return string', 'c', 't', {})())",
    ["by _ENV"] = "local print = print do local _ENV = { print = print } print(string, type) end print(_ENV == _G)",
    ["by many undefined globals"] = [[
      for i = 1, 3000 do local _ = undefined end print(undefined, getmetatable(_G), type(string)) local n = 0 for _ in pairs(_G)
      do n = n + 1 end print(n)]],
    ["by many new globals"] = [[
      for i = 1, 3000 do _G['g' .. i] = i end print(g1, g3000, getmetatable(_G)) for i = 1, 3000 do _G['g' .. i] = nil end local n = 0
      for _ in pairs(_G) do n = n + 1 end print(n)]],
    ["by a global that comes and goes"] = "for i = 1, 3000 do x = i x = nil end print(x, getmetatable(_G))",
    ["by odd keys"] = [[
      print(_G[1], _G[1.5], _G[_G], pcall(function() return _G[nil] end)) _G[1] = 'one' _G[true] = 'yes' print(_G[1], _G[true], #_G)]],
    ["by errors for odd keys"] = "print(pcall(function() _G[nil] = 1 end)) print(pcall(function() _G[0/0] = 1 end)) print(pcall(rawset, _G, nil, 1))",
    ["by calls of what is undefined"] = [[
      print(pcall(function() nosuch() end)) print(pcall(function() return nosuch.x end)) print(pcall(function() nosuch.x = 1 end))]],
    ["by a finaliser"] = "setmetatable({}, { __gc = function() print('gc', type(string), nosuch) end }) collectgarbage() collectgarbage()",
    ["by the collector"] = [[
      collectgarbage() collectgarbage() print(type(string)) collectgarbage('incremental') collectgarbage() print(type(table), ('x'):upper())]],
    ["by require"] = "print(require 'string' == string, require '_G' == _G, require 'coroutine' == coroutine, select('#', require 'utf8'))",
    ["by tracebacks"] = "function f() error('e') end print(xpcall(f, debug.traceback)) print(xpcall(string.rep, debug.traceback))",
  }
  for name, text in pairs(programs) do
    it(name, function() same(text, true) end)
  end
end)

describe("strings", function()
  local programs = {
    ["have methods"] = "print(('x'):rep(3), ('a,b'):find(',', 1, true), #('%d'):format(5))",
    ["have arithmetic"] = "print('10' + 1, '0x10' * 2, 2 - '1', -'3', '7' // 2, '2' ^ 2, '7' % 4, '7' / 2, 1 // '1')",
    ["have no bitwise operators"] = "print(pcall(function() return '1' | 2 end)) print(pcall(function() return ~'a' end))",
    ["raise the same errors"] = [[
      print(pcall(function() return 'a' + 1 end)) print(pcall(function() return 1 + 'a' end)) print(pcall(function() return 'a' + {} end))
      print(pcall(function() return -'x' end)) print(pcall(function() return 'a' < 1 end)) print(pcall(function() return ('x')() end))]],
    ["raise the same errors when indexed"] = [[
      print(pcall(function() local s = 'x' s.y = 1 end)) print(pcall(function() local s = 'x' return s.y.z end))
      print(pcall(function() return ('x'):nosuch() end)) print(('x').rep == string.rep, ('x').y, ('x')[1])]],
    ["have a metatable"] = "print(type(getmetatable('')), getmetatable('').__index == string, getmetatable('').__name)",
    ["take a program's metatable"] = "debug.setmetatable('', { __index = function(s, k) return s .. k end }) print(('x').y, type(string))",
    ["take additions to their metatable"] = "getmetatable('').__call = function(s, i) return s:sub(i, i) end print(('abc')(2))",
    ["take additions to the library"] = "function string.shout(s) return s:upper() .. '!' end print(('a'):shout())",
    ["use another object's metamethod"] = [[
      local t = setmetatable({}, { __add = function(a, b) return 'meta' end }) print('1' + t, t + '1', pcall(function() return 'x' - t end))]],
  }
  for name, text in pairs(programs) do
    it(name, function() same(text, true) end)
  end
end)

describe("the base library", function()
  each {
    ["checks arguments"] = [[
      show(pcall(getmetatable)) show(pcall(setmetatable, 1, 2)) show(pcall(setmetatable, {}, 2)) show(pcall(setmetatable, {}))
      show(pcall(rawget, 1)) show(pcall(rawget, {})) show(pcall(rawset, {}, 1)) show(pcall(rawset, {}, nil, 1)) show(pcall(next, 1))
      show(pcall(next, {}, "nokey")) show(pcall(pairs)) show(pcall(tostring)) show(pcall(error)) show(pcall(load, 1)) show(pcall(warn))
      show(pcall(warn, {})) show(pcall(collectgarbage, "x")) show(pcall(require)) show(pcall(require, {})) show(pcall(print))]],
    ["protects metatables"] = [[
      show(pcall(setmetatable, setmetatable({}, { __metatable = 1 }), {}))
      show(getmetatable(setmetatable({}, { __metatable = "locked" })), getmetatable(setmetatable({}, { __metatable = false })))]],
    ["converts to strings"] = [[
      show(pcall(tostring, setmetatable({}, { __tostring = function() return 1 end })))
      show(pcall(tostring, setmetatable({}, { __tostring = function() return {} end })))
      show(pcall(tostring, setmetatable({}, { __tostring = function() error("boom") end })))
      show(tostring(setmetatable({}, { __name = "My" })), tostring(1), tostring(1.0), tostring(-0.0), tostring(2^63), tostring(nil), tostring(print))
      show(pcall(print, setmetatable({}, { __tostring = function() return 1 end })))
      print(setmetatable({}, { __tostring = function() return "printed" end }), 1, 1.0, nil, true, "x\0y")]],
    ["walks tables"] = [[
      local t = setmetatable({ 1, 2, x = 3 }, { __pairs = function(t) return function(_, k) if not k then return 1, "p" end end, t, nil end })
      for k, v in pairs(t) do show(k, v) end for i, v in ipairs(t) do show(i, v) end show(next({})) show(next({ 5 })) show(pcall(next, { 5 }, 2))
      show(select("#", pairs({}))) show(pcall(pairs, nil)) for k in pairs(setmetatable({ a = 1 }, {})) do show(k) end]],
    ["tells errors and tracebacks"] = [[
      show(pcall(error)) show(pcall(error, nil)) show(pcall(error, {}, 2)) show(pcall(error, "x", 0)) show(select("#", pcall(error)))
      show(xpcall(function() local x = nil x() end, debug.traceback)) show(debug.traceback("m", 1)) show(debug.traceback())
      local function named() error("inside") end show(xpcall(named, debug.traceback)) show(xpcall(error, debug.traceback, "e"))
      globalfunction = function() error("g") end show(xpcall(globalfunction, debug.traceback))
      show(pcall(string.rep)) show(pcall(("x").rep, "x", 1e10)) show(pcall(function() ("x"):rep({}) end))]],
    ["loads code"] = [[
      show(load("syntax error here")) show(load("return ...", "c", "t", {})(1)) show(pcall(load("error('x')", "=name")))
      show(load("\27Lua", "b", "t"))
      show(pcall(load("x = 1 return x", "c", "t", setmetatable({}, { __newindex = function(t, k, v) rawset(t, k, v + 1) end }))))
      show(pcall(dofile, "/nosuch")) show(loadfile("/nosuch")) show(load(string.dump(function() return 5 end), "b", "b")())]],
    ["collects"] = [[
      show(collectgarbage("isrunning")) show(collectgarbage("incremental")) show(collectgarbage("generational")) show(collectgarbage("stop"))
      show(collectgarbage("isrunning")) show(collectgarbage("restart")) show(collectgarbage()) show(collectgarbage("count") > 1)
      show(collectgarbage("step"))]],
    ["warns"] = [[warn("lost") warn("@on") warn("a", "b", "c") warn("@off") warn("lost") warn("@on") warn("@nosuch") warn("@", "on") warn("x")
      setmetatable({}, { __gc = function() error("in gc") end }) collectgarbage() collectgarbage()
      setmetatable({}, { __gc = function() error({}) end }) collectgarbage() collectgarbage()
      warn(("long "):rep(1000))]],
  }
end)

describe("the libraries", function()
  each {
    ["io"] = [[
      show(io.write("1", 2, 3.0, 1e15, 2^53, 0.1, math.mininteger, "\n") == io.stdout) show(io.stdout:write("") == io.stdout)
      show(pcall(io.stdout.write, 1)) show(pcall(function() io.stdout:write({}) end)) show(pcall(io.write, {})) show(pcall(io.write, nil))
      local f = io.open("/dev/full", "w") f:setvbuf("no") show(f:write("a", "b")) f:close() show(pcall(f.write, f, "x")) show(tostring(f), io.type(f))
      io.output("/dev/null"):close() show(pcall(io.write, "x")) io.output(io.stdout) show(io.type(io.stdin), io.type(5))
      local name = os.tmpname() f = io.open(name, "w") f:write("one\n", 2, "\n", 3.5, "\nrest") f:close()
      for l in io.lines(name) do show(l) end for a, b in io.lines(name, 1, "n") do show(a, b) break end
      f = io.open(name) show(f:read("l", "n", "n", "a")) show(f:seek("set", 1), f:read(2)) f:close() os.remove(name)
      show(io.open("/no/such")) show(pcall(io.lines, "/no/such")) show(pcall(io.open, "x", "bad")) show(io.stdout:seek("cur") ~= 0)
      show(io.stdin:close())]],
    ["io.popen"] = [[
      show(io.popen("echo pop"):read("a")) local p = io.popen("exit 3") show(p:close()) show(pcall(io.popen, "x", "rw")) show(pcall(io.popen))
      show(tostring(p), io.type(p)) show(pcall(p.read, p)) io.write("before ") p = io.popen("cat", "w") p:write("through cat\n") show(p:close())
      p = io.popen("kill -9 $$") show(p:close()) do local q <close> = io.popen("true") end]],
    ["os"] = [[
      show(os.execute("exit 4")) show(os.execute("kill -9 $$")) show(os.execute()) show(pcall(os.execute, {})) show(os.execute("true"))
      show(pcall(os.exit, {}))
      show(os.getenv("HOME"), os.getenv("NOSUCH_VARIABLE")) show(os.setlocale(), os.setlocale("nosuch"), os.setlocale("C"))
      show(math.type(os.time()), math.type(os.clock()))
      show(os.date("!%Y-%m-%d", 0), os.time{ year = 2000, month = 1, day = 1, hour = 12 } ~= nil) show(os.remove("/no/such"))
      show(os.rename("/no/such", "/x")) show(os.difftime(5, 3))]],
    ["math"] = [[
      show(pcall(math.randomseed, {})) show(math.randomseed(42)) show(math.random(100), math.random(100), math.random(5, 6), math.random() < 1)
      show(math.randomseed(1, 2)) show(math.random(0), math.random(1000000)) show(select("#", math.randomseed())) show(pcall(math.random, 2, 1))
      show(math.pi, math.huge, math.maxinteger, math.floor(-3.5), math.tointeger("8"), math.tointeger(3.0), math.ult(1, -1), math.fmod(-5, 3))]],
    ["debug"] = [[
      show(pcall(debug.getmetatable)) show(pcall(debug.setmetatable)) show(pcall(debug.setmetatable, {}, 1))
      show(debug.getmetatable({}), debug.getmetatable(1))
      show(debug.setmetatable(10, { __index = function(_, k) return k end }), (5).foo) debug.setmetatable(10, nil)
      local t = setmetatable({}, { __metatable = false }) show(type(debug.getmetatable(t)))
      show(debug.getinfo(print, "S").what, debug.getinfo(1, "l").currentline)
      debug.sethook(function() end, "l") show(select(2, debug.gethook())) debug.sethook()
      show(type(debug.getregistry()), debug.getupvalue(function() return show end, 1), debug.getlocal(1, 1))]],
    ["table, string and utf8"] = [[
      show(table.unpack({ 1, 2, 3 })) show(table.concat({ 1, 2.5, "x" }, ",")) show(pcall(table.concat, { {} })) local
      t = { 3, 1, 2 } table.sort(t) show(table.concat(t))
      show(table.move({ 1, 2 }, 1, 2, 2)[3]) show(pcall(table.insert, {}, 5, 1)) show(table.remove({ 7 })) show(pcall(table.sort, { 3, 1, "x" }))
      show(string.format("%q %s %d %5.1f %a", "a\n", "b", 3, 2.5, 1.0)) show(("abc"):byte(1, -1)) show(string.pack("<i4", 7):byte(1, -1))
      show(("a1b2"):gsub("%d", { ["1"] = "x" }))
      show(("k=v"):match("(%w)=(%w)")) for w in ("a b"):gmatch("%a") do show(w) end
      show(utf8.char(228, 8364), utf8.len("äö"), utf8.codepoint("ä")) for p, c in utf8.codes("aä") do show(p, c) end]],
    ["package"] = [[
      show(package.config) show(#package.searchers, package.path, package.cpath)
      show(package.loaded._G == _G, package.loaded.package == package, type(package.preload))
      show(package.searchpath("nosuch.mod", "./?.lua;/x/?/y.lua")) show(package.searchpath("a.b", "", ".", "/"))
      show(package.searchpath("a-b", "?;;x", "-", "+"))
      show(package.searchpath("a", ";")) show(package.searchpath("a.b", "?.x", "", "/"))
      show(pcall(package.searchpath, "x"))             -- of two that are missing, the C compiler decides which is named
      show(package.searchpath("null", "/dev/?"))
      show(package.loadlib("/no/such.so", "*")) show(pcall(package.loadlib)) for i = 1, 4 do show(pcall(package.searchers[i]))
      show(package.searchers[i]("no.such")) end]],
  }
end)

describe("each process", function()
  local process, channel
  if pcall(require, "mare.process") then process, channel = require "mare.process", require "mare.channel" end
  local function run(f, ...) return select(2, assert(process.spawn(f, ...):wait())) end
  -- luacheck: push ignore 111 112 113 142 143
  it("finds nothing of the last one", function()
    for _ = 1, 50 do
      assert.is_true(run(function()
        local fresh = x == nil and string.own == nil and getmetatable("").own == nil and next(package.loaded, nil) ~= nil and
          package.loaded.own == nil and getmetatable(_G) == nil and not rawget(_G, "arg") and #package.path > 5
        x, string.own, getmetatable("").own, package.loaded.own, package.path = 1, 2, 3, 4, ""
        setmetatable(_G, { __index = function() return 5 end })
        debug.setmetatable(1, { __index = {} })
        return fresh and (5).x == nil
      end))
    end
  end)
  -- luacheck: pop
  it("starts small and stays small while it waits", function()
    local c = channel.new()
    local n = 200
    local list = {}
    for i = 1, n do list[i] = process.spawn(function() return c:receive(), (process.memory()) end) end
    for i = 1, n do c:send(i) end
    for i = 1, n do
      local _, _, bytes = assert(list[i]:wait())
      assert.is_true(bytes < 12 * 1024, bytes)
    end
  end)
  it("runs its finalisers at its end, all of them", function()
    local c = channel.new(100)
    for _ = 1, 20 do
      process.spawn(function()
        for i = 1, 3 do _G.keep = setmetatable({ _G.keep }, { __gc = function() c:try_send(i) end }) end
      end):wait()
    end
    local sum = 0
    for _ = 1, 60 do sum = sum + c:receive(5) end
    assert.equal(120, sum)
  end)
end)
