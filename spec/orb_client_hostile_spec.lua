-- Servers that flood, or say one thing to one call and another to the next: who calls keeps his time limit, and his siblings their turns.
-- luacheck: ignore 211/broker   (they are kept to be closed)
local mare = require "mare"
local net = require "mare.net"
local orb = require "mare.orb"
local core = require "mare.orb.giop.core"
local calling = require "spec.support.calling"
local peer = require "spec.support.peer"
local fiber, channel, process = mare.fiber, mare.channel, mare.process
local LIMIT, raised = peer.LIMIT, calling.raised

local IDL = "interface Echo { string say(in string who); };"

-- A process that answers the first bytes on a connection with the same ones without end: its reference.
local function flooding(bytes)
  local place = channel.new(1)
  process.spawn(function(what)
    local listener = require "mare.net".listen("127.0.0.1:0")
    place:send((select(2, listener:address())))
    local c = listener:accept()
    c:read(1)
    local batch = what:rep((1 << 16) // #what)
    repeat until not c:write(batch)
  end, bytes)
  return ("corbaloc:iiop:1.2@127.0.0.1:%d/key"):format(place:receive())
end

describe("a server that floods", function()
  local filler = ("x"):rep(64)
  local floods = {
    ["with replies that nobody asked for"] = core.reply(2, true, 0x70000000, 0, nil, filler),
    ["with messages in pieces that nobody asked for"] = string.pack("<c4BBBBI4I4I4I4", "GIOP", 1, 2, 3, 1, 76, 0x70000000, 0, 0) .. filler ..
      string.pack("<c4BBBBI4I4", "GIOP", 1, 2, 1, 7, 68, 0x70000000) .. filler,
    ["with pieces of one reply"] = string.pack("<c4BBBBI4I4", "GIOP", 1, 2, 3, 7, 68, 1) .. filler,
  }
  for name, bytes in pairs(floods) do
    it(name .. " keeps no call beyond its time, and no sibling from its turns", function()
      local timeout = 0.1
      local turns, what
      repeat                                                 -- a loaded machine may leave us no turns in so short a time
        timeout, turns = timeout * 3, 0
        local broker <close>, hello = calling.proxy(IDL, "Echo", flooding(bytes), { timeout = timeout })
        local over = false
        local sibling = fiber.spawn(function()
          while not over do
            turns = turns + 1
            mare.sleep(0.005)
          end
        end)
        local began = mare.clock()
        what = raised(hello.say, hello, "x")
        over = true
        assert.is_true(mare.clock() - began < LIMIT + timeout)
        if name ~= "with pieces of one reply" and what == "TIMEOUT 0 COMPLETED_MAYBE" then
          broker.transport.links[next(broker.transport.links)].used = 0
          what = raised(hello.say, hello, "x")
        end
        sibling:wait()
      until name == "with pieces of one reply" or what == "TIMEOUT 0 COMPLETED_MAYBE" and turns > 5 or timeout > 5
      if name == "with pieces of one reply" then           -- those are refused: no message began
        assert.equal("COMM_FAILURE 0 COMPLETED_MAYBE", what)
      else
        assert.equal("TIMEOUT 0 COMPLETED_MAYBE", what)
        assert.is_true(turns > 5, turns .. " turns")
      end
    end)
  end
end)

describe("calls of one object", function()
  it("may be told different things at once: elsewhere, or another way to name it", function()
    local place
    local elsewhere <close> = peer.serve(peer.echo)
    local server <close> = peer.serve(function(c)
      local one, two = c:request(), c:request()
      c:reply(one, place, 3)
      c:reply(two, string.pack("<i2", 2), 5)
      peer.echo(c)
    end)
    place = peer.reference({ { "127.0.0.1", elsewhere.port } }, "other")
    local _, ref = peer.reference({ { "127.0.0.1", server.port } }, "key")
    local broker <close>, hello = calling.proxy(IDL, "Echo", ref)
    local list = { hello._async:say("1"), hello._async:say("2") }
    for i = 1, 2 do assert.same({ true, tostring(i) }, { list[i]:wait(LIMIT) }) end
  end)
end)

describe("a connection that takes long to be made", function()
  it("is out of time for who has no more of it, not for others that wait for it", function()
    local listener = assert(net.listen { host = "127.0.0.1", port = 0, backlog = 1 })
    local host, port = listener:address()
    local full, missed = {}, 0
    repeat                                                 -- what the system accepts by itself; one may be late on a loaded machine
      local c = net.connect(host, port, { timeout = 0.05 })
      full[#full + 1], missed = c, c and 0 or missed + 1
    until missed == 3 or #full > 20
    local broker <close>, hello = calling.proxy(IDL, "Echo", ("corbaloc:iiop:1.2@%s:%d/key"):format(host, port))
    local hasty = hello:_with { timeout = 0.1 }._async:say("hasty")
    local patient = hello._async:say("patient")
    local ok, e = hasty:wait(LIMIT)
    assert.is_false(ok)
    assert.equal("TIMEOUT COMPLETED_NO", orb.exception.is_system(e) .. " " .. e.completed)
    local accepting = fiber.spawn(function()
      for socket in listener:connections() do
        fiber.spawn(function()
          local c = require "mare.orb.giop.connection".new(socket, { role = "server" })
          local message, _, bits, id, _, _, _, at = c:receive(LIMIT)
          if message then c:send(core.reply(bits >> 1, bits & 1, id, 0, nil, message:sub(at))) end
          c:receive(LIMIT)
          c:close()
        end)
      end
    end)
    assert.same({ true, "patient" }, { patient:wait(LIMIT) })
    listener:close()
    accepting:wait(LIMIT)
    for _, c in ipairs(full) do c:close() end
  end)
end)
