-- What a program can reach through debug: every function of every metatable is called with wrong things, every key of the registry, names and
-- addresses, is taken away or replaced, and so is every user value. Errors are right, a crash or a hang is not. Keys of the standard
-- libraries, without which those crash themselves, are left alone, and what keeps coroutines that the scheduler knows: fibers', and a receiver's.
-- runs under: mare
-- needs: plain or asan
local proc = require "spec.support.proc"

-- Makes one of everything mare has; text of a script.
local objects = [[
  local mare = require "mare"
  local fiber, net, file, signal = mare.fiber, require "mare.net", require "mare.file", require "mare.signal"
  local function objects()
    local path = os.tmpname()
    local listener = net.listen("127.0.0.1:0")
    local all = {
      channel = mare.channel.new(4), timer = mare.timer.after(100), ticker = mare.timer.every(100), fiber = fiber.spawn(function() end),
      process = mare.process.spawn(function() end), file = assert(file.open(path, "w")), selector = mare.selector { mare.channel.new() },
      listener = listener, connection = net.connect(listener:address()), udp = net.udp("127.0.0.1:0"),
      signals = signal.on "USR1", child = mare.subprocess.spawn { "true" }, program = io.stdout, coroutine = coroutine.create(print),
    }
    local socket = mare.socket
    all.master, all.datagrams, all.server = socket.tcp(), socket.udp(), socket.bind("127.0.0.1", 0)
    all.client = socket.connect("127.0.0.1", (select(2, all.server:getsockname())))
    socket.select({ all.server }, nil, 0)
    os.remove(path)
    return all
  end
]]

local function run(text, limit)
  local r = proc.mare(objects .. text, {}, { timeout = limit or 60, env = { MARE_QUANTUM = "1" } })
  assert.is_false(r.timeout, "it hangs after " .. r.out:sub(-200))
  assert.same({ 0, nil }, { r.code, r.signal }, r.out:sub(-300) .. r.err:sub(-3000))
  return r.out
end

