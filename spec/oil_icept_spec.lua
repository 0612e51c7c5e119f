-- OiL's interceptors: what they are told, what they may change, contexts, forwarding.
-- needs: plain
local oil = require "oil"
local server = require "spec.support.oil.server"

local IDL = "interface Join { string concat(in string a, in string b); string seen(); };"

-- How the server's interceptor behaves is the argument.
local function join_server(_, orb, how)                        -- luacheck: ignore
  orb:loadidl(how.idl)
  orb:setonerror(function() end)
  local seen = ""
  orb:newservant({ concat = function(_, a, b) return a .. b end, seen = function() return seen end, __type = "Join" }, "join")
  local interceptor = {}
  function interceptor:receiverequest(request)                 -- luacheck: ignore self
    if request.operation_name ~= "concat" then return end
    seen = seen .. "(" .. (request.service_context[1234] or "") .. ")"
    if how.refuse then
      request.success, request.results = false, { orb:newexcept { "CORBA::NO_PERMISSION", minor = 5, completed = "COMPLETED_NO" } }
    elseif how.answer then
      request.success, request.results = true, { request.parameters[1] .. "=" .. request.parameters[2] }
    elseif how.swap then
      request.parameters[1], request.parameters[2] = request.parameters[2], request.parameters[1]
    elseif how.fail then
      error "not today"
    end
  end
  function interceptor:sendreply(reply)                        -- luacheck: ignore self
    if reply.operation_name ~= "concat" then return end
    reply.reply_service_context = { [4321] = tostring(reply.success) .. reply.reply_status }
    if how.upper then reply.results[1] = reply.results[1]:upper() end
  end
  orb:setserverinterceptor(interceptor)
  return ("corbaloc::127.0.0.1:%d/join"):format(orb.port)
end

local function with_join(how, f)
  how.idl = IDL
  local reference <close> = server(join_server, how)
  oil.main(function()
    local orb = oil.init {}
    orb:loadidl(IDL)
    local fine, err = xpcall(f, debug.traceback, orb, orb:newproxy(reference.text, nil, "Join"))
    orb:shutdown()
    if not fine then error(err, 0) end
  end)
end

describe("OiL's interceptors", function()
  it("carry contexts with requests and replies", function()
    with_join({}, function(orb, join)
      local heard
      orb:setclientinterceptor {
        sendrequest = function(_, request) request.service_context = { [1234] = "ctx" } end,
        receivereply = function(_, reply) heard = heard or reply.reply_service_context[4321] end,
      }
      assert.equal("ab", join:concat("a", "b"))
      assert.equal("trueNO_EXCEPTION", heard)
      assert.equal("(ctx)", join:seen())
      assert.equal("xy", orb:newproxy(join, "asynchronous"):concat("x", "y"):evaluate())
    end)
  end)
  it("of the server answer, refuse, and change what is given and what is got", function()
    with_join({ answer = true }, function(_, join) assert.equal("a=b", join:concat("a", "b")) end)
    with_join({ swap = true }, function(_, join) assert.equal("ba", join:concat("a", "b")) end)
    with_join({ upper = true }, function(_, join) assert.equal("AB", join:concat("a", "b")) end)
    with_join({ refuse = true }, function(orb, join)
      local fine, e = orb:newproxy(join, "protected"):concat("a", "b")
      assert.same({ false, "IDL:omg.org/CORBA/NO_PERMISSION:1.0", 5, "COMPLETED_NO" }, { fine, e._repid, e.minor, e.completed })
    end)
    with_join({ fail = true }, function(_, join)
      assert.equal("IDL:omg.org/CORBA/UNKNOWN:1.0", (select(2, pcall(join.concat, join, "a", "b")))._repid)
    end)
  end)
  it("of the client answer, change, fail, and send elsewhere", function()
    with_join({}, function(orb, join)
      local nobody = orb:newproxy("corbaloc::no-such-host.invalid:9/join", nil, "Join")
      orb:setclientinterceptor { sendrequest = function(_, request)
        if request.reference == nobody.__reference then request.reference = join.__reference end
        if request.parameters[1] == "own" then request.success, request.results = true, { "answered" } end
        if request.parameters[1] == "bad" then error "no such words" end
        if request.parameters[1] == "old" then request.parameters[1] = "new" end
      end }
      assert.equal("answered", nobody:concat("own", ""))
      assert.equal("newb", nobody:concat("old", "b"))
      assert.matches("no such words", (select(2, pcall(join.concat, join, "bad", ""))))
      local times = 0
      orb:setclientinterceptor { receivereply = function(_, reply)
        times = times + 1
        if reply.reference == nobody.__reference then reply.success, reply.reference = nil, join.__reference end
      end }
      assert.equal("ab", nobody:concat("a", "b"))
      assert.equal(2, times)
      orb:setclientinterceptor(nil)
      assert.is_false((pcall(nobody.concat, nobody, "a", "b")))
    end)
  end)
  it("see one table from end to end, and know the operation", function()
    with_join({}, function(orb, join)
      local tables, told = {}, nil
      local interceptor = {}
      function interceptor.sendrequest(_, request)
        tables[1] = request
        told = { request.operation_name, request.operation == request.interface.definitions.concat, request.object_key, request.response_expected,
                 request.parameters.n, request.profile.iiop_version.minor }
      end
      function interceptor.receivereply(_, reply) tables[2] = reply end
      orb:setinterceptor(interceptor, "corba.client")
      join:concat("a", "b")
      assert.equal(tables[1], tables[2])
      assert.same({ "concat", true, "join", true, 2, 0 }, told)
      assert.equal(interceptor, orb:getinterceptor "corba.client")
      assert.is_nil(orb:getinterceptor "corba")
    end)
  end)
  it("have the manual's older form without 'corba.'", function()
    with_join({}, function(orb, join)
      local seen
      orb:setinterceptor({ sendrequest = function(_, request)
        request.service_context[1234] = "old"
        seen = { request.operation, request.n, request[1] }
      end }, "client")
      assert.equal("ab", join:concat("a", "b"))
      assert.same({ "concat", 2, "a" }, seen)
      orb:setinterceptor(nil, "client")
      assert.equal("(old)", join:seen())
    end)
  end)
end)
