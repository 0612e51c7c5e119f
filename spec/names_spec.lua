-- Names that don't exist: fields of mare's modules and handles raise and suggest; fields of options of the wrong type or size raise and say which.
local mare = require "mare"
local temporary = require "spec.support.temporary"
local channel, process, fiber, net = mare.channel, mare.process, mare.fiber, mare.net
local text = require "mare.near"

local function refused(message, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok, message)
  assert.truthy(tostring(err):find(message, 1, true), err)
end

-- The field is read: what Lua says where it stands, and what it says of it.
local function unknown(object, field, message)
  refused(message, function() return object[field] end)
  refused("names_spec.lua:", function() return object[field] end)
end

describe("mare", function()
  it("has its modules as fields, loaded when they are touched", function()
    for _, name in ipairs { "process", "channel", "select", "selector",
                             "fiber", "timer", "net", "file", "subprocess", "signal", "tls", "orb", "socket" } do
      assert.equal(require("mare." .. name), mare[name])
    end
  end)
  it("loads them in a process, too", function()
    local ok, a, b = process.spawn(function()
      local m = require "mare"
      local before = rawget(m, "orb") == nil and rawget(m, "net") == nil and package.loaded["mare.orb"] == nil
      local server <close> = m.net.listen("127.0.0.1", 0)
      return before and m.orb == require "mare.orb" and rawget(m, "orb") == m.orb, (select(2, server:address()))
    end):wait()
    assert.is_true(ok, a)
    assert.is_true(a)
    assert.is_true(b > 0)
  end)
  it("gives what a program has put in their place", function()
    local ok, value = process.spawn(function()
      package.preload["mare.tls"] = function() return "mine" end
      return require "mare".tls
    end):wait()
    assert.same({ true, "mine" }, { ok, value })
  end)
end)

describe("a misspelt field", function()
  it("of a module raises and suggests", function()
    unknown(mare, "proces", "mare has no field 'proces'; did you mean 'process'")
    unknown(mare, "sokcet", "mare has no field 'sokcet'; did you mean 'socket'?")
    unknown(net, "lisen", "mare.net has no field 'lisen'; did you mean 'listen'?")
    unknown(mare.file, "opne", "mare.file has no field 'opne'; did you mean 'open'?")
    unknown(mare.signal, "no", "mare.signal has no field 'no'; did you mean 'on'?")
    unknown(mare.subprocess, "spwan", "did you mean 'spawn'?")
    unknown(mare.timer, "evry", "did you mean 'every'?")
    unknown(fiber, "spwan", "mare.fiber has no field 'spwan'; did you mean 'spawn'?")
    unknown(mare.tls, "conect", "mare.tls has no field 'conect'; did you mean 'connect'")
    unknown(mare.orb, "innit", "mare.orb has no field 'innit'; did you mean 'init'?")
    unknown(channel, "nothing_like_it", "mare.channel has no field 'nothing_like_it'; there are find, named, new")
  end)
  it("of a handle raises and suggests", function()
    local c = channel.new(1)
    unknown(c, "sned", "channel has no field 'sned'; did you mean 'send'?")
    unknown(c, "nmae", "channel has no field 'nmae'; did you mean 'name'?")
    local p = process.spawn(function() end)
    unknown(p, "nmae", "process has no field 'nmae'; did you mean 'name'?")
    unknown(p, "Wait", "process has no field 'Wait'; did you mean 'wait'?")
    unknown(p, "results", "process has no field 'results'; " ..
      "there are cancel, give, id, info, kill, link, name, owner, priority, status, traceback, unlink, wait")
    p:wait()
    local f = fiber.spawn(function() end)
    unknown(f, "cancle", "fiber has no field 'cancle'; did you mean 'cancel'?")
    f:wait()
    unknown(mare.selector {}, "wiat", "selector has no field 'wiat'; did you mean 'wait'?")
    local server <close> = net.listen("127.0.0.1", 0)
    unknown(server, "acept", "server has no field 'acept'; did you mean 'accept'?")
    local conn <close> = net.connect(server:address())
    unknown(conn, "wrtie", "connection has no field 'wrtie'; did you mean 'write'?")
    local udp <close> = net.udp("127.0.0.1:0")
    unknown(udp, "sendto", "did you mean 'send_to'")
    local child = mare.subprocess.spawn { "true", stdin = "null" }
    unknown(child, "stdot", "subprocess has no field 'stdot'; did you mean 'stdout'")
    assert.is_nil(child.stdin)                    -- it could have one
    child:wait()
    local timer = mare.timer.after(0)
    unknown(timer, "cancle", "did you mean 'cancel'?")
    local path = temporary()
    local file <close> = mare.file.open(path)
    unknown(file, "raed", "file has no field 'raed'; did you mean 'read'")
    os.remove(path)
  end)
  it("is found after the methods were used, and by a method call", function()
    local c = channel.new(1)
    c:send(1)
    assert.equal(1, c:receive())
    refused("did you mean 'receive'?", function() c:recieve() end)
    refused("did you mean 'receive'?", function() c:recieve() end)
  end)
  it("is nil where values of any kind are asked: names with two underscores, keys that are no names, rawget", function()
    for _, object in ipairs { mare, net, mare.tls, channel.new(), process.self(), mare.selector {} } do
      assert.is_nil(object.__tojson)
      assert.is_nil(object[1])
      assert.is_nil(object[false])
    end
    assert.is_nil(rawget(mare, "ftp"))
    assert.is_false(pcall(function() return mare.ftp end))
    local seen = {}
    for name in pairs(net) do seen[name] = true end
    assert.is_true(seen.listen)
  end)
  it("can be added by the program", function()
    mare.my_own = 1
    assert.equal(1, mare.my_own)
    mare.my_own = nil
  end)
end)

