-- Exceptions as Lua values: every standard one, texts, and how they travel; over the wire with spec/support/peer.lua.
local mare = require "mare"
local orb = require "mare.orb"
local exception = require "mare.orb.exception"
local peer = require "spec.support.peer"

-- Every system exception of CORBA 3.3 (part 1, 8.14.3, and annex A).
local NAMES = [[
  UNKNOWN BAD_PARAM NO_MEMORY IMP_LIMIT COMM_FAILURE INV_OBJREF NO_PERMISSION INTERNAL MARSHAL INITIALIZE NO_IMPLEMENT BAD_TYPECODE BAD_OPERATION
  NO_RESOURCES NO_RESPONSE PERSIST_STORE BAD_INV_ORDER TRANSIENT FREE_MEM INV_IDENT INV_FLAG INTF_REPOS BAD_CONTEXT OBJ_ADAPTER DATA_CONVERSION
  OBJECT_NOT_EXIST TRANSACTION_REQUIRED TRANSACTION_ROLLEDBACK INVALID_TRANSACTION INV_POLICY CODESET_INCOMPATIBLE REBIND TIMEOUT
  TRANSACTION_UNAVAILABLE TRANSACTION_MODE BAD_QOS INVALID_ACTIVITY ACTIVITY_COMPLETED ACTIVITY_REQUIRED THREAD_CANCELLED
]]

describe("a system exception", function()
  it("of every standard name arrives with its minor code and completion status", function()
    local name, minor, completed
    local server <close> = peer.serve(function(c)
      for q in function() return c:request() end do c:reply(q, peer.system(name, minor, completed), 2) end
    end)
    local broker <close> = orb.init { timeout = peer.LIMIT, ORBverifyObjectExistsAndType = 0 }
    broker:load "interface Echo { void nothing(); };"
    local object = broker:proxy(server.ref, "Echo")
    local words, count = { [0] = "COMPLETED_YES", "COMPLETED_NO", "COMPLETED_MAYBE" }, 0
    for word in NAMES:gmatch("%S+") do
      count = count + 1
      for status = 0, 2 do
        name, minor, completed = word, 0x4f4d0000 + count, status
        local ok, e = pcall(object.nothing, object)
        assert.is_false(ok)
        assert.same({ "IDL:omg.org/CORBA/" .. word .. ":1.0", minor, words[status], word },
                    { e._repid, e.minor, e.completed, exception.is_system(e) })
        assert.matches(("^CORBA::%s %%(OMG minor %d.*, %s%%): Echo::nothing at 127.0.0.1:%%d+$"):format(word, count, words[status]), tostring(e))
      end
    end
    assert.equal(count, #exception.names)
    assert.equal(40, count)
  end)

  it("that is no standard one is UNKNOWN minor 2", function()
    local server <close> = peer.serve(function(c)
      for q in function() return c:request() end do c:reply(q, peer.system("STRANGE", 1, 0), 2) end
    end)
    local broker <close> = orb.init { timeout = peer.LIMIT, ORBverifyObjectExistsAndType = 0 }
    broker:load "interface Echo { void nothing(); };"
    local ok, e = pcall(function() broker:proxy(server.ref, "Echo"):nothing() end)
    assert.is_false(ok)
    assert.same({ "UNKNOWN", 0x4f4d0002, "COMPLETED_YES" }, { exception.is_system(e), e.minor, e.completed })
    assert.matches("IDL:omg.org/CORBA/STRANGE:1.0", tostring(e))
  end)

  it("is made with the OMG's small minor codes or a vendor's whole one, and says what it can", function()
    for text, args in pairs {
      ["CORBA::TRANSIENT (OMG minor 2: no address of the reference answers, COMPLETED_NO)"] = { "TRANSIENT", 2 },
      ["CORBA::NO_PERMISSION (COMPLETED_NO)"] = { "NO_PERMISSION" },
      ["CORBA::MARSHAL (JacORB minor 5, COMPLETED_MAYBE)"] = { "MARSHAL", 0x4a430005, "COMPLETED_MAYBE" },
      ["CORBA::MARSHAL (minor 0x12345678, COMPLETED_YES)"] = { "MARSHAL", 0x12345678, "COMPLETED_YES" },
      ["CORBA::BAD_PARAM (OMG minor 7: no such scheme of references, COMPLETED_NO): because"] = { "BAD_PARAM", 7, "COMPLETED_NO", "because" },
      ["CORBA::INV_OBJREF (OMG minor 1, COMPLETED_NO): value: the reference names no code set for wide characters"] =
        { "INV_OBJREF", 1, "COMPLETED_NO", "value: the reference names no code set for wide characters" },
      ["CORBA::UNKNOWN (OMG minor 999, COMPLETED_NO)"] = { "UNKNOWN", 999 },
    } do assert.equal(text, tostring(orb.system(table.unpack(args)))) end
  end)
end)

describe("a system exception's name", function()
  it("is a standard one", function()
    assert.matches("^spec/orb_client_exception_spec.lua:%d+: there is no system exception 'NO_PERMISION'; did you mean 'NO_PERMISSION'%?",
                   (select(2, pcall(function() orb.system("NO_PERMISION") end))))
    assert.error_matches(function() orb.system() end, "there is no system exception 'nil'; such are NO_PERMISSION")
  end)
end)

describe("an exception", function()
  it("is made from its type, and shows its members", function()
    local broker <close> = orb.init()
    broker:load "module M { exception NotFound { string name; long line; }; exception Empty {}; };"
    local ok, e = pcall(function() error(broker.types.M.NotFound { name = "x\ny", line = 3 }) end)
    assert.is_false(ok)
    assert.same({ "IDL:M/NotFound:1.0", "x\ny", 3 }, { e._repid, e.name, e.line })
    assert.equal('M::NotFound: line = 3, name = "x\\ny"', tostring(e))
    assert.equal("M::Empty", tostring(broker.types.M.Empty()))
    local nested = broker.types.M.Empty {
      list = { { a = "x", b = { {} } }, {} }, deep = { { { { 1 } } } }, many = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 }
    }
    assert.equal('M::Empty: deep = { { { { ... } } } }, list = { { a = "x", b = { {} } }, {} }, many = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ... }',
                 tostring(nested))
    assert.is_true(exception.is(e, "IDL:M/NotFound:1.0"))
    assert.is_false(exception.is(e, "IDL:M/Empty:1.0"))
    assert.is_nil(exception.is_system(e))
    for _, other in ipairs { "text", 1, {}, { _repid = 1 } } do assert.is_false(exception.is(other)) end
  end)

  it("travels to other processes", function()
    local c = mare.channel.new(1)
    mare.process.spawn(function()
      local class = require "mare.orb.exception"
      c:send(class.system("NO_RESOURCES", 1, "COMPLETED_YES", "text"))
      c:send(class.user("IDL:M/E:1.0", { why = "so" }))
    end)
    local a, b = c:receive(peer.LIMIT), c:receive(peer.LIMIT)
    assert.equal("CORBA::NO_RESOURCES (OMG minor 1, COMPLETED_YES): text", tostring(a))
    assert.equal('M::E: why = "so"', tostring(b))
    assert.is_true(getmetatable(a) == exception and getmetatable(b) == exception)
  end)
end)