describe("a program with the debug library can't crash mare", function()
  it("by calling the functions of its metatables with anything, twice", function()
    local out = run([[
      local values = objects()
      local seen, functions = {}, {}
      local function collect(t)
        if type(t) ~= "table" or seen[t] then return end
        seen[t] = true
        for k, v in next, t do
          if type(v) == "function" and debug.getinfo(v, "S").what == "C" then functions[#functions + 1] = { tostring(k), v } end
          if type(k) ~= "string" or k:find "^__" then collect(v) end
        end
        collect(debug.getmetatable(t))
      end
      for _, v in pairs(values) do collect(debug.getmetatable(v)) end
      -- those of objects that no program sees have their metatables in the registry
      for _, v in next, debug.getregistry() do
        if type(v) == "table" and rawget(v, "__gc") then collect(v) end
      end
      local wrong = { 1, -1, 0.5, "text", true, {}, print, coroutine.create(print), io.stdout, io.tmpfile() }
      for _, v in pairs(values) do wrong[#wrong + 1] = v end
      local n = 0
      local function try(name, f, ...)
        n = n + 1
        io.write(name, " ", type((...)), "\n")
        pcall(f, ...)
      end
      -- waiting methods with right arguments would wait: all of it runs in fibers that are cancelled
      local worker = fiber.spawn(function()
        for round = 1, 2 do
          for _, f in ipairs(functions) do
            try(f[1], f[2])
            for _, v in ipairs(wrong) do
              local one = fiber.spawn(function()
                try(f[1], f[2], v) try(f[1], f[2], v, v) try(f[1], f[2], v, "x", 1) try(f[1], f[2], v, nil, v)
              end)
              if one:wait(0.01) == nil then one:cancel() end
            end
          end
        end
      end)
      print(worker:wait())
      collectgarbage()
      print(#functions > 30 and n > 1000, "calls done")
      io.stdout:flush()
      os.exit(0)
    ]], 110)
    assert.matches("true\tcalls done\n$", out)
  end)

  it("by putting something else where the classes of sockets are", function()
    local out = run([[
      local socket, registry = mare.socket, debug.getregistry()
      objects()
      for _, value in ipairs { 5, "text", false, print } do
        for k, v in next, registry do
          if type(v) == "table" and tostring(rawget(v, "__name")):find "^%w+{%w+}$" then registry[k] = value end
        end
        print(pcall(socket.tcp))
        print(pcall(socket.udp))
        socket.select(nil, nil, 0)
      end
      collectgarbage()
    ]])
    assert.matches("false\t.*the class 'tcp{master}' is gone\nfalse\t.*the class 'udp{unconnected}' is gone\n", out)
  end)

  it("by changing what functions and userdata keep", function()
    local out = run([[
      local wrapped = coroutine.wrap(function() end)
      debug.setupvalue(wrapped, 1, 5)
      print(pcall(wrapped))
      local s = mare.selector { mare.channel.new() }
      debug.setuservalue(s, 5, 1)
      s:remove(1)
      print(s:add(mare.channel.new()), s:wait(0))
      local env = require "mare.orb.cdr".environment { fail = print }
      debug.setuservalue(env, 5, 1)
      print(env.fail)
      local child = mare.subprocess.spawn { "true" }
      print(pcall(debug.getmetatable(child).__index, child, "x", 1))
      os.exit(0)
    ]])
    assert.matches("^false\tthe coroutine is gone\n2\tnil\ttimeout\nnil\nfalse\t", out)
  end)

  -- What every key of a registry is for is used; text of a script.
  local use = [[
    local function use()
      local steps = {
        function()
          local c = mare.channel.new(2)
          c:send({ 1, "x" }) c:receive()
          mare.process.spawn(function(...) return { ... } end, c, {}):wait()
          mare.select { c, timeout = 0 }
          mare.selector { c }:wait(0)
          return tostring(c)
        end,
        function()
          local other = mare.channel.new()
          local p = mare.process.spawn(function(from, to) for _ = 1, 3 do to:send { from:receive() } end end, other, other)
          for i = 1, 3 do other:send { i, { i } } other:receive() end
          return p:wait()
        end,
        function()
          local f = fiber.spawn(function() mare.sleep(0) return fiber.storage() end)
          local g = fiber.spawn(function() return fiber.self():name(), f:wait() end)
          collectgarbage()
          return f:wait(), g:wait(), fiber.count()
        end,
        function() return mare.timer.after(0):wait() end,
        function() net.listen("127.0.0.1:0"):close() net.udp("127.0.0.1:0"):close() return net.resolve "localhost" end,
        function()
          local listener = net.listen("127.0.0.1:0")
          local c = net.connect(listener:address())
          local d = listener:accept(1)
          c:write "x\n"
          return d:read("l", 1), c:close(), d:close(), listener:close()
        end,
        function()
          local name = os.tmpname()
          local ok, f = pcall(file.open, name, "w")
          os.remove(name)
          return ok, f:write "x", f:close()
        end,
        function() local child = mare.subprocess.spawn { "true" } return child.stdin, child:wait() end,
        function() return signal.on "USR2" end,
        function()
          local socket = mare.socket
          local server = socket.bind("127.0.0.1", 0)
          local client = socket.connect("127.0.0.1", (select(2, server:getsockname())))
          socket.select({ server }, nil, 0)
          return client:send "x", client:close(), server:close(), socket.udp():close()
        end,
        function() debug.sethook(function() end, "l") debug.gethook() debug.sethook() end,
        function() coroutine.wrap(function() mare.sleep(0) end)() end,
        function()
          local luaproc = require "luaproc"
          luaproc.newproc("return 1") luaproc.wait()
        end,
        function()
          local env = require "mare.orb.cdr".environment()
          local p = env:program { { kind = "string" }, { kind = "any" } }
          return p:decode(p:encode(29, "x", 5), 1, 29)
        end,
        function() return require "mare.orb.giop.core".join { "GIOP\1\2\1\1\4\0\1\0" .. ("x"):rep(1 << 16) .. "abcd" } end,
        function() setmetatable({}, { __gc = function() mare.channel.new() end }) collectgarbage() end,
        function() return mare.nonsense end, function() return require "mare.tls".context { nonsense = 1 } end,
        function() return tostring(mare.process.self()), ("x"):rep(3) end,
      }
      for _, step in ipairs(steps) do pcall(step) end
    end
  ]]

  -- Every key of that type is replaced by each value, in a process of its own; those that must stay are asked for by name.
  local function replace(wanted)
    return run(use .. ([[
      local function keeps_coroutines(value)
        if type(value) == "table" then value = next(value) end
        return type(value) == "thread"
      end
      local function keys()
        local f = fiber.spawn(fiber.yield)
        objects() use()
        local list = { f and nil }
        for k in next, debug.getregistry() do
          if %s then list[#list + 1] = tostring(k) end
        end
        return table.unpack(list)
      end
      local function trial(key, how)
        objects()
        local registry = debug.getregistry()
        local values = { none = nil, number = 1, string = "x", table = {}, bool = false, file = io.stdout, channel = mare.channel.new() }
        for k in next, registry do
          if tostring(k) == key and how ~= "untouched" then registry[k] = values[how] break end
        end
        collectgarbage()
        use() use()
        collectgarbage()
      end
      local got = table.pack(mare.process.spawn(keys):wait())
      assert(got[1], got[2])
      local n = 0
      for i = 2, got.n do
        local trials = {}
        for _, how in ipairs { "untouched", "none", "number", "string", "table", "bool", "file", "channel" } do
          io.stdout:write("registry ", got[i], " ", how, "\n") io.stdout:flush()
          n = n + 1
          local p = mare.process.spawn(trial, got[i], how)
          local ok, err = p:wait(how == "untouched" and 100 or 10)
          if how == "untouched" then assert(ok, err) end
        end
      end
      print(n >= 24, "trials done")
      io.stdout:flush()
      os.exit(0)
    ]]):format(wanted), 250)
  end

  it("by taking keys of the registry away, or putting others there", function()
    assert.matches("true\ttrials done\n$", replace [[type(k) == "string" and (k:find "^mare" or k == "_HOOKKEY")]])
  end)

  it("by taking away what the registry has under addresses, or putting something else there", function()
    assert.matches("true\ttrials done\n$", replace [[type(k) == "userdata" and not keeps_coroutines(debug.getregistry()[k])
      or math.type(k) == "integer" and k < 0]])
  end)

  -- The user values of what marshals: they keep alive what its memory points to.
  local marshalling = [[
    local cdr, core = require "mare.orb.cdr", require "mare.orb.giop.core"
    local node = { kind = "struct", id = "IDL:N:1.0", name = "N", members = { { name = "v", type = { kind = "string" } } } }
    node.members[2] = { name = "next", type = { kind = "sequence", element = node } }
    node.members[3] = { name = "e", type = { kind = "enum", id = "", name = "E", labels = { "one", ("long"):rep(20) } } }
    node.members[4] = { name = "a", type = { kind = "any" } }
    node.members[5] = { name = "o", type = { kind = "alias", id = "", name = "A", type = { kind = "interface", id = "", name = "O" } } }
    local ior = "\1\0\0\0\2\0\0\0A\0\0\0\0\0\0\0"
    local function make()
      local env = cdr.environment { reference_in = function(i) return { i } end, reference_out = function(v) return v[1] end }
      return env, env:program({ node, { kind = "TypeCode" } }, { "first", "second" })
    end
    local value = { v = "x", next = {}, e = ("long"):rep(20), a = { _anytype = node.members[3].type, _anyval = "one" }, o = { ior } }
    local _, plain = make()
    local bytes = plain:encode(29, value, node)
    local head, idat = core.head(2, true, 3, "key", "op")
    local function work(env, p)
      local list = {}
      for i = 1, 300 do list[i] = { i, ("text"):rep(i) } end
      for _, codec in ipairs { 28, 29 } do
        pcall(p.encode, p, codec, value, node) pcall(p.encode, p, codec, 5) pcall(p.decode, p, bytes, 1, codec)
        pcall(p.request, p, head, idat, 1, codec, value, node) pcall(p.reply, p, 1, codec, 0, nil, value, node)
      end
      pcall(env.typecode, env, node) pcall(env.typecode, env, { kind = "sequence", element = node }, true)
      pcall(function() return env.fail, env.proxies, env.iors end)
      local wrapped = { kind = "struct", members = { { name = "n", type = node } } }
      pcall(function() return env:program { node, wrapped }:encode(29, value, { n = value }) end)
    end
    local values = { 5, "text", false, {}, print, coroutine.create(print), io.stdout, plain, mare.channel.new() }
  ]]

  it("by putting something else where marshalling keeps what it needs", function()
    local out = run(marshalling .. [[
      local n = 0
      for i = 0, #values do
        for slot = 1, 2 do
          for which = 1, 3 do
            local env, p = make()
            work(env, p)
            if which ~= 2 then debug.setuservalue(env, values[i], slot) end
            if which ~= 1 then debug.setuservalue(p, values[i], slot) end
            collectgarbage() collectgarbage()
            work(env, p)
            n = n + 1
          end
        end
      end
      local env, p = make()
      debug.setuservalue(p, {}, 1)
      print(pcall(p.encode, p, 29, value, node))
      debug.setuservalue(env, nil, 1)
      print(pcall(env.program, env, { node }))
      print(n, "done")
    ]])
    local what = "what marshalling keeps was changed through the debug library"
    assert.matches("false\t" .. what .. "\nfalse\t" .. what .. "\n60\tdone\n$", out)
  end)

  it("by putting something else into the lists and tables that marshalling keeps there", function()
    local out = run(marshalling .. [[
      local n = 0
      -- The i-th table, or key of one, in what a user value leads to: replaced by each value.
      local function places(env, p)
        local list, seen = {}, {}
        local function visit(t, depth)
          if type(t) ~= "table" or seen[t] or depth > 2 then return end
          seen[t] = true
          for k, v in next, t do
            list[#list + 1] = { t, k }
            visit(v, depth + 1)
          end
        end
        visit(debug.getuservalue(env, 1), 0)
        visit(debug.getuservalue(p, 1), 0)
        return list
      end
      local env, p = make()
      work(env, p)
      local count = #places(env, p)
      for i = 1, count do
        for _, v in ipairs { 1, 3, 4, 8 } do
          env, p = make()
          work(env, p)
          local place = places(env, p)[i]
          if place then
            local t, k = place[1], place[2]
            t[k] = values[v]
            work(env, p)
            n = n + 1
          end
        end
      end
      print(count > 30 and n > 150, "done")
    ]], 200)
    assert.matches("true\tdone\n$", out)
  end)
end)
