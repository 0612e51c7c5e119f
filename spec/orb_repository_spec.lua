-- The Interface Repository that mare's servers have of what they loaded: every operation that reads, of every kind of definition.
-- needs: plain
local orb = require "mare.orb"
local ior = require "mare.orb.giop.ior"

local IDL = [[
  #pragma prefix "mare.test"
  module Shop {
    const long MOST = 7;
    const string<9> NAME = "shop";
    enum Extent { SMALL, LARGE };
    struct Item { struct Price { long cents; } cost; Extent size; string<20> text; sequence<octet, 4> code; };
    typedef Item Row[2][3];
    typedef fixed<7, 2> Sum;
    native Handle;
    union Choice switch (Extent) { case SMALL: long few; default: Item big; };
    exception Sold { Item what; };
    valuetype Boxed sequence<long>;
    abstract interface Shown { string show(); };
    local interface Here { void f(); };
    interface Named { readonly attribute string name; };
    interface Till : Named {
      exception Empty { long need; };
      typedef sequence<Item> Items;
      attribute Extent size setraises (Empty);
      Items sell(in string what, inout long count, out Sum total) raises (Sold, Empty) context ("user");
      oneway void close(in wstring<3> why);
    };
    abstract valuetype Base { long weigh(); };
    valuetype Plain : Base { public long weight; private Extent size; factory make(in long n) raises (Sold); };
    valuetype Child : truncatable Plain supports Shown { public Plain next; };
    custom valuetype Own { public any x; };
  };
]]

local function prefixed(name) return "IDL:mare.test/" .. name .. ":1.0" end

-- f(repository, look(id or name) -> its object, broker, client)
local function with_repository(f)
  local broker, client = orb.init { host = "127.0.0.1" }, orb.init()
  broker:load(IDL)
  client:load("#include <ir.idl>")
  local root = client:proxy("corbaloc::1.2@" .. broker:address() .. "/InterfaceRepository", "CORBA::Repository")
  local function look(name)
    local found = root:lookup_id(prefixed(name))
    return found and client:proxy(found, ior.parse(found._ior).type_id)
  end
  local results = table.pack(pcall(f, root, look, broker, client))
  client:close()
  broker:shutdown(true)
  if not results[1] then error(results[2], 0) end
end

local function names(list)
  local out = {}
  for i, d in ipairs(list) do out[i] = d.name end
  return out
end

local function fails(name, f, ...)
  local fine, err = pcall(f, ...)
  assert.is_false(fine)
  assert.equal(name, orb.exception.is_system(err))
end

