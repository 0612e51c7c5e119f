-- Interface repositories that lie, go round in circles, never end, are slow or die: an exception for who asked, and nothing else changes.
-- needs: plain
local mare = require "mare"
local orb = require "mare.orb"

local BASE = "interface Known { string hello(); };"

-- A server with a repository of the test's making. world[id] = { kind =, about = any's value, type = its type, scoped =, contents = { id … } }; a
-- function in its place is called for it. f(client, evil: a reference whose interface is "IDL:Evil:1.0", known, broker)
local function with_world(world, limits, f)
  local broker = orb.init { host = "127.0.0.1" }
  broker:load("#include <ir.idl>\n" .. BASE)
  broker:load "interface Evil {};"
  local made, root = {}, {}
  local function any(w) return { _anytype = w.type and broker.types.CORBA[w.type] or w.anytype, _anyval = w.about } end
  local function definition(id)
    local w = world[id]
    if type(w) == "function" then w = w(id) end
    if made[id] or not w then return made[id] end
    if w.elsewhere then return w.elsewhere(broker) end
    local self = {}
    function self.describe() return { kind = w.kind, value = any(w) } end
    function self.describe_contents()
      local list = {}
      for i, inner in ipairs(w.contents or {}) do
        list[i] = { contained_object = definition(inner), kind = world[inner].kind, value = any(world[inner]) }
      end
      return list
    end
    self._get_absolute_name = function() return "::" .. (w.scoped or w.about.name) end
    self._get_id = function() return id end
    broker:serve(self, "CORBA::InterfaceDef")
    made[id] = self
    return self
  end
  function root.lookup_id(_, id) return definition(id) end
  local reference = tostring(broker:serve(root, "CORBA::Repository"))
  local evil = tostring(broker:serve({}, "Evil"))
  local known = tostring(broker:serve({ hello = function() return "still here" end }, "Known"))
  limits = limits or {}
  limits.at = reference
  local client = orb.init { repository = limits }
  client:load(BASE)
  local results = table.pack(pcall(f, client, evil, known, broker))
  client:close()
  broker:shutdown(5)
  if not results[1] then error(results[2], 0) end
end

