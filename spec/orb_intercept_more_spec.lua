-- Interceptors in many calls (which go through C), slots of PICurrent, components of references, processes, hostile contexts; and contexts of IDL.
local mare = require "mare"
local orb = require "mare.orb"
local giop = require "mare.orb.giop.core"
local ior = require "mare.orb.giop.ior"
local proc = require "spec.support.proc"

local IDL = [[
  interface Thing {
    string say(in string who);
    long fail(in long n);
    long wait(in long ms);
    string properties(in long n) context ("USER", "SITE_*");
  };
]]

-- f(proxy, reference, client, server)
local function with(of_client, of_server, servant, f)
  of_server.host, of_server.log, of_client.log = "127.0.0.1", function() end, function() end
  local server, client = orb.init(of_server), orb.init(of_client)
  server:load(IDL)
  client:load(IDL)
  local reference = server:serve(servant, "Thing", { key = "thing" })
  local fine, err = pcall(f, client:proxy(tostring(reference)), reference, client, server)
  client:close()
  server:shutdown(10 * proc.slow)
  if not fine then error(err, 0) end
end

describe("interceptors of many calls", function()
  it("are told of each, whatever goes wrong between", function()
    local n = { send_request = 0, receive_reply = 0, receive_exception = 0, receive_request = 0, send_reply = 0, send_exception = 0 }
    local refuse
    local function count(point)
      return function()
        n[point] = n[point] + 1
        if refuse == point then error(orb.system("NO_PERMISSION", 5, "COMPLETED_NO"), 0) end
      end
    end
    local a, s = {}, {}
    for _, point in ipairs { "send_request", "receive_reply", "receive_exception" } do a[point] = count(point) end
    for _, point in ipairs { "receive_request", "send_reply", "send_exception" } do s[point] = count(point) end
    function s.receive_request_service_contexts(_, info) info:add_reply_service_context(9, info.operation) end
    with({ interceptors = { a } }, { interceptors = { s } },
      { say = function(_, who) return "hi " .. who end, fail = function(_, k) error("mistake " .. k) end },
      function(p)
        for i = 1, 50 do
          assert.equal("hi " .. i, p:say(tostring(i)))
          if i % 5 == 0 then assert.equal("UNKNOWN", orb.exception.is_system(select(2, pcall(p.fail, p, i)))) end
          if i % 7 == 0 then assert.equal("BAD_PARAM", orb.exception.is_system(select(2, pcall(p.say, p, 3)))) end
        end
        assert.same({ send_request = 67, receive_reply = 50, receive_exception = 17, receive_request = 60, send_reply = 50, send_exception = 10 }, n)
        for _, point in ipairs { "send_request", "receive_reply", "receive_request", "send_reply" } do
          refuse = point
          local _, e = pcall(p.say, p, "x")
          assert.equal("NO_PERMISSION", orb.exception.is_system(e), point)
          refuse = nil
          assert.equal("hi x", p:say "x")
        end
      end)
  end)

  it("may wait and call, and hold up nobody", function()
    local inside = 0
    local p2
    local a = { send_request = function(_, info)
      if info.operation == "say" and inside == 0 then
        inside = inside + 1
        assert(p2:wait(1) == 1)
        mare.sleep(0.001)
        inside = inside - 1
      end
    end }
    local servant = { say = function(_, who) return who end, wait = function(_, ms) mare.sleep(ms / 1000) return ms end }
    with({ interceptors = { a } }, {}, servant, function(p)
      p2 = p
      for i = 1, 5 do assert.equal(tostring(i), p:say(tostring(i))) end
      local one, two = p._async:wait(20), p._async:say "now"
      assert.same({ true, "now" }, { two:wait(10 * proc.slow) })
      assert.same({ true, 20 }, { one:wait(10 * proc.slow) })
    end)
  end)
end)

describe("slots of PICurrent", function()
  it("go with a chain of calls: from the caller to interceptors, and from them to the servant", function()
    local slot, seen, of_server
    local a = function(broker)
      slot = broker:allocate_slot()
      return { send_request = function(_, info)
        seen = info:get_slot(slot)
        if seen then info:add_request_service_context(77, seen) end
      end }
    end
    local s = function(broker)
      local mine = broker:allocate_slot()
      of_server = function() return broker:pi_current():get_slot(mine) end
      return { receive_request_service_contexts = function(_, info)
        local fine, data = pcall(info.get_request_service_context, info, 77)
        if fine then info:set_slot(mine, data) end
      end }
    end
    with({ interceptors = { a } }, { interceptors = { s } }, { say = function() return of_server() or "none" end }, function(p, _, client)
      local current = client:pi_current()
      assert.equal("none", p:say "x")
      current:set_slot(slot, "transaction 7")
      assert.equal("transaction 7", p:say "x")
      assert.same({ true, "transaction 7" }, { p._async:say("x"):wait(10 * proc.slow) })
      current:set_slot(slot, nil)
      assert.equal("none", p:say "x")
      assert.equal("IDL:omg.org/PortableInterceptor/InvalidSlot:1.0", select(2, pcall(current.get_slot, current, 5))._repid)
    end)
  end)
end)