describe("a suggestion", function()
  it("is of the nearest names, at most three", function()
    assert.equal("'abcd', 'abce', 'abcf'", text.near("abcx", { "abcg", "abcf", "abce", "abcd" }))
    assert.equal("'receive'", text.near("recieve", { "send", "receive", "close" }))
    assert.equal("'Say'", text.near("say", { "Say", "other" }))
    assert.equal("'a_long_name'", text.near("long", { "a_long_name", "x" }))
    assert.is_nil(text.near("http", { "step", "tls" }))
    assert.is_nil(text.near("x", {}))
    assert.equal("'xy'", text.near("x", { "xy", "xy" }))
    assert.is_nil(text.near(("x"):rep(10000), { "x", ("x"):rep(10000) }))
  end)
end)

describe("a field of options that is of the wrong type or size", function()
  local function main(...) return select("#", ...), ... end
  it("is refused: args.n of process.spawn and fiber.spawn", function()
    for _, spawn in ipairs { process.spawn, fiber.spawn } do
      for _, n in ipairs { "x", 1.5, 1e9, -1, 0 / 0, math.huge, true, 251, "1" } do
        refused("spawn: 'args': 'n' must be a whole number from 0 to 250, got ", spawn, { main = main, args = { 1, n = n } })
      end
    end
  end)
  it("counts arguments by an n that is whole, be it a float", function()
    for _, spawn in ipairs { process.spawn, fiber.spawn } do
      assert.same({ true, 3, 1, nil, nil }, { spawn { main = main, args = { 1, n = 3.0 } }:wait() })
      assert.same({ true, 3, 1, nil, nil }, { spawn { main = main, args = { 1, n = 3 } }:wait() })
      assert.same({ true, 0 }, { spawn { main = main, args = { 1, n = 0 } }:wait() })
      assert.same({ true, 2, 1, 2 }, { spawn { main = main, args = { 1, 2 } }:wait() })
    end
  end)
  it("is refused: backlog, reuseport, v6only, path of net.listen", function()
    for _, n in ipairs { "x", 0, -1, 1.5, 2 ^ 32 + 1, 1e300, 0 / 0, true } do
      refused("listen: 'backlog' must be a whole number from 1 to 2147483647, got ", net.listen, "127.0.0.1:0", { backlog = n })
    end
    refused("listen: 'reuseport' must be true or false, got 1", net.listen, "127.0.0.1:0", { reuseport = 1 })
    refused("listen: 'v6only' must be true or false, got \"yes\"", net.listen, { port = 0, v6only = "yes" })
    refused("field 'path' must be a string", net.listen, { path = {} })
    net.listen("127.0.0.1:0", { backlog = 5.0, reuseport = false }):close()
  end)
  it("is refused: timeout, nodelay, bind of net.connect, timeout of select and subprocess.run", function()
    for _, seconds in ipairs { "x", {}, 0 / 0, true, "1" } do
      refused("connect: 'timeout' must be a number of seconds, got ", net.connect, "127.0.0.1:1", { timeout = seconds })
      refused("select: 'timeout' must be a number of seconds, got ", mare.select, { timeout = seconds })
      refused("run: 'timeout' must be a number of seconds, got ", mare.subprocess.run, { "true", timeout = seconds })
      refused("timeout' must be a number", mare.tls.connect, "127.0.0.1", 1, { timeout = seconds, verify = false })
    end
    refused("connect: 'nodelay' must be true or false, got 0", net.connect, "127.0.0.1:1", { nodelay = 0 })
    refused("connect: 'bind' must be an address", net.connect, "127.0.0.1:1", { bind = 5 })
    refused("connect: 'bind' must be an address, not the name \"x\"", net.connect, "127.0.0.1:1", { bind = "x" })
    refused("option 'server' must be a string, got boolean", mare.tls.connect, "127.0.0.1", 1, { server = true })
  end)
  it("is refused: numbers of signals and socket options that would be cut off", function()
    local child = mare.subprocess.spawn { "sleep", "10" }
    for _, n in ipairs { 2 ^ 32 + 9, 65, -1, 1.5, math.mininteger } do refused("a signal's number is from 0 to 64", child.kill, child, n) end
    assert.is_true(child:kill(9.0))
    assert.same({ signal = "KILL" }, child:wait())
    local server <close> = net.listen("127.0.0.1", 0)
    refused("a number of 32 bits expected", server.option, server, "rcvbuf", 2 ^ 32 + 1)
  end)
end)