describe("a server's interface repository", function()
  it("is where a corbaloc says, and every object tells its interface", function()
    with_repository(function(root, _, broker, client)
      assert.equal("dk_Repository", root.def_kind)
      local servant = {}
      local object = client:proxy(tostring(broker:serve(servant, "Shop::Till")))
      local described = object:_interface():_narrow("CORBA::InterfaceDef")
      assert.same({ prefixed "Shop/Till", "Till", "1.0", "::Shop::Till", "dk_Interface" },
        { described.id, described.name, described.version, described.absolute_name, described.def_kind })
      assert.is_true(root:_is_equivalent(described.containing_repository))
      assert.equal("Shop", described.defined_in:_narrow("CORBA::ModuleDef").name)
      assert.is_true(described:is_a(prefixed "Shop/Named"))
      assert.is_true(described:is_a("IDL:omg.org/CORBA/Object:1.0"))
      assert.is_false(described:is_a(prefixed "Shop/Shown"))
      assert.equal(1, broker:objects())                       -- the repository's are not the program's
      fails("INTF_REPOS", function() return client:proxy(tostring(broker:serve({}, "Object"))):_interface() end)
    end)
  end)

  it("finds definitions by id, by name and by scoped name", function()
    with_repository(function(root, look)
      assert.equal("MOST", root:lookup("::Shop::MOST").name)
      assert.equal("Empty", look "Shop/Till":lookup("Empty").name)
      assert.equal("Price", root:lookup("Shop::Item::Price").name)
      assert.equal("name", look "Shop/Till":lookup("name").name)                  -- inherited
      assert.equal("MOST", look "Shop/Till":lookup("::Shop::MOST").name)
      for _, wrong in ipairs { "", "::", "Nowhere", "Shop::most", "Shop::SMALL", "Shop::Item::cents", "Object", ("x"):rep(100000) } do
        assert.is_nil(root:lookup(wrong))
      end
      for _, wrong in ipairs { "", "IDL:Nowhere:1.0", prefixed "Shop/SMALL", "IDL:omg.org/CORBA/Object:1.0" } do
        assert.is_nil(root:lookup_id(wrong))
      end
      assert.same({ "size", "size" }, names(root:lookup_name("size", -1, "dk_all", true)))
      assert.same({ "size" }, names(root:lookup_name("size", 3, "dk_Attribute", true)))
      assert.same({}, names(root:lookup_name("size", 1, "dk_all", true)))
      assert.same({ "Shop" }, names(root:lookup_name("Shop", 1, "dk_all", true)))
    end)
  end)

  it("lists what is in a container, and only the kind that is wanted", function()
    with_repository(function(root, look)
      assert.same({ "Shop" }, names(root:contents("dk_all", true)))
      local till, item = look "Shop/Till", look "Shop/Item"
      assert.same({ "Empty", "Items", "size", "sell", "close" }, names(till:contents("dk_all", true)))
      assert.same({ "Empty", "Items", "size", "sell", "close", "name" }, names(till:contents("dk_all", false)))
      assert.same({ "size", "name" }, names(till:contents("dk_Attribute", false)))
      assert.same({ "Price" }, names(item:contents("dk_all", true)))
      local module = look "Shop"
      assert.same({ "Extent", "Item", "Row", "Sum", "Handle", "Choice", "Boxed" }, names(module:contents("dk_Typedef", true)))
      assert.same({ "Shown" }, names(module:contents("dk_AbstractInterface", true)))
      assert.same({ "Here" }, names(module:contents("dk_LocalInterface", true)))
      local described = till:describe_contents("dk_all", true, 4)
      assert.equal(4, #described)
      assert.same({ "dk_Operation", "sell" }, { described[4].kind, described[4].contained_object.name })
      assert.equal("IDL:omg.org/CORBA/OperationDescription:1.0", described[4].value._anytype.id)
      assert.equal(0, #till:describe_contents("dk_all", true, 0))
    end)
  end)

  it("describes operations and attributes, with what they raise", function()
    with_repository(function(_, look)
      local d = look "Shop/Till":describe_interface()
      assert.same({ prefixed "Shop/Named" }, d.base_interfaces)
      assert.same({ "sell", "close" }, names(d.operations))
      assert.same({ "size", "name" }, names(d.attributes))
      local sell = d.operations[1]
      assert.same({ "OP_NORMAL", { "user" }, "alias", prefixed "Shop/Till/Items" }, { sell.mode, sell.contexts, sell.result.kind, sell.result.id })
      local modes = {}
      for i, p in ipairs(sell.parameters) do modes[i] = p.name .. " " .. p.mode .. " " .. p.type.kind end
      assert.same({ "what PARAM_IN string", "count PARAM_INOUT long", "total PARAM_OUT alias" }, modes)
      assert.equal("pk_string", sell.parameters[1].type_def:_narrow("CORBA::PrimitiveDef").kind)
      assert.same({ "Sold", "Empty" }, names(sell.exceptions))
      assert.equal("except", sell.exceptions[1].type.kind)
      assert.same({ "OP_ONEWAY", "void" }, { d.operations[2].mode, d.operations[2].result.kind })
      local close = look "Shop/Till/close"
      assert.same({ "OP_ONEWAY", "void", 0 }, { close.mode, close.result.kind, #close.exceptions })
      assert.equal(3, close.params[1].type_def:_narrow("CORBA::WstringDef").bound)
      assert.same({ "Sold", "Empty" }, names(look "Shop/Till/sell".exceptions))
      assert.same({ "ATTR_READONLY", "string" }, { look "Shop/Named/name".mode, look "Shop/Named/name".type.kind })
      local size = look "Shop/Till/size"
      assert.equal("CORBA::ExtAttributeDef", size:_interface_name())
      assert.same({ 0, "Empty" }, { #size.get_exceptions, size.set_exceptions[1].name })
      local ext = look "Shop/Till":describe_ext_interface()
      assert.equal("Empty", ext.attributes[1].put_exceptions[1].name)
      assert.equal("CORBA::InterfaceDef", look "Shop/Named":_interface_name())       -- nothing that CORBA 2 can't say
    end)
  end)

  it("knows constants and every kind of type", function()
    with_repository(function(root, look)
      assert.same({ 7, "shop", 9 }, { look "Shop/MOST".value._anyval, look "Shop/NAME".value._anyval, look "Shop/NAME".type.bound })
      assert.equal("pk_long", look "Shop/MOST".type_def:_narrow("CORBA::PrimitiveDef").kind)
      assert.same({ "SMALL", "LARGE" }, look "Shop/Extent".members)
      local members = look "Shop/Item".members
      assert.same({ "cost", "size", "text", "code" }, names(members))
      assert.equal(20, members[3].type_def:_narrow("CORBA::StringDef").bound)
      local code = members[4].type_def:_narrow("CORBA::SequenceDef")
      assert.same({ 4, "octet", "sequence" }, { code.bound, code.element_type.kind, code.type.kind })
      local row = look "Shop/Row".original_type_def:_narrow("CORBA::ArrayDef")
      local inner = row.element_type_def:_narrow("CORBA::ArrayDef")
      assert.same({ 2, 3, prefixed "Shop/Item" }, { row.length, inner.length, inner.element_type.id })
      local sum = look "Shop/Sum".original_type_def:_narrow("CORBA::FixedDef")
      assert.same({ 7, 2 }, { sum.digits, sum.scale })
      assert.equal("native", look "Shop/Handle".type.kind)
      local choice = look "Shop/Choice"
      assert.equal("Extent", choice.discriminator_type_def:_narrow("CORBA::EnumDef").name)
      assert.same({ "SMALL", 0 }, { choice.members[1].label._anyval, choice.members[2].label._anyval })
      assert.equal("octet", choice.members[2].label._anytype.kind)
      assert.equal("sequence", look "Shop/Boxed".original_type_def.type.kind)
      assert.same({ "what" }, names(look "Shop/Sold".members))
      assert.equal("pk_objref", root:get_primitive("pk_objref").kind)
      for _, kind in ipairs { "pk_null", "pk_void", "pk_octet", "pk_longdouble", "pk_wstring", "pk_value_base", "pk_TypeCode" } do
        assert.equal(kind, root:get_primitive(kind).kind)
      end
      fails("BAD_PARAM", root.get_primitive, root, "pk_Principal")
      assert.equal("struct", root:get_canonical_typecode(look "Shop/Item".type).kind)
    end)
  end)

  it("knows valuetypes: bases, what they support, state, factories", function()
    with_repository(function(_, look)
      local child, plain = look "Shop/Child", look "Shop/Plain"
      assert.same({ true, false, false, "Plain" }, { child.is_truncatable, child.is_custom, child.is_abstract, child.base_value.name })
      assert.same({ { "Shown" }, {} }, { names(child.supported_interfaces), names(child.abstract_base_values) })
      assert.is_true(child:is_a(prefixed "Shop/Base"))
      assert.is_true(child:is_a(prefixed "Shop/Shown"))
      assert.is_false(child:is_a(prefixed "Shop/Named"))
      assert.same({ { "Base" }, true }, { names(plain.abstract_base_values), plain.base_value == nil })
      assert.same({ true, true }, { look "Shop/Base".is_abstract, look "Shop/Own".is_custom })
      local d = child:describe_value()
      assert.same({ "next", "weight", "size" }, names(d.members))
      assert.same({ 1, 1, 0 }, { d.members[1].access, d.members[2].access, d.members[3].access })
      assert.equal(prefixed "Shop/Plain", d.base_value)
      assert.same({ "weigh" }, names(d.operations))
      assert.same({ "make", "n" }, { plain.initializers[1].name, plain.initializers[1].members[1].name })
      assert.equal("Sold", plain.ext_initializers[1].exceptions[1].name)
      assert.equal("Sold", plain:describe_ext_value().initializers[1].exceptions[1].name)
      assert.equal(0, look "Shop/Plain/size".access)
    end)
  end)

  it("can only be read", function()
    with_repository(function(root, look)
      for _, try in ipairs {
        function() root:destroy() end, function() root:create_module("IDL:X:1.0", "X", "1.0") end, function() root:create_string(3) end,
        function() look "Shop/Till".name = "Other" end, function() look "Shop/Extent".members = { "ONE" } end,
        function() look "Shop/Till":move(root, "Till", "1.0") end,
      } do fails("NO_PERMISSION", try) end
      assert.equal("Till", look "Shop/Till".name)
    end)
  end)

  it("says what is loaded later, and its references last", function()
    with_repository(function(root, look, broker, client)
      assert.is_nil(look "Later")
      broker:load [[ #pragma prefix "mare.test"
        interface Later { void f(); }; ]]
      local later = tostring(look "Later")
      broker.server.adapter.objects["InterfaceRepository/" .. prefixed "Later"] = nil
      assert.equal("Later", client:proxy(later, "CORBA::InterfaceDef").name)     -- anybody who asks for it finds it again
      assert.same({ "Shop", "Later" }, names(root:contents("dk_all", true)))
    end)
  end)
end)