-- What asking raises; others are unharmed, and nothing of it stays.
local function refused(world, pattern, limits, name)
  with_world(world, limits, function(client, evil, known)
    local before = #client.repository.contents
    local fine, err = pcall(client.proxy, client, evil)
    assert.is_false(fine, pattern)
    assert.equal(name or "INTF_REPOS", orb.exception.is_system(err), tostring(err))
    assert.matches(pattern, tostring(err))
    assert.equal(before, #client.repository.contents)
    assert.is_nil(client.repository:lookup "Evil")
    assert.equal("still here", client:proxy(known):hello())
  end)
end

local EVIL = "IDL:Evil:1.0"

local function interface(fields)
  local about = { name = "Evil", id = EVIL, defined_in = "", version = "1.0", base_interfaces = {} }
  for k, v in pairs(fields or {}) do about[k] = v end
  return { kind = "dk_Interface", type = "InterfaceDescription", about = about }
end

local function typed(kind, T, name)
  return { kind = kind, type = "TypeDescription", about = { name = name or T.name, id = T.id, defined_in = "", version = "1.0", type = T } }
end

local LONG = { kind = "long" }

local function struct(name, member_type)
  return { kind = "struct", id = "IDL:" .. name .. ":1.0", name = name, members = { { name = "x", type = member_type } } }
end

-- Evil, with one operation whose parameter has that type.
local function using(T, world)
  local evil = interface()
  evil.contents = { "IDL:Evil/op:1.0" }
  world[EVIL] = evil
  world["IDL:Evil/op:1.0"] = { kind = "dk_Operation", type = "OperationDescription", about = {
    name = "op", id = "IDL:Evil/op:1.0", defined_in = EVIL, version = "1.0", result = { kind = "void" }, mode = "OP_NORMAL", contexts = {},
    parameters = { { name = "p", type = T, type_def = nil, mode = "PARAM_IN" } }, exceptions = {} } }
  return world
end

describe("an interface repository that lies", function()
  it("about ids and names is refused, and its words are never IDL", function()
    refused({ [EVIL] = interface { id = "IDL:Other:1.0" } }, "gives 'IDL:Other:1%.0' where 'IDL:Evil:1%.0' was asked for")
    refused({ [EVIL] = interface { name = "Evil { }; interface Known" } }, "where a name is wanted")
    refused({ [EVIL] = interface { name = "" } }, "where a name is wanted")
    refused({ [EVIL] = interface { name = "__Evil" } }, "where a name is wanted")
    refused({ [EVIL] = interface { name = ("x"):rep(100000) } }, "where a name is wanted")
    local world = { [EVIL] = interface() }
    world[EVIL].scoped = "Evil::Nothing"
    refused(world, "calls 'Evil' also 'Evil::Nothing'")
    world[EVIL].scoped = "A::Evil"
    refused(world, "where a repository id is wanted")                 -- defined in nothing
    refused({ [EVIL] = interface { base_interfaces = { 'IDL:"\n#pragma:1.0' } } }, "where a repository id is wanted")
    refused({ [EVIL] = interface { base_interfaces = { "IDL:Nowhere:1.0" } } }, "does not know 'IDL:Nowhere:1%.0'")
    refused({}, "does not know 'IDL:Evil:1%.0'")
  end)

  it("about what it describes is refused", function()
    refused({ [EVIL] = { kind = "dk_Interface", anytype = LONG, about = 5, scoped = "Evil" } }, "describes 'IDL:Evil:1%.0' by nothing")
    refused({ [EVIL] = { kind = "dk_Interface", type = "ModuleDescription", about = interface().about } }, "gives no list of bases")
    refused({ [EVIL] = { kind = "dk_Repository", type = "InterfaceDescription", about = interface().about } }, "'dk_Repository' among definitions")
    refused({ [EVIL] = { kind = "dk_Struct", type = "InterfaceDescription", about = interface().about } }, "TypeCode of something else")
    local number = using(LONG, {})
    number[EVIL].contents = { "IDL:Evil/N:1.0" }
    number["IDL:Evil/N:1.0"] = { kind = "dk_Constant", type = "ConstantDescription", about = { name = "N", id = "IDL:Evil/N:1.0", defined_in = EVIL,
      version = "1.0", type = LONG, value = { _anytype = { kind = "string", bound = 0 }, _anyval = "5; };" } } }
    refused(number, "has no value of its type")
    refused({ [EVIL] = typed("dk_Alias", { kind = "alias", id = EVIL, name = "Evil", type = LONG }) }, "is no interface")
    refused(using(struct("S", LONG), { ["IDL:S:1.0"] = typed("dk_Alias", { kind = "alias", id = "IDL:S:1.0", name = "S", type = LONG }) }),
      "is a struct, and that it is a alias")
  end)

  it("about what contains what is refused", function()
    refused({ [EVIL] = interface { base_interfaces = { EVIL } } }, "is no correct IDL")
    refused(using({ kind = "interface", id = "IDL:Loop:1.0", name = "Loop" }, {
      ["IDL:Loop:1.0"] = { kind = "dk_Interface", type = "InterfaceDescription", scoped = "Loop::Loop",
                           about = { name = "Loop", id = "IDL:Loop:1.0", defined_in = "IDL:Loop:1.0", version = "1.0", base_interfaces = {} } } }),
      "more than 50 deep")
    local a, b = struct("A", LONG), struct("B", LONG)
    refused(using(a, { ["IDL:A:1.0"] = typed("dk_Struct", struct("A", b)), ["IDL:B:1.0"] = typed("dk_Struct", struct("B", a)) }), "is no correct IDL")
    local c, d = { kind = "alias", id = "IDL:C:1.0", name = "C" }, { kind = "alias", id = "IDL:D:1.0", name = "D" }
    c.type, d.type = { kind = "alias", id = d.id, name = "D", type = LONG }, { kind = "alias", id = c.id, name = "C", type = LONG }
    refused(using(c, { ["IDL:C:1.0"] = typed("dk_Alias", c), ["IDL:D:1.0"] = typed("dk_Alias", d) }), "is a typedef of itself")
    local twice = using(LONG, {})
    twice[EVIL].contents = { "IDL:Evil/op:1.0", "IDL:Evil/op:1.0", EVIL }
    refused(twice, "in two places")
  end)

  it("about a type by a value that points to itself is refused, too", function()
    local text = { kind = "string", bound = 0 }
    local V = { kind = "value", id = "IDL:V:1.0", name = "V", bases = {}, supports = {}, contents = {} }
    V.members = {}
    for i, name in ipairs { "kind", "id", "type" } do V.members[i] = { name = name, type = i == 3 and V or text, public = true } end
    V.state = V.members
    local S = { kind = "struct", id = "IDL:S:1.0", name = "S", members = { { name = "type", type = V } } }
    S.members[2] = { name = "value", type = { kind = "any" } }
    for i, name in ipairs { "name", "id", "defined_in", "version" } do table.insert(S.members, i, { name = name, type = text }) end
    local circle = { kind = "alias", id = "IDL:Evil/T:1.0" }
    circle.type = circle
    local world = using(LONG, {})
    world[EVIL].contents = { "IDL:Evil/T:1.0", "IDL:Evil/N:1.0" }
    world["IDL:Evil/T:1.0"] = typed("dk_Alias", { kind = "alias", id = "IDL:Evil/T:1.0", name = "T", type = LONG })
    world["IDL:Evil/N:1.0"] = { kind = "dk_Constant", anytype = S, about = { name = "N", id = "IDL:Evil/N:1.0", defined_in = EVIL, version = "1.0",
                                type = circle, value = { _anytype = LONG, _anyval = 5 } } }
    refused(world, "a type in a circle")
  end)

  it("about something the program knows is refused", function()
    local evil = interface()
    evil.contents = { "IDL:Known:1.0" }
    refused({ [EVIL] = evil, ["IDL:Known:1.0"] = { kind = "dk_Interface", type = "InterfaceDescription", about = {
      name = "Known", id = "IDL:Known:1.0", defined_in = EVIL, version = "1.0", base_interfaces = {} } } }, "has 'IDL:Known:1%.0' in 'Evil'")
    local T = { kind = "struct", id = "IDL:Mine:1.0", name = "Known", members = { { name = "x", type = LONG } } }
    refused(using(T, { ["IDL:Mine:1.0"] = typed("dk_Struct", T) }), "'Known' is already declared")
  end)
end)

describe("an interface repository without an end", function()
  local function chain(id)
    local n = tonumber(id:match "%d+") or 0
    return typed("dk_Struct", struct("S" .. n, struct("S" .. n + 1, LONG)))
  end
  local endless = setmetatable({}, { __index = function(_, id) return id:find "^IDL:S%d+:1%.0$" and chain or nil end })

  it("of definitions is left at its limit", function()
    refused(using(struct("S0", LONG), setmetatable({}, getmetatable(endless))), "more than 100 definitions", { definitions = 100 })
  end)

  it("of names is left at its limit", function()
    refused(using(struct("S0", LONG), setmetatable({}, getmetatable(endless))), "more than 1000 bytes of names", { bytes = 1000 })
  end)

  it("of contents is left at its limit", function()
    local world = using(LONG, {})
    for i = 1, 2000 do
      local id = ("IDL:Evil/e%d:1.0"):format(i)
      world[EVIL].contents[i] = id
      world[id] = { kind = "dk_Enum", type = "TypeDescription", about = { name = "e" .. i, id = id, defined_in = EVIL, version = "1.0",
                    type = { kind = "enum", id = id, name = "e" .. i, labels = { "l" .. i } } } }
    end
    refused(world, "gives too many definitions", { definitions = 100 })
  end)

  it("of types in each other is left at its limit", function()
    local T = LONG
    for _ = 1, 60 do T = { kind = "sequence", element = T, bound = 0 } end
    refused(using(T, {}), "types in each other more than 50 deep")
  end)

  it("of time is left at its limit", function()
    refused({ [EVIL] = function()
      mare.sleep(60)
    end }, "no reply in time", { time = 0.2 }, "TIMEOUT")
    refused(using(struct("S0", LONG), setmetatable({}, { __index = function(_, id)
      if not id:find "^IDL:S" then return nil end
      return function()
        mare.sleep(0.02)
        return chain(id)
      end
    end })), "", { time = 0.5 }, "TIMEOUT")
  end)
end)

describe("an interface repository that dies", function()
  it("in the middle costs who asked a COMM_FAILURE", function()
    local listener = assert(mare.net.listen "127.0.0.1:0")
    local _, port = listener:address()
    local closer = mare.fiber.spawn { daemon = true, main = function()
      while true do
        local conn = listener:accept()
        if not conn then return end
        conn:read(12, 10)                        -- the head of a request, then nothing more
        conn:close(0)
      end
    end }
    local world = using(struct("Gone", LONG), { ["IDL:Gone:1.0"] = { elsewhere = function(broker)
      return broker:proxy("corbaloc::127.0.0.1:" .. port .. "/gone", "CORBA::Contained")
    end } })
    refused(world, "", nil, "COMM_FAILURE")
    listener:close()
    closer:cancel()
  end)

  it("and one that is not there, or is none, is said when it is asked", function()
    with_world({}, nil, function(_, evil, known)
      local client = orb.init { repository = "corbaloc::127.0.0.1:1/InterfaceRepository" }
      local fine, err = pcall(client.proxy, client, evil)
      assert.same({ false, "TRANSIENT" }, { fine, orb.exception.is_system(err) })
      client:close()
      client = orb.init { repository = known }
      fine, err = pcall(client.proxy, client, evil)
      assert.same({ false, "BAD_OPERATION" }, { fine, orb.exception.is_system(err) })
      client:close()
      assert.has_error(function() orb.init { repository = 5 } end)
      assert.has_error(function() orb.init { repository = { limit = 5 } } end)
      assert.has_error(function() orb.init { repository = { time = -1 } } end)
    end)
  end)
end)

describe("an interface repository of random words", function()
  it("gives IDL that loads, errors of the compiler, or INTF_REPOS, and nothing else", function()
    local try = require "spec.support.repository_worlds"
    local state = 1
    for size = 1, 1500 do
      local bytes = {}
      for i = 1, size % 300 + 1 do
        state = (state * 1103515245 + 12345) & 0x7fffffff
        bytes[i] = string.char(state >> 16 & 255)
      end
      try(table.concat(bytes))
    end
  end)
end)
