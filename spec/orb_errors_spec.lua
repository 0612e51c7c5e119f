-- What errors tell the people who get them: which operation, where, what to do about it; and what mistakes are refused, instead of being passed over.
local orb = require "mare.orb"
local proc = require "spec.support.proc"

local IDL = [[
  module Fleet {
    struct Pos { long lat; long lon; };
    union Work switch (long) { case 1: case 2: Pos target; case 3: string why; default: boolean flag; };
    exception NoSuchTruck { string id; };
    interface Listener { string moved(in Pos p); };
    interface Depot {
      attribute string manager;
      readonly attribute long size;
      string find(in string id) raises (NoSuchTruck);
      Work order(in Work t);
      any keep(in any a);
    };
  };
]]

local function servant()
  local depot = { manager = "Ann", size = 3 }
  function depot.find(_, id)
    if id == "none" then error(orb.exception.user("IDL:Fleet/NoSuchTruck:1.0", { id = id }), 0) end
    if id == "void" then error(orb.system("NO_IMPLEMENT", 0, "COMPLETED_NO"), 0) end
    return id:upper()
  end
  function depot.order(_, t) return t end
  function depot.keep(_, a) return a end
  return depot
end

-- f(depot, its reference, client, the server's address)
local function with(f, of_client)
  local server, client = orb.init { host = "127.0.0.1", log = function() end }, orb.init(of_client)
  server:load(IDL)
  if not of_client then client:load(IDL) end
  local reference = tostring(server:serve(servant(), "Fleet::Depot", { key = "depot" }))
  local fine, err = pcall(function() f(client:proxy(reference), reference, client, server:address()) end)
  client:close()
  server:shutdown(20 * proc.slow)
  if not fine then error(err, 0) end
end

local function raised(f, ...)
  local fine, e = pcall(f, ...)
  assert.is_false(fine)
  return tostring(e)
end

describe("an exception", function()
  it("of a reply says which operation of which server raised it", function()
    with(function(depot, _, _, at)
      for _ = 1, 3 do                            -- the first call goes another way than those that follow
        assert.equal("CORBA::NO_IMPLEMENT (COMPLETED_NO): Fleet::Depot::find at " .. at, raised(depot.find, depot, "void"))
        assert.equal("Fleet::NoSuchTruck: id = \"none\"", raised(depot.find, depot, "none"))
      end
      local plain = "CORBA::OBJECT_NOT_EXIST (OMG minor 1: there is no such object, COMPLETED_NO): Fleet::Depot::_get_size at " .. at
      local client <close> = orb.init { ORBverifyObjectExistsAndType = 0, interceptors = { { send_request = function() end } } }
      client:load(IDL)
      local gone = client:proxy("corbaloc::1.2@" .. at .. "/nobody", "Fleet::Depot")
      for _ = 1, 3 do assert.equal(plain, raised(function() return gone.size end)) end
    end)
  end)

  it("of an argument says of which operation", function()
    with(function(depot)
      for _ = 1, 3 do
        assert.equal("CORBA::BAD_PARAM (COMPLETED_NO): Fleet::Depot::find: id: string expected, got 7", raised(depot.find, depot, 7))
        assert.equal("CORBA::BAD_PARAM (COMPLETED_NO): Fleet::Depot::find: 1 argument expected, got 2", raised(depot.find, depot, "a", 2))
        assert.matches("Fleet::Depot::_set_manager: value: string expected, got 7$", raised(function() depot.manager = 7 end))
      end
    end)
  end)

  it("is asked for by its name or its type, too", function()
    with(function(depot, _, client)
      local is = orb.exception.is
      local _, e = pcall(depot.find, depot, "none")
      for _, what in ipairs { "IDL:Fleet/NoSuchTruck:1.0", "Fleet::NoSuchTruck", client.types.Fleet.NoSuchTruck } do assert.is_true(is(e, what)) end
      for _, what in ipairs { "NoSuchTruck", "IDL:Fleet/NoSuchTruck:2.0", "Fleet::Depot", client.types.Fleet.Pos, 7, "" } do
        assert.is_false(is(e, what))
      end
      e = orb.system "TRANSIENT"
      assert.is_true(is(e, "CORBA::TRANSIENT"))
      assert.is_false(is(e, "CORBA::COMM_FAILURE"))
      assert.is_true(is(orb.exception.user "IDL:acme.com/old/Fleet/Gone:1.0", "old::Fleet::Gone"))
      assert.is_false(is("CORBA::TRANSIENT", "CORBA::TRANSIENT"))
    end)
  end)

  it("shows the whole text of its members, if that is no book", function()
    local broker <close> = orb.init { host = "127.0.0.1" }
    assert.matches("no policy value 'PERSISTANT'; did you mean 'PERSISTENT'%?\"$",
                   raised(broker:poa().create_POA, broker:poa(), "a", nil, { "PERSISTANT" }))
    local e = orb.exception.user("IDL:M/E:1.0", { why = ("x"):rep(401), list = { ("y"):rep(61) } })
    assert.equal('M::E: list = { "' .. ("y"):rep(57) .. '..." }, why = "' .. ("x"):rep(397) .. '..."', tostring(e))
  end)
end)

describe("a name that an interface lacks", function()
  local here = "orb_errors_spec.lua:%d+: interface '"

  it("is an error at the program's line, whatever has been learned of the object meanwhile", function()
    with(function(depot)
      local async = depot._async
      assert.matches(here .. "Fleet::Depot' has no operation or attribute 'fnd'; did you mean 'find'%?$", raised(function() return depot:fnd() end))
      assert.matches(here .. "Fleet::Depot' has no operation or attribute 'fnd'", raised(function() return async:fnd() end))
      assert.matches(here .. "Fleet::Depot' has no attribute 'sise'", raised(function() depot.sise = 1 end))
      local listener = depot:_unchecked_narrow "Fleet::Listener"
      assert.matches(here .. "Fleet::Listener' has no operation or attribute 'find'", raised(function() return listener:find "x" end))
    end)
    with(function(depot)                         -- its interface is asked for
      assert.matches(here .. "Fleet::Depot' has no operation or attribute 'moved'$", raised(function() return depot:moved {} end))
      local plain = depot:_unchecked_narrow "Object"
      assert.matches(here .. "Fleet::Depot' has no operation or attribute 'fnd'", raised(function() return plain:fnd() end))
      assert.matches(here .. "Fleet::Depot' has no attribute 'sise'", raised(function() plain.sise = 1 end))
    end, { repository = true })
  end)

  it("is one where its IDL was loaded after the proxy was made, too", function()
    with(function(_, reference)
      local client <close> = orb.init()
      client:load "module Fleet { interface Listener; interface Yard { Listener first(); }; };"
      local listener = client:proxy(reference, "Fleet::Listener")
      client:load(IDL)
      assert.matches(here .. "Fleet::Listener' has no operation or attribute 'mved'; did you mean 'moved'%?$",
                     raised(function() return listener:mved() end))
      assert.matches(here .. "Fleet::Listener' has no attribute 'mved'", raised(function() listener.mved = 1 end))
      assert.is_function(listener.moved)
    end)
  end)

  it("says how its interface gets known, if that is not", function()
    with(function(_, reference, client, at)
      local unnamed = client:proxy("corbaloc::1.2@" .. at .. "/depot")
      local hint = "CORBA::Object' has no operation or attribute 'find'; its reference does not tell its interface: name it, " ..
        'broker:proxy%(reference, "Mod::Name"%), or let its server be asked, orb.init{ repository = true }$'
      assert.matches(here .. hint, raised(function() return unnamed:find "x" end))
      local other <close> = orb.init()
      local unloaded = other:proxy(reference)
      assert.matches(here .. "CORBA::Object' has no operation or attribute 'find'; it is of type 'IDL:Fleet/Depot:1.0', whose IDL is not loaded: " ..
                     "see broker:load", raised(function() return unloaded:find "x" end))
      assert.equal("X", client:proxy(unloaded, "Fleet::Depot"):find "x")
    end)
  end)
end)

describe("a value", function()
  it("of a union with two of its members is refused", function()
    with(function(depot)
      local pos = { lat = 1, lon = 2 }
      for _ = 1, 3 do
        assert.matches("Fleet::Depot::order: t: one member of union [%w:]*Work expected, got 'target' and 'why'$",
          raised(depot.order, depot, { target = pos, why = "x" }))
        assert.matches("got 'why' and 'flag'$", raised(depot.order, depot, { flag = false, why = "x" }))
        assert.same({ _switch = 1, _field = "target", _value = pos }, depot:order { target = pos })
        assert.same({ _switch = 3, _field = "why", _value = "x" }, depot:order { why = "x", note = "its own", [1] = true })
        assert.same({ _switch = 3, _field = "why", _value = "x" }, depot:order { _field = "why", _value = "x", target = pos })
      end
      local class = setmetatable({ why = "x" }, { __index = { flag = true } })           -- what its class gives is none of its own
      assert.equal("x", depot:order(class)._value)
      local early = setmetatable({ flag = true }, { __index = { why = "x" } })           -- whichever of them IDL has first
      assert.same({ true, "flag" }, { depot:order(early)._value, depot:order(early)._field })
      assert.equal("x", depot:order(setmetatable({}, { __index = { why = "x", flag = true } }))._value)
    end)
  end)

  it("of an any whose type is a text is refused with what makes a type of it", function()
    with(function(depot, _, client)
      assert.matches("a._anytype: a type expected, got 'Fleet::Pos': broker:type makes one of such a text$",
        raised(depot.keep, depot, { _anytype = "Fleet::Pos", _anyval = { lat = 1, lon = 2 } }))
      assert.same({ lat = 1, lon = 2 }, depot:keep({ _anytype = client:type "Fleet::Pos", _anyval = { lat = 1, lon = 2 } })._anyval)
    end)
  end)
end)

describe("a mistake", function()
  it("among an adapter's policies is refused", function()
    local broker <close> = orb.init { host = "127.0.0.1" }
    broker:load(IDL)
    local root = broker:poa()
    assert.matches("^CORBA::BAD_PARAM.*there is no 'interfac'; did you mean 'interface'%?$",
                   raised(root.create_POA, root, "a", nil, { interfac = "Fleet::Depot" }))
    assert.matches("there is no 'lifespan'$", raised(root.create_POA, root, "a", nil, { lifespan = "PERSISTENT" }))
    assert.matches("there is no '3'", raised(root.create_POA, root, "a", nil, { "PERSISTENT", [3] = "USER_ID" }))
    assert.equal("a", root:create_POA("a", nil, { "PERSISTENT", "USER_ID", interface = "Fleet::Depot" }).the_name)
  end)

  it("in an interceptor's calls is found in the interceptor", function()
    local log, wrong = {}, nil
    local server = orb.init { host = "127.0.0.1", log = function() end }
    local client = orb.init { log = function(_, text) log[#log + 1] = text end,
                              interceptors = { { name = "t", send_request = function(_, info) wrong(info) end } } }
    for _, broker in ipairs { server, client } do broker:load(IDL) end
    local depot = client:proxy(tostring(server:serve(servant(), "Fleet::Depot")))
    local here = "orb_errors_spec.lua:%d+: "
    for name, f in pairs {
      add_request_service_context = function(info) info.add_request_service_context(77, "x") end,
      get_request_service_context = function(info) info.get_request_service_context(77) end,
      get_slot = function(info) info.get_slot(1) end,
      get_effective_component = function(info) info.get_effective_component "x" end,
    } do
      wrong = f
      assert.equal("UNKNOWN", orb.exception.is_system(select(2, pcall(depot.find, depot, "x"))))
      local hint = ("%s needs the request: write info:%s%%(…%%), with a colon"):format(name, name)
      assert.matches("interceptor 't' failed in send_request: .*" .. here .. hint, log[#log])
    end
    wrong = function(info) info.add_request_service_context(77, "x", true) end
    pcall(depot.find, depot, "x")
    assert.matches(here .. "add_request_service_context needs the request", log[#log])
    client:close()
    server:shutdown(20 * proc.slow)
  end)

  it("in the name of a capture is the option's", function()
    assert.matches("^orb.init: pcap: /nonexistent/x: No such file", raised(orb.init, { pcap = "/nonexistent/x" }))
  end)
end)
