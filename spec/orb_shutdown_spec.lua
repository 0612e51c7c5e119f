-- The end of a server: every request it accepted has its reply, counted at the clients; what a killed one means to who calls; plain Lua.
local mare = require "mare"
local orb = require "mare.orb"
local giop = require "spec.support.iiop"
local proc = require "spec.support.proc"
local subprocess = require "mare.subprocess"
local temporary = require "spec.support.temporary"
local fiber, channel = mare.fiber, mare.channel

local OMG = 0x4f4d0000
local IDL = "interface Work { long wait(in long n); long quick(in long n); oneway void note(in long n); void stop(); };"
local SLOW = proc.slow

local function serve(servant, options)
  options = options or {}
  options.host, options.log = "127.0.0.1", options.log or function() end
  local broker = orb.init(options)
  broker:load(IDL)
  local ref = broker:serve(servant, "Work", { key = "work" })
  return broker, ref, broker.server.opened[1].port
end

local function client(ref, options)
  local broker = orb.init(options)
  broker:load(IDL)
  return broker, broker:proxy(tostring(ref), "Work")
end

describe("shutdown", function()
  it("answers all that was accepted, then says CloseConnection: replies are counted at the clients", function()
    local clients, each = 5, 8
    local gate, begun = channel.new(), channel.new(math.huge)
    local broker, _, port = serve { wait = function(_, n) begun:send(n) gate:receive() return n end }
    local all = {}
    for i = 1, clients do
      all[i] = giop.connect(port)
      for n = 1, each do all[i]:request("wait", "work", string.pack("<i4", 100 * i + n), { id = n }) end
    end
    for _ = 1, clients * each do assert.is_not_nil(begun:receive(20 * SLOW)) end
    local ending = fiber.spawn(function() broker:shutdown(true) end)
    fiber.yield()
    assert.equal("stopping", broker.server.state)
    assert.is_nil((require "mare.net".connect("127.0.0.1", port)))
    for i = 1, clients do all[i]:request("wait", "work", string.pack("<i4", 0), { id = 99 }) end      -- too late
    for _ = 1, clients * each do gate:send(true) end
    local replies = 0
    for i = 1, clients do
      local ids = {}
      for _ = 1, each do
        local r = assert(all[i]:receive())
        assert.same({ "Reply", 0, 100 * i + r.id }, { r.type, r.status, (string.unpack("<i4", r.body)) })
        ids[r.id] = true
        replies = replies + 1
      end
      assert.equal(each, #ids)
      assert.equal("CloseConnection", all[i]:receive().type)
      assert.equal("EOF", select(3, all[i]:receive()))
      all[i]:close()
    end
    assert.equal(clients * each, replies)
    assert.is_true((ending:wait(20 * SLOW)))
    assert.same({ "closed", 0, 0 }, { broker.server.state, broker.server.pool.count, broker.server.pool.fibers })
    assert.equal(0, #begun)                      -- what came too late was never served
  end)

  it("loses no call of a busy client: each has its reply, or goes to the next server", function()
    local first, ref, port = serve { quick = function(_, n) return n end }
    local calls, ready = 400, channel.new(math.huge)
    local callers, broker, p = {}, client(ref)
    for i = 1, 8 do
      callers[i] = fiber.spawn(function()
        local answered = 0
        for n = 1, calls do
          local ok, r
          repeat                                 -- between the servers nobody listens: TRANSIENT, nothing was done
            ok, r = pcall(p.quick, p, n)
            if not ok then
              assert(orb.exception.is(r, "IDL:omg.org/CORBA/TRANSIENT:1.0"), tostring(r))
              assert(r.completed == "COMPLETED_NO", tostring(r))
              mare.sleep(0.002)
            end
          until ok
          assert(r == n)
          answered = answered + 1
          if n == 50 then ready:send(true) end
        end
        return answered
      end)
    end
    for _ = 1, 8 do ready:receive() end
    first:shutdown(true)
    local second = serve({ quick = function(_, n) return n end }, { port = port })
    for i = 1, 8 do
      local ok, answered = callers[i]:wait(60 * SLOW)
      assert.is_true(ok, tostring(answered))
      assert.equal(calls, answered)
    end
    broker:shutdown()
    second:shutdown(true)
  end)

  it("runs the one-way requests that were read", function()
    local noted, gate = 0, channel.new()
    local broker, _, port = serve { note = function() gate:receive() noted = noted + 1 end, quick = function(_, n) return n end }
    local c <close> = giop.connect(port)
    for n = 1, 10 do c:request("note", "work", string.pack("<i4", n), { response = 0 }) end
    assert.equal(0, c:call("quick", "work", string.pack("<i4", 1)).status)     -- so all before it were read
    local ending = fiber.spawn(function() broker:shutdown(true) end)
    for _ = 1, 10 do gate:send(true) end
    assert.equal("CloseConnection", c:receive().type)
    c:close()
    assert.is_true((ending:wait(20 * SLOW)))
    assert.equal(10, noted)
  end)

  it("within a time cancels what still runs then", function()
    local ended = channel.new(1)
    local broker, _, port = serve { wait = function()
      local guard <close> = setmetatable({}, { __close = function() ended:send(true) end })
      channel.new():receive()
      return guard
    end }
    local c <close> = giop.connect(port)
    c:request("wait", "work", string.pack("<i4", 1))
    while broker.server.pool.count == 0 or next(broker.server.pool.peers).n == 0 do mare.sleep(0.001) end
    broker:shutdown(0.05)
    assert.is_true(ended:receive(20))
    assert.is_nil((c:receive()))
    assert.equal("closed", broker.server.state)
  end)

  it("in a servant begins the end, and its own reply still arrives; there it can't be waited for", function()
    local broker
    local state, err
    broker = serve { stop = function()
      local _
      _, err = pcall(broker.shutdown, broker, true)
      broker:shutdown()
      state = broker.server.state
    end }
    local other, p = client(("corbaloc::127.0.0.1:%d/work"):format(broker.server.opened[1].port))
    p:stop()
    assert.equal("stopping", state)
    assert.same({ "IDL:omg.org/CORBA/BAD_INV_ORDER:1.0", OMG | 3 }, { err._repid, err.minor })
    other:shutdown()
    broker:run()                                 -- returns when it is over
    assert.equal("closed", broker.server.state)
    broker:run()
    broker:shutdown(true)
    local ok, again = pcall(broker.serve, broker, {}, "Work")
    assert.is_false(ok)
    assert.same({ "IDL:omg.org/CORBA/BAD_INV_ORDER:1.0", OMG | 4 }, { again._repid, again.minor })
  end)

  it("of a broker that serves nothing is over at once", function()
    local broker = orb.init { host = "127.0.0.1" }
    broker:shutdown(true)
    broker:run()
  end)

  it("leaves no descriptor and no fiber", function()
    local sockets = require "spec.support.sockets"
    local function round()
      local broker, ref = serve { quick = function(_, n) return n end }
      local other, p = client(ref)
      assert.equal(3, p:quick(3))
      other:shutdown()
      broker:shutdown(true)
    end
    round()
    local fibers, descriptors = fiber.count(), sockets.descriptors()
    for _ = 1, 5 do round() end
    assert.is_true(sockets.descriptors_fall_to(descriptors))
    assert.is_true(fiber.count() <= fibers, "fibers are left")
  end)
end)

local SERVER = [[
  local orb = require "mare.orb"
  local broker = orb.init { host = "127.0.0.1" }
  broker:load(%q)
  local ref = broker:serve({
    quick = function(_, n) return n + 1 end,
    wait = function(_, n) print("called") io.stdout:flush() require "mare".sleep(n) return n end,
    stop = function() broker:shutdown() end,
  }, "Work", { key = "work" })
  print(ref)
  io.stdout:flush()
  if arg[1] == "until interrupted" then
    print(pcall(broker.run, broker))
    broker:shutdown(20)
    print "over"
  elseif arg[1] == "run" then
    broker:run()
    print("over")
  end
]]

-- Starts the server as an OS process: the subprocess and its reference.
local function start(command, run)
  local path = temporary()
  local file <close> = assert(io.open(path, "w"))
  file:write(SERVER:format(IDL))
  file:close()
  local words = table.move(command, 1, #command, 1, {})
  table.move({ path, run }, 1, 2, #words + 1, words)
  words.stdout, words.stderr = "pipe", "inherit"
  words.env = { LUA_CPATH = proc.cpath .. ";;" }
  local child = assert(subprocess.spawn(words))
  local ref = assert(child.stdout:read("l", 20 * SLOW))
  os.remove(path)
  return child, ref
end

describe("a server in a process of the system", function()
  it("that is killed in mid-call: COMM_FAILURE, maybe done; later calls TRANSIENT; the caller goes on", function()
    local child, ref = start { proc.bin, "run" }
    local broker, p = client(ref)
    assert.equal(8, p:quick(7))
    local call = p._async:wait(600)
    assert.equal("called", child.stdout:read("l", 20 * SLOW))
    child:kill "KILL"
    child:wait()
    local ok, err = call:wait(20 * SLOW)
    assert.is_false(ok)
    assert.same({ "IDL:omg.org/CORBA/COMM_FAILURE:1.0", "COMPLETED_MAYBE" }, { err._repid, err.completed })
    ok, err = pcall(p.quick, p, 1)
    assert.is_false(ok)
    assert.same({ "IDL:omg.org/CORBA/TRANSIENT:1.0", "COMPLETED_NO" }, { err._repid, err.completed })
    broker:shutdown()
  end)

  it("that is interrupted may answer what is in progress before it ends", function()
    local child, ref = start({ proc.bin, "run" }, "until interrupted")
    local broker, p = client(ref)
    local call = p._async:wait(1)
    assert.equal("called", child.stdout:read("l", 20 * SLOW))
    child:kill "INT"
    assert.matches("^false\t.*interrupted!", child.stdout:read("l", 20 * SLOW))
    local ok, n = call:wait(20 * SLOW)
    assert.same({ true, 1 }, { ok, n })
    broker:shutdown()
    assert.equal("over\n", child.stdout:read("a", 20 * SLOW))
    assert.same({ code = 0 }, child:wait(20 * SLOW))
  end)

  for name, case in pairs { ["mare run, whose fibers keep it alive"] = { { proc.bin, "run" } },
                            ["mare run, with broker:run()"] = { { proc.bin, "run" }, "run" },
                            ["plain Lua, with broker:run()"] = { { proc.interpreter }, "run" } } do
    it(("serves until it is shut down: %s"):format(name), function()
      if proc.config ~= "plain" and case[1][1] == proc.interpreter then return pending("only in the plain configuration") end
      local child, ref = start(case[1], case[2])
      local broker, p = client(ref)
      for n = 1, 200 do assert.equal(n + 1, p:quick(n)) end
      local calls = {}
      for n = 1, 10 do calls[n] = p._async:wait(0) end
      for n = 1, 10 do assert.is_true((calls[n]:wait(20 * SLOW))) end
      p:stop()
      broker:shutdown()
      local out = child.stdout:read("a", 20 * SLOW)
      assert.equal(("called\n"):rep(10) .. (case[2] and "over\n" or ""), out)
      assert.same({ code = 0 }, child:wait(20 * SLOW))
    end)
  end
end)
