-- Interceptors: who is told of what, in which order, and what those change that raise or forward.
local mare = require "mare"
local orb = require "mare.orb"
local proc = require "spec.support.proc"

local OMG = 0x4f4d0000
local CLIENT = { "send_request", "receive_reply", "receive_exception", "receive_other" }
local SERVER = { "receive_request_service_contexts", "receive_request", "send_reply", "send_exception", "send_other" }
local IDL = [[
  module I {
    exception Worse { string why; };
    interface Thing {
      string say(in string who, out long n);
      void fail() raises (Worse);
      void lua_error();
      oneway void note(in string text);
      attribute long x;
      long wait(in long ms);
    };
  };
]]
local SHORT = { send_request = "request", receive_reply = "reply", receive_exception = "exception", receive_other = "other",
                receive_request_service_contexts = "contexts", receive_request = "received", send_reply = "answered", send_exception = "raised",
                send_other = "otherwise" }

-- An interceptor that writes into `heard` what it is told; `does`: what it does at a point.
local function listener(name, points, heard, does)
  local self = { name = name }
  for _, point in ipairs(points) do
    self[point] = function(_, info)
      heard[#heard + 1] = name .. " " .. SHORT[point]
      if does and does[point] then return does[point](info) end
    end
  end
  return self
end

local function servant(broker)
  return { say = function(_, who) return "hi " .. who, #who end, fail = function() error(broker.types.I.Worse { why = "so" }) end,
           lua_error = function() error "a mistake" end, note = function() end, x = 3,
           wait = function(_, ms) mare.sleep(ms / 1000) return ms end }
end

-- f(proxy, reference, client, server); interceptors of both sides.
local function with(of_client, of_server, f)
  local server = orb.init { host = "127.0.0.1", interceptors = of_server, log = function() end }
  local client = orb.init { interceptors = of_client, log = function() end }
  server:load(IDL)
  client:load(IDL)
  local reference = server:serve(servant(server), "I::Thing", { key = "thing" })
  local fine, err = pcall(f, client:proxy(tostring(reference)), reference, client, server)
  client:close()
  server:shutdown(10 * proc.slow)
  if not fine then error(err, 0) end
end

local function raised(name, minor, completed, f, ...)
  local fine, e = pcall(f, ...)
  assert.is_false(fine, "it raised nothing")
  assert.same({ name, minor, completed }, { orb.exception.is_system(e), (e.minor or 0) & 0xfff, e.completed }, tostring(e))
  return e
end

local function drain(heard)
  local text = table.concat(heard, ", ")
  for i = #heard, 1, -1 do heard[i] = nil end
  return text
end

describe("interceptors are told", function()
  it("in order of the start, in reverse order of the end, on both sides", function()
    local heard = {}
    with({ listener("A", CLIENT, heard), listener("B", CLIENT, heard) }, { listener("S", SERVER, heard), listener("T", SERVER, heard) }, function(p)
      assert.same({ "hi you", 3 }, { p:say "you" })
      assert.equal("A request, B request, S contexts, T contexts, S received, T received, T answered, S answered, B reply, A reply", drain(heard))
      assert.equal("so", select(2, pcall(p.fail, p)).why)
      assert.equal("A request, B request, S contexts, T contexts, S received, T received, T raised, S raised, B exception, A exception", drain(heard))
      assert.equal(3, p.x)
      assert.is_truthy(drain(heard):find("S received, T received, T answered", 1, true))
      assert.is_false(p:_non_existent())
      assert.is_truthy(drain(heard):find("S received, T received, T answered", 1, true))
    end)
  end)

  it("of calls of the broker's own objects, both sides; what is raised is raised as it is", function()
    local heard = {}
    local both = {}
    for _, name in ipairs(CLIENT) do both[#both + 1] = name end
    for _, name in ipairs(SERVER) do both[#both + 1] = name end
    with({}, { listener("L", both, heard) }, function(_, own)
      assert.same({ "hi me", 2 }, { own:say "me" })
      assert.equal("L request, L contexts, L received, L answered, L reply", drain(heard))
      assert.is_truthy(select(2, pcall(own.lua_error, own)):find("a mistake", 1, true))
      assert.equal("L request, L contexts, L received, L raised, L exception", drain(heard))
    end)
  end)

  it("of local calls also where only the server's half has some", function()
    local heard = {}
    with({}, { listener("S", SERVER, heard) }, function(_, own)
      assert.equal("hi me", (own:say "me"))
      assert.equal("S contexts, S received, S answered", drain(heard))
      assert.equal("so", select(2, pcall(own.fail, own)).why)
      assert.equal("S contexts, S received, S raised", drain(heard))
    end)
  end)

  it("of one-way operations by the other points", function()
    local heard, over = {}, mare.channel.new(1)
    local late = listener("S", SERVER, heard, { send_other = function(info) over:send(info.reply_status) end })
    with({ listener("A", CLIENT, heard) }, { late }, function(p)
      p:note "x"
      assert.equal("SUCCESSFUL", (over:receive(10 * proc.slow)))
      local text = drain(heard)
      assert.is_truthy(text:find("A request, A other", 1, true), text)
      assert.is_truthy(text:find("S contexts, S received, S otherwise", 1, true), text)
    end)
  end)

  it("of the end only if their start came to its end", function()
    local heard, refuse = {}, nil
    local function start() if refuse then error(orb.system("NO_PERMISSION", 7, "COMPLETED_NO"), 0) end end
    with({ listener("A", CLIENT, heard), listener("B", CLIENT, heard, { send_request = start }), listener("C", CLIENT, heard) }, {}, function(p)
      p:say "x"
      drain(heard)
      refuse = true
      raised("NO_PERMISSION", 7, "COMPLETED_NO", p.say, p, "x")
      assert.equal("A request, B request, A exception", drain(heard))
    end)
  end)
end)

describe("an interceptor may", function()
  it("send a request to another object: the client is sent there, or the interceptor's own broker goes there for this call", function()
    local heard, other = {}, nil
    local target = orb.init { host = "127.0.0.1" }
    target:load(IDL)
    local there = target:serve({ say = function() return "there", 1 end }, "I::Thing")
    local function away(info)
      if info.effective_target ~= other then error(orb.forward_request(other)) end
    end
    with({ listener("A", CLIENT, heard), listener("B", CLIENT, heard, { send_request = function(info) if other then away(info) end end }) }, {},
      function(p, _, client)
        assert.equal("hi x", (p:say "x"))
        drain(heard)
        other = client:proxy(tostring(there))
        assert.equal("there", (p:say "x"))
        assert.equal("A request, B request, A other, A request, B request, B reply, A reply", drain(heard))
        other = nil
        assert.equal("hi x", (p:say "x"))
      end)
    local function send_away(info)
      if info.operation == "say" then error(orb.forward_request(there)) end
    end
    for _, point in ipairs { "receive_request_service_contexts", "receive_request" } do
      with({ listener("A", CLIENT, heard) }, { listener("S", SERVER, heard, { [point] = send_away }) }, function(p)
        drain(heard)
        assert.equal("there", (p:say "x"))
        assert.is_truthy(drain(heard):find("A other, A request, A reply", 1, true))
      end)
    end
    target:shutdown(true)
  end)

  it("raise a system exception in the place of a reply, but not forward there", function()
    local how = nil
    local function instead() if how then error(how(), 0) end end
    local function refusal() return orb.system("NO_RESOURCES", 3, "COMPLETED_YES") end
    local there
    local function forward() return orb.forward_request(there) end
    for _, sides in ipairs { { "receive_reply", CLIENT }, { "send_reply", SERVER } } do
      local one = listener("X", sides[2], {}, { [sides[1]] = instead })
      with(sides[2] == CLIENT and { one } or {}, sides[2] == SERVER and { one } or {}, function(p)
        there = p
        assert.equal("hi x", (p:say "x"))
        how = refusal
        raised("NO_RESOURCES", 3, "COMPLETED_YES", p.say, p, "x")
        how = forward
        raised("BAD_INV_ORDER", 14, "COMPLETED_YES", p.say, p, "x")
        how = nil
        assert.equal("hi x", (p:say "x"))
      end)
    end
  end)

  it("change an exception, and those before it are told of the new one", function()
    local heard, seen = {}, {}
    local function better(info)
      seen[1] = info.received_exception_id
      error(orb.system("TRANSIENT", 9, "COMPLETED_NO"), 0)
    end
    local first = listener("A", CLIENT, heard, { receive_exception = function(info) seen[2] = info.received_exception_id end })
    with({ first, listener("B", CLIENT, heard, { receive_exception = better }) }, {}, function(p)
      raised("TRANSIENT", 9, "COMPLETED_NO", p.fail, p)
      assert.same({ "IDL:I/Worse:1.0", "IDL:omg.org/CORBA/TRANSIENT:1.0" }, seen)
    end)
  end)

  it("be mistaken: that is UNKNOWN, is logged, and others are unharmed", function()
    local broken = {}
    for _, point in ipairs(SERVER) do
      broken[point] = function() if broken.on == point then error "the interceptor's mistake" end end
    end
    with({}, { listener("S", SERVER, {}, broken) }, function(p)
      for _, point in ipairs { "receive_request_service_contexts", "receive_request", "send_reply" } do
        broken.on = point
        raised("UNKNOWN", 0, point == "send_reply" and "COMPLETED_YES" or "COMPLETED_NO", p.say, p, "x")
        broken.on = nil
        assert.equal("hi x", (p:say "x"))
      end
      broken.on = "send_exception"
      raised("UNKNOWN", 0, "COMPLETED_YES", p.fail, p)
    end)
  end)
end)

describe("what an interceptor is told of a request", function()
  it("is there at the points of the standard's table; elsewhere it is BAD_INV_ORDER 14", function()
    local kept
    local early, late = {}, {}
    local function at(list)
      return function(info)
        kept = info
        for _, name in ipairs { "arguments", "result", "reply_status", "received_exception", "forward_reference", "target", "effective_profile" } do
          local fine, value = pcall(function() return info[name] end)
          list[name] = fine or (value.minor == OMG | 14 and "no")
        end
      end
    end
    local one = listener("A", CLIENT, {}, { send_request = at(early), receive_reply = at(late) })
    with({ one }, {}, function(p)
      p:say "x"
      assert.same({ arguments = true, result = "no", reply_status = "no", received_exception = "no", forward_reference = "no", target = true,
                    effective_profile = true }, early)
      assert.same({ arguments = true, result = true, reply_status = true, received_exception = "no", forward_reference = "no", target = true,
                    effective_profile = true }, late)
      raised("BAD_INV_ORDER", 14, "COMPLETED_NO", function() return kept.result end)
    end)
  end)

  it("travels in service contexts, both ways", function()
    local got = {}
    local data = ("\0\1\2x"):rep(1000)
    local a = listener("A", CLIENT, {}, {
      send_request = function(info)
        info:add_request_service_context(0x4d415245, data)
        got[1] = { pcall(info.add_request_service_context, info, 0x4d415245, "y") }
        got[2] = { pcall(info.add_request_service_context, info, 1, "code sets") }
      end,
      receive_reply = function(info) got[3] = info:get_reply_service_context(7) end })
    local s = listener("S", SERVER, {}, {
      receive_request_service_contexts = function(info) got[4] = info:get_request_service_context(0x4d415245) == data end,
      receive_request = function(info) got[5] = { pcall(info.get_request_service_context, info, 3) } end,
      send_reply = function(info)
        info:add_reply_service_context(7, "first")
        info:add_reply_service_context(7, "second", true)
      end })
    with({ a }, { s }, function(p)
      for _ = 1, 3 do
        assert.equal("hi x", (p:say "x"))
        assert.same({ OMG | 15, "BAD_PARAM", "second", true, OMG | 26 },
          { got[1][2].minor, orb.exception.is_system(got[2][2]), got[3], got[4], got[5][2].minor })
      end
    end)
  end)
end)
