-- Modules in processes: the searchers' protocol, waiting in a module's body, inheritance, chunks shared program-wide.
local proc = require "spec.support.proc"
local process, channel = require "mare.process", require "mare.channel"
local with_modules = require "spec.support.tree"

local function clean(text) return (text:gsub("/%S-lua_%w+", "FOLDER")) end

describe("require", function()
  it("finds all of mare's modules in mare.so, without any other file", function()
    local r = proc.lua([[
      package.path = ""
      print(require("mare.socket")._VERSION, type(require("mare.tls").connect))
      print(require "mare.tls" == require "mare.tls", package.loaded.mare ~= nil)
    ]])
    assert.equal("", r.err)
    assert.equal("LuaSocket 3.1.0 (mare)\tfunction\ntrue\ttrue\n", r.out)
  end)

  it("finds every file of lua/mare but the command line's in mare.so", function()
    local names = {}
    local list <close> = assert(io.popen("cd '" .. (os.getenv("MARE_ROOT") or ".") .. "/lua' && find mare -name '*.lua' ! -path 'mare/cli/*'"))
    for path in list:lines() do names[#names + 1] = path:gsub("%.lua$", ""):gsub("/", ".") end
    assert.is_true(#names > 20)
    local r = proc.lua("package.path = '' " .. [[
      local file = package.searchpath("mare", package.cpath)
      for _, name in ipairs(arg) do
        if not package.loadlib(file, "luaopen_" .. name:gsub("%.", "_")) then print(name) end
      end
    ]], names)
    assert.same({ "", "" }, { r.err, r.out })
  end)

  it("follows the standard protocol and gives the same errors as plain lua", function()
    with_modules({
      ["good.lua"] = "return { name = ..., file = select(2, ...) }", ["bad.lua"] = "x =", ["she.lua"] = "#!/bin/x\nreturn ...",
      ["dir.lua/x"] = "", ["throws.lua"] = "error({})", ["fails.lua"] = "error('failed')", ["empty.lua"] = "", ["no.lua"] = "return false",
      ["sub/init.lua"] = "return 'init of ' .. ...", ["sub/mod.lua"] = "return require 'sub' .. ' and ' .. ...",
      ["bom.lua"] = "\239\187\191return 'bom'",
      ["loop.lua"] = "return package.loaded.loop or require 'loop'",
    }, function(folder)
      local program = ("local folder = %q\n"):format(folder) .. [==[
        local function show(...)
          local t = table.pack(...)
          for i = 1, t.n do t[i] = tostring(t[i]):gsub("0x%x+", "ADDRESS") end
          print(table.concat(t, " | "))
        end
        package.path, package.cpath = folder .. "/?.lua;" .. folder .. "/?/init.lua", folder .. "/?.so"
        show(require "good".name, require "good".file, select(2, require "good")) show(require "she") show(require "empty") show(require "empty")
        show(require "no") show(require "no") show(require "sub.mod") show(require "bom")
        for _, name in ipairs { "bad", "dir", "throws", "fails", "nosuch", "no.such-module" } do show(pcall(require, name)) end
        show(pcall(require)) show(pcall(require, {})) show(pcall(require, 5))
        package.preload.foo = function(...) show("body", ...) return nil end show(require "foo") show(require "foo") show(package.loaded.foo)
        package.preload.bar = function(...) package.loaded.bar = "set" return "returned" end show(require "bar") show(require "bar")
        package.preload.baz = function(...) package.loaded[...] = "set" end show(require "baz")
        package.preload.err = function() error("e") end show(pcall(require, "err"))
        table.insert(package.searchers, 2, function(n)
          if n == "zz" then return function(...) show(...) return "zzv" end, "extra" end
          if n == "yy" then return 5 elseif n == "xx" then return "\n\tcustom" end
        end)
        show(require "zz") show(select(2, pcall(require, "yy"))) show(select(2, pcall(require, "xx")))
        table.remove(package.searchers, 2)
        package.path = 5 show(pcall(require, "number")) package.path = {} show(pcall(require, "p")) package.path = ""
        show(pcall(require, "q")) package.path = ";;" show(pcall(require, "q.r")) package.cpath = nil show(pcall(require, "t"))
        os.execute("echo not a library > " .. folder .. "/lib.so") package.cpath = folder .. "/?.so"
        show(pcall(require, "lib")) show(pcall(require, "lib.part")) show(package.loadlib(folder .. "/lib.so", "f"))
        package.searchers = nil show(pcall(require, "u")) package.searchers = 5 show(pcall(require, "u"))]==]
      local env = { LUA_PATH = false, LUA_CPATH = false }
      local want, got = proc.lua(program, {}, { env = env }), proc.mare(program, {}, { env = env })
      assert.is_true(#want.out > 1000, want.err)
      assert.equal(clean(want.out), clean(got.out), got.err)
      assert.equal(clean(want.err), clean(got.err))
    end)
  end)
  it("loads C modules, of which every process has its own", function()
    local found = package.searchpath("lfs", package.cpath) or package.searchpath("lpeg", package.cpath) or package.searchpath("cjson", package.cpath)
    if not found then return pending("no C module is installed here") end
    local name = found:match("(%w+)%.so$")
    for _ = 1, 20 do
      local ok, kind, again = process.spawn(function() return type(require(name)), require(name) == require(name) end):wait()
      assert.same({ true, "table", true }, { ok, kind, again })
    end
  end)
  it("lets a module's body wait, as deep as modules require each other", function()
    with_modules({
      ["a.lua"] = "local c = CHANNEL local b = require 'b' return { c:receive(), b }", ["b.lua"] = "return CHANNEL:receive()",
    }, function(folder)
      local c = channel.new()
      local p = process.spawn(function()
        package.path = folder .. "/?.lua"
        _G.CHANNEL = c
        local direct = require "a"
        package.loaded.a, package.loaded.b = nil, nil
        local inside = coroutine.wrap(function() return require "a" end)()
        package.searchers[2] = function(name) local value = c:receive() return function() return name .. value end end
        return direct[1], direct[2], inside[1], inside[2], require "searched"
      end)
      for i = 1, 5 do c:send(i) end
      assert.same({ true, 2, 1, 4, 3, "searched5" }, { p:wait() })
    end)
  end)
  it("compiles a file once for many processes, and again when it has changed", function()
    with_modules({ ["m.lua"] = "return 'first'" }, function(folder)
      local function all(n)
        local list, seen = {}, {}
        for i = 1, n do
          list[i] = process.spawn(function()
            package.path = folder .. "/?.lua"
            return (require "m")
          end)
        end
        for i = 1, n do
          local _, text = list[i]:wait()
          seen[text] = (seen[text] or 0) + 1
        end
        return seen
      end
      assert.same({ first = 500 }, all(500))
      local file = assert(io.open(folder .. "/m.lua", "w"))
      file:write("return 'second one'")
      file:close()
      assert.same({ ["second one"] = 500 }, all(500))
    end)
  end)
  it("needs no descriptor for a file that is compiled already, and says it when one is missing for another", function()
    local program = [[
      local process = require "mare.process"
      package.path = arg[1] .. "/?.lua"
      require "known"
      local files = {}
      for i = 1, 100 do files[i] = io.open "/dev/null" end
      assert(#files < 100)
      print(process.spawn(function() return require "known", select(2, pcall(require, "other")) end):wait())
    ]]
    with_modules({ ["known.lua"] = "return 'found'", ["other.lua"] = "", ["program.lua"] = program }, function(folder)
      local r = proc.run { "sh", "-c", 'ulimit -n 40; exec "$@"', "sh", proc.bin, "run", folder .. "/program.lua", folder }
      assert.equal("", r.err)
      assert.matches("^true\tfound\terror loading module 'other' from file '[^\n]+'.+Too many open files\n$", r.out)
    end)
  end)
  it("finds mare in every process without looking at files", function()
    local ok, a, b = process.spawn(function()
      package.path, package.cpath = "", ""
      local mare = require "mare"
      return type(mare.sleep), require "mare.channel" == mare.channel
    end):wait()
    assert.same({ true, "function", true }, { ok, a, b })
  end)
  it("gives what the program put into package.preload precedence over mare's own modules", function()
    local ok, value = process.spawn(function()
      package.preload["mare.channel"] = function() return "mine" end
      package.loaded["mare.channel"] = nil
      return require "mare.channel"
    end):wait()
    assert.same({ true, "mine" }, { ok, value })
  end)
end)

describe("a process inherits", function()
  local path, cpath = package.path, package.cpath
  after_each(function()
    package.path, package.cpath = path, cpath
    package.preload.inherited, package.preload.odd = nil, nil
  end)
  it("package.path and package.cpath, over generations", function()
    package.path, package.cpath = "./x/?.lua;" .. path, "./y/?.so;" .. cpath
    local ok, p, c = process.spawn(function()
      return select(2, require "mare.process".spawn(function()
        return select(2, require "mare.process".spawn(function() return package.path, package.cpath end):wait())
      end):wait())
    end):wait()
    assert.same({ true, "./x/?.lua;" .. path, "./y/?.so;" .. cpath }, { ok, p, c })
  end)
  it("uses an inherited path in require before package is opened", function()
    with_modules({ ["only_here.lua"] = "return ... .. ' found'" }, function(folder)
      package.path = folder .. "/?.lua;" .. path
      assert.same({ true, "only_here found" }, { process.spawn(function() return (require "only_here") end):wait() })
    end)
  end)
  it("functions of package.preload, which can be called there", function()
    local prefix = "from the parent: "
    package.preload.inherited = function(name) return prefix .. name end
    assert.same({ true, "from the parent: inherited" }, { process.spawn(function() return (require "inherited") end):wait() })
  end)
  it("what can travel: a loader that can't does not forbid the spawn", function()
    local file = io.stdout
    package.preload.odd = function() return file end
    package.preload.inherited = function() return "fine" end
    assert.same({ true, "fine", false }, { process.spawn(function() return require "inherited", (pcall(require, "odd")) end):wait() })
  end)
  it("what preload holds at that moment, also of the values its functions use", function()
    local value = "first"
    local function child()
      local ok, result = process.spawn(function() return (require "inherited") end):wait()
      return ok and result
    end
    package.preload.inherited = function() return value end
    assert.equal("first", child())
    value = "second"
    assert.equal("second", child())
    package.preload.inherited = function() return "third" end
    assert.equal("third", child())
    assert.equal("third", child())
    package.preload.inherited = nil
    assert.equal(false, child())
  end)
  it("nothing else of package", function()
    package.loaded.own_module = {}
    table.insert(package.searchers, function() return "\n\tmine" end)
    local ok, loaded, n = process.spawn(function() return package.loaded.own_module, #package.searchers end):wait()
    package.loaded.own_module = nil
    table.remove(package.searchers)
    assert.same({ true, nil, 4 }, { ok, loaded, n })
  end)
  it("the environment variables, but not with -E", function()
    local show = "io.write(select(2, require 'mare.process'.spawn(function() return package.path end):wait()))"
    local env = { LUA_PATH = false, LUA_PATH_5_4 = "/a/?.lua;;/b/?.lua" }
    local with = proc.mare_command({ "-e", show }, { env = env }).out
    local without = proc.mare_command({ "-E", "-e", show }, { env = env }).out
    assert.equal("/a/?.lua;" .. without .. ";/b/?.lua", with)
  end)
end)