describe("an interceptor", function()
  it("adds components to references, which clients read", function()
    local got
    local s = { establish_components = function(_, info) info:add_ior_component(0x4d415245, "who made it") end }
    local a = { send_request = function(_, info)
      got = info:get_effective_component(0x4d415245)
      local fine, e = pcall(info.get_effective_component, info, 12345)
      assert(not fine and e.minor == 0x4f4d0000 | 28)
    end }
    with({ interceptors = { a } }, { interceptors = { s } }, { say = function() return "x" end }, function(p, reference)
      p:say "x"
      assert.equal("who made it", got)
      assert.equal("who made it", ior.find(ior.parse(rawget(reference, "_ior")).profiles[1], 0x4d415245))
    end)
  end)

  it("is refused where it is registered if it is none, or has a name that another has", function()
    assert.is_truthy(select(2, pcall(orb.init, { interceptors = { { send_reqest = print } } })):find("did you mean 'send_request'", 1, true))
    assert.is_truthy(select(2, pcall(orb.init, { interceptors = { 3 } })):find "an interceptor is a table")
    local _, e = pcall(orb.init, { interceptors = { { name = "a", send_request = print }, { name = "a", send_request = print } } })
    assert.equal("IDL:omg.org/PortableInterceptor/ORBInitInfo/DuplicateName:1.0", e._repid)
  end)

  it("may be registered when calls were made already, and goes with the processes of an object", function()
    local n = 0
    local mark = { receive_request = function(_, info)
      info:add_reply_service_context(5000, info.object_id .. " " .. info.target_most_derived_interface)
    end }
    with({}, { interceptors = { mark } }, { say = function() return "x" end }, function(p, _, client, server)
      p:say "x"
      local got
      client:intercept { receive_reply = function(_, info) n, got = n + 1, info:get_reply_service_context(5000) end }
      p:say "x"
      assert.same({ 1, "thing IDL:Thing:1.0" }, { n, got })
      local many = server:serve(function() return { say = function() return "member" end } end, "Thing", { processes = 1, key = "many" })
      assert.equal("member", client:proxy(tostring(many)):say "x")
      assert.equal("many IDL:Thing:1.0", got)
    end)
  end)
end)

describe("service contexts from outside", function()
  it("that say they are longer than their message are refused, and nobody else is harmed", function()
    local s = { receive_request = function(_, info) pcall(info.get_request_service_context, info, 6) end }
    with({}, { interceptors = { s } }, { say = function(_, who) return who end }, function(p, _, _, server)
      local host, port = server:address():match "^(.*):(%d+)$"
      local message = giop.request(2, true, 3, "thing", "say", { { 6, ("x"):rep(64) } }, 1, ("\2\0\0\0x\0"))
      local at = assert(message:find(string.pack("<I4I4", 6, 64), 1, true))
      for _, size in ipairs { 0x7fffffff, 0xffffffff, 65536 } do
        local socket = assert(mare.net.connect(host, tonumber(port)))
        socket:write(message:sub(1, at + 3) .. string.pack("<I4", size) .. message:sub(at + 8))
        local answer = socket:read(8)
        assert.equal("GIOP\1\2", answer and answer:sub(1, 6))
        assert.equal(6, answer:byte(8))                     -- MessageError
        socket:close(0)
      end
      assert.equal("still", p:say "still")
    end)
  end)
end)

describe("a context of an operation", function()
  it("sends the properties that its IDL lists, and the servant gets them last", function()
    local function show(_, n, properties)
      local list = {}
      for name, value in pairs(properties) do list[#list + 1] = name .. "=" .. value end
      table.sort(list)
      return n .. " " .. table.concat(list, " ")
    end
    with({ context = { USER = "ann", HOME = "/", SITE_A = "1" } }, {}, { properties = show }, function(p, own)
      assert.equal("1 SITE_A=1 USER=ann", p:properties(1))
      assert.equal("2 SITE_A=2 SITE_B=3 USER=ann", p:properties(2, { SITE_A = "2", SITE_B = "3", OTHER = "4" }))
      assert.equal("3 USER=bob", own:properties(3, { USER = "bob" }))
      assert.equal("BAD_CONTEXT", orb.exception.is_system(select(2, pcall(p.properties, p, 1, { USER = 7 }))))
    end)
  end)
end)
