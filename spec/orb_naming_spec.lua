-- corbaname: objects found by a naming service, omniNames and one that is written in Lua.
-- runs under: mare
-- needs: plain
local mare = require "mare"
local corbaloc = require "mare.orb.giop.corbaloc"
local corbaname = require "mare.orb.giop.corbaname"
local foreign = require "spec.support.foreign"
local proc = require "spec.support.proc"
local omninames = require "spec.support.omninames"
local orb = mare.orb

local IDL = [[
interface Greeter { string greet(in string who); };
]]

local COS = omninames.idl

local greeter = {}
function greeter.greet(_, who) return "hello, " .. who end

local function fails(pattern, f, ...)
  local done, e = pcall(f, ...)
  assert.is_false(done)
  assert.matches(pattern, tostring(e))
end

-- Names under the root of omniNames: { { "folder", "" }, { "a.b", "x/y" } } is bound with all contexts on the way.
local function bind(broker, port, path, object)
  local context = broker:proxy(("corbaname::127.0.0.1:%d"):format(port), "CosNaming::NamingContext")
  for i = 1, #path - 1 do
    local here = { { id = path[i][1], kind = path[i][2] } }
    local known, inner = pcall(context.resolve, context, here)
    context = known and inner:_narrow "CosNaming::NamingContext" or context:bind_new_context(here)
  end
  context:rebind({ { id = path[#path][1], kind = path[#path][2] } }, object)
end

local missing, with_names = omninames.missing, omninames.with

describe("omniNames", function()
  it("gives objects by their corbaname, with every escape", function()
    if missing then return foreign.skip(missing) end
    with_names(function(port)
      local serving <close> = orb.init { host = "127.0.0.1" }
      serving:load(IDL)
      serving:loadfile(COS, { include = { "/usr/share/idl/omniORB/COS", "/usr/share/idl/omniORB" } })
      local object = serving:proxy(tostring(serving:serve(greeter, "Greeter")))
      bind(serving, port, { { "hello", "" } }, object)
      bind(serving, port, { { "trains", "red" }, { "a.b/c\\d", "k ä" } }, object)

      local broker <close> = orb.init { args = { "-ORBInitRef", ("NameService=corbaname::127.0.0.1:%d"):format(port) } }
      broker:load(IDL)                             -- of the naming service it knows nothing
      local base = ("corbaname::127.0.0.1:%d"):format(port)
      for _, text in ipairs { base .. "#hello", base .. "/NameService#hello", "corbaname:rir:#hello",
                              ("corbaname::1.2@127.0.0.1:%d#hello"):format(port),
                              base .. "#trains.red/a%5c.b%5c/c%5c%5cd.k%20%c3%a4" } do
        local p = broker:proxy(text)
        assert.equal("Greeter", p:_interface_name(), text)
        assert.equal("hello, you", p:greet "you")
      end
      assert.is_true(broker:proxy(base):_is_a "IDL:omg.org/CosNaming/NamingContext:1.0")

      fails("CosNaming::NamingContext::NotFound", broker.proxy, broker, base .. "#nobody")
      fails("CosNaming::NamingContext::NotFound", broker.proxy, broker, base .. "#hello/below")
      fails("OMG minor 9.*character 3 of the name: a component is missing", broker.proxy, broker, base .. "#a//b")

      local r = proc.mare_command { "ior", base .. "#hello" }
      assert.equal("", r.err)
      assert.matches('Type ID: "IDL:Greeter:1.0"', r.out, 1, true)
      r = proc.mare_command { "ior", base .. "#nobody" }
      assert.equal(1, r.code)
      assert.matches("^mare ior: corbaname:.*NotFound", r.err)
      serving:shutdown()
    end)
  end)
end)

describe("a corbaname", function()
  it("names what has any character in it, as the service itself writes it, at the first address that answers", function()
    if missing then return foreign.skip(missing) end
    with_names(function(port)
      local broker = orb.init { host = "127.0.0.1" }
      broker:load(IDL)
      local root = broker:proxy(("corbaname::127.0.0.1:1,:127.0.0.1:%d"):format(port), "CosNaming::NamingContextExt")
      local object = broker:serve(greeter, "Greeter")
      local id = {}
      for c = 1, 126 do id[c] = string.char(c) end
      id = table.concat(id)
      local name = { { id = id, kind = id:reverse() } }
      root:bind(name, object)
      local text = root:to_string(name)
      assert.equal(corbaname.text(name), text)
      local url = root:to_url((":127.0.0.1:1,:127.0.0.1:%d"):format(port), text)
      local base = ("corbaname::127.0.0.1:%d#"):format(port)
      for _, one in ipairs { url, base .. corbaloc.escape(text), base .. text:gsub(".", function(c) return ("%%%02X"):format(c:byte()) end) } do
        assert.equal(object, broker:proxy(one))
      end
      broker:shutdown(true)
    end)
  end)
end)

describe("a naming service in Lua", function()
  local NAMES = [[
    #pragma prefix "omg.org"
    module CosNaming {
      struct NameComponent { string id; string kind; };
      typedef sequence<NameComponent> Name;
      interface NamingContext {
        enum NotFoundReason { missing_node, not_context, not_object };
        exception NotFound { NotFoundReason why; Name rest_of_name; };
        exception CannotProceed { NamingContext cxt; Name rest_of_name; };
        exception InvalidName {};
        Object resolve(in Name n) raises(NotFound, CannotProceed, InvalidName);
      };
    };]]

  it("is asked with the name as it was meant, and may give nil or an error", function()
    local serving <close> = orb.init { host = "127.0.0.1" }
    serving:load(IDL)
    serving:load(NAMES)
    local asked
    local object = serving:proxy(tostring(serving:serve(greeter, "Greeter")))
    local names = serving:serve({ resolve = function(_, name)
      asked = name
      if name[1].id == "nil" then return nil end
      if name[1].id == "late" then mare.sleep(60) end
      if name[1].id == "wrong" then error(serving.types.CosNaming.NamingContext.InvalidName {}, 0) end
      return object
    end }, "CosNaming::NamingContext")
    local client <close> = orb.init { timeout = 0.5 }
    client:load(IDL)
    client:register_initial_reference("NameService", tostring(names))
    client:register_initial_reference("Hello", "corbaname:rir:#x.y/z")
    client:register_initial_reference("Loop", "corbaloc:rir:/Loop")
    client:register_initial_reference("Chain", "corbaname:rir:/Chain#a")
    assert.equal("hello, you", client:resolve_initial_references("Hello", "Greeter"):greet "you")
    assert.same({ { id = "x", kind = "y" }, { id = "z", kind = "" } }, asked)
    assert.equal("hello, you", client:proxy("corbaloc:rir:/Hello"):greet "you")
    assert.is_nil(client:proxy "corbaname:rir:#nil")
    fails("CosNaming::NamingContext::InvalidName", client.proxy, client, "corbaname:rir:#wrong")
    fails("CORBA::TIMEOUT", client.proxy, client, "corbaname:rir:#late")
    fails("the initial reference Loop leads to itself", client.proxy, client, "corbaloc:rir:/Loop")
    fails("the initial reference Chain leads to itself", client.resolve_initial_references, client, "Chain")
    serving:shutdown()
  end)
end)