describe("net.listen", function()
  it("takes host and port as net.connect does", function()
    local server <close> = assert(net.listen("127.0.0.1", 0))
    local host, port = server:address()
    assert.equal("127.0.0.1", host)
    assert(net.connect(host, port)):close()
    assert(server:accept(5)):close()
    assert(net.listen("127.0.0.1", "0", { backlog = 3 })):close()
    assert(net.listen("localhost", 0)):close()
    assert(net.listen("*", 0, { v6only = false })):close()
    refused("a port is a whole number from 0 to 65535", net.listen, "127.0.0.1", 65536)
    refused("bad argument #2", net.listen, "127.0.0.1", -1)
    refused("table expected", net.listen, "127.0.0.1", 0, 5)
    local _, err, code = net.listen("127.0.0.1", port)
    assert.equal("EADDRINUSE", code)
    assert.matches("^listen at 127%.0%.0%.1:", err)
  end)
end)

-- The texts of error messages, in C and in Lua, name only what is there.
describe("no message of mare's", function()
  local root = os.getenv "MARE_ROOT" or "."
  local function each_text(f)
    local list = io.popen(("find %s/src %s/lua -name '*.[cl]*' ! -name '*_test.c' ! -name '*.h'"):format(root, root))
    local files = 0
    for path in list:lines() do
      local file = io.open(path)
      if file and not path:find "%.inc$" then
        files = files + 1
        for line in file:lines() do
          for literal in line:gmatch '"([^"]*)"' do f(literal, path) end
        end
        file:close()
      end
    end
    list:close()
    assert.is_true(files > 100)
  end
  it("names a page of the documentation that does not exist", function()
    local seen = 0
    each_text(function(literal, path)
      for page in literal:gmatch "docs/([%w_/-]+%.md)" do
        seen = seen + 1
        local file = io.open(root .. "/docs/" .. page)
        assert.truthy(file, path .. ": " .. literal)
        file:close()
      end
    end)
    assert.is_true(seen > 0)
  end)
  it("names a function of a module that does not exist", function()
    local seen = 0
    each_text(function(literal, path)
      if not literal:find(" ", 1, true) then return end        -- a name in the code, not a text
      literal = literal:gsub("#include <[^>]*>", "")
      for before, module, name in literal:gmatch "([^%w._]?)%f[%w]([%l]+)%.([%l_]+)%f[^%w_]" do
        if before ~= "/" and (module == "mare" or package.loaded["mare." .. module] and name ~= "md") then
          seen = seen + 1
          local found = module == "mare" and mare or mare[module]
          local there, why = pcall(function() return found[name] end)
          assert.truthy(there or tostring(why):find "mare was built without", ("%s: %s.%s in: %s"):format(path, module, name, literal))
        end
      end
    end)
    assert.is_true(seen > 10, seen)
  end)
end)
