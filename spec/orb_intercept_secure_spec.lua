-- Interceptors of brokers with TLS, and with a name and a password in each request (CSIv2, GSSUP).
-- needs: plain
local orb = require "mare.orb"
local gssup = require "mare.orb.giop.gssup"
local certificates = require "spec.support.certificates"
local proc = require "spec.support.proc"

local c
setup(function() c = certificates() end)
teardown(function() c.remove() end)

local IDL = "interface Door { string open(in string who); oneway void ring(); };"
local LIMIT = 30 * proc.slow
local OURS, SAS = 0x4d415245, gssup.CONTEXT

-- f(client(options) -> a proxy and its broker, seen, server): `seen` are the lines that the server's interceptor has written.
local function with(f, of_server)
  local seen, clients = {}, {}
  local server
  local watch = { name = "watch",
    receive_request_service_contexts = function(_, info)
      local who = gssup.read(info:get_request_service_context(SAS))
      local fine, ours = pcall(info.get_request_service_context, info, OURS)
      seen[#seen + 1] = ("%s %s as %s, %s"):format(info.operation, who.user, tostring(server:current().user), fine and ours or "none")
      assert(info.peer.tls and info.peer.host == "127.0.0.1")
    end,
    receive_request = function(_, info)
      if info.operation ~= "ring" then info:add_reply_service_context(OURS, "for " .. server:current().user) end
    end,
  }
  watch.send_exception = function(_, info) seen[#seen + 1] = "sent " .. orb.exception.is_system(info.sending_exception) end
  local options = { args = { "-ORBendPoint", "giop:ssl:127.0.0.1:" }, tls = { ca = c.ca, cert = c.cert, key = c.key }, log = function() end,
                    authenticate = function(user, password) return (user == "ann" or user == "bob") and password == user .. "'s" end,
                    interceptors = { watch } }
  for name, value in pairs(of_server or {}) do options[name] = value end
  server = orb.init(options)
  server:load(IDL)
  local rung = require "mare".channel.new(9)
  local reference = tostring(server:serve({
    open = function(_, who) return server:current().user .. " opens for " .. who end,
    ring = function() rung:send(server:current().user) end,
  }, "Door"))
  local function client(more)
    local all = { tls = { ca = c.ca }, timeout = LIMIT, log = function() end }
    for name, value in pairs(more) do all[name] = value end
    local broker = orb.init(all)
    broker:load(IDL)
    clients[#clients + 1] = broker
    return broker:proxy(reference, "Door"), broker
  end
  local fine, err = pcall(f, client, seen, rung)
  for _, broker in ipairs(clients) do broker:close() end
  server:shutdown(LIMIT)
  if not fine then error(err, 0) end
end

-- An interceptor of a client: it adds OURS, and keeps what comes back in `heard`.
local function marking(heard, more)
  return {
    send_request = function(_, info)
      if info.response_expected then info:add_request_service_context(OURS, "from " .. info.operation) end
      if more then more(info) end
    end,
    receive_reply = function(_, info)
      local fine, sas = pcall(info.get_reply_service_context, info, SAS)
      heard[#heard + 1] = info:get_reply_service_context(OURS) .. (fine and " " .. #sas or "")
    end,
    receive_exception = function(_, info) heard[#heard + 1] = tostring(info.received_exception) end,
  }
end

describe("interceptors beside a name and a password over TLS", function()
  it("are told who calls, and their service contexts go beside the name, in every version of GIOP", function()
    with(function(client, seen, rung)
      for _, version in ipairs { "1.0", "1.1", "1.2" } do
        local heard = {}
        local door = client { user = "ann", password = "ann's", ORBmaxGIOPVersion = version, interceptors = { marking(heard) } }
        for i = 1, 4 do
          assert.equal("ann opens for " .. i, door:open(tostring(i)))
          assert.equal("for ann", heard[i])
          assert.equal("open ann as ann, from open", table.remove(seen))
        end
        door:ring()
        assert.equal("ann", rung:receive(LIMIT))
        assert.equal("ring ann as ann, none", table.remove(seen))
      end
      assert.same({}, seen)
    end)
  end)

  it("of a server are not told of who is refused; those of the client are, and hear why", function()
    with(function(client, seen)
      local heard = {}
      local door = client { user = "ann", password = "bob's", interceptors = { marking(heard) } }
      for i = 1, 3 do
        local _, e = pcall(door.open, door, "x")
        assert.equal("NO_PERMISSION", orb.exception.is_system(e))
        assert.matches("Door::open at 127.0.0.1:%d+ %(TLS%): the name and the password of 'ann' were refused", heard[i])
        assert.equal(tostring(e), heard[i])
      end
      assert.same({}, seen)
    end)
  end)

  it("may say who calls themselves, which counts more, also by an id that the server confirms", function()
    with(function(client, seen)
      local heard, who = {}, "bob"
      local function say(info)
        local data = gssup.establish(who, who .. "'s", "")
        info:add_request_service_context(SAS, data:sub(1, 8) .. string.pack("<I8", who == "bob" and 7 or 8) .. data:sub(17))
      end
      local door = client { user = "ann", password = "ann's", interceptors = { marking(heard, say) } }
      for i = 1, 4 do
        who = i % 2 == 0 and "ann" or "bob"
        assert.equal(who .. " opens for x", door:open "x")
        assert.equal("for " .. who .. " 24", heard[i])                   -- our context, and the server's CompleteEstablishContext
        assert.equal(("open %s as %s, from open"):format(who, who), seen[i])
      end
      who = "eve"
      assert.is_false(pcall(door.open, door, "x"))
      assert.matches("^CORBA::NO_PERMISSION.*: who calls was said by an interceptor, and refused", heard[5])
      assert.equal(4, #seen)
    end)
  end)

  it("of a server may refuse what the name may not do", function()
    local guard = { name = "guard", receive_request = function(_, info)
      if info.operation == "open" and info.arguments[1].value == "eve" then error(orb.system("NO_PERMISSION", 3, "COMPLETED_NO"), 0) end
    end, send_exception = function() end }
    with(function(client)
      local door = client { user = "ann", password = "ann's", interceptors = { { send_request = function() end } } }
      for _ = 1, 3 do
        assert.equal("ann opens for bob", door:open "bob")
        local _, e = pcall(door.open, door, "eve")
        assert.same({ "NO_PERMISSION", 0x4f4d0003, "COMPLETED_NO" }, { orb.exception.is_system(e), e.minor, e.completed })
      end
    end, { interceptors = { guard } })
  end)
end)
