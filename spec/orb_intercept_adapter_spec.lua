-- Interceptors and object adapters: which one a reference or a request belongs to, also of adapters that are made later, or by a request.
-- needs: plain
local orb = require "mare.orb"
local ior = require "mare.orb.giop.ior"
local proc = require "spec.support.proc"

local IDL = "interface Account { string owner(); };"
local TAG = 0x4d415245

-- f(server, client, asked, requests): an interceptor puts the adapter's id into its references, and writes down for which adapter it was asked, and
-- what it sees of requests.
local function with(f)
  local asked, requests = {}, {}
  local interceptor = { name = "watch",
    establish_components = function(_, info)
      asked[#asked + 1] = table.concat(info.adapter_name, "/")
      info:add_ior_component(TAG, info.adapter_id)
    end,
    receive_request = function(_, info) requests[#requests + 1] = { info.adapter_id, info.object_id } end,
  }
  local server = orb.init { host = "127.0.0.1", interceptors = { interceptor }, log = function() end }
  local client = orb.init()
  for _, broker in ipairs { server, client } do broker:load(IDL) end
  local fine, err = pcall(f, server, client, asked, requests)
  client:close()
  server:shutdown(20 * proc.slow)
  if not fine then error(err, 0) end
end

local function account(name) return { owner = function() return name end } end

local function tag_of(reference) return ior.find(ior.parse(rawget(reference, "_ior")).profiles[1], TAG) end

describe("an interceptor of references", function()
  it("is asked for each adapter, once, before its first reference, and requests belong to that adapter", function()
    with(function(server, client, asked, requests)
      local root = server:poa()
      local plain, numbered = server:serve(account "plain", "Account", { key = "key" }), server:serve(account "numbered", "Account")
      assert.same({ "omniINSPOA", "RootPOA" }, asked)
      local accounts = root:create_POA("accounts", root.the_POAManager, { "PERSISTENT", "USER_ID", interface = "Account" })
      local inner = accounts:create_POA("inner", root.the_POAManager, { "TRANSIENT", interface = "Account" })
      assert.equal(2, #asked)                                        -- nothing is made yet that it could add to
      accounts:activate_object_with_id("ada", account "ada")
      local ada, eve = accounts:id_to_reference "ada", accounts:create_reference_with_id "eve"
      local id = inner:activate_object(account "inner")
      local other = inner:id_to_reference(id)
      assert.same({ "omniINSPOA", "RootPOA", "RootPOA/accounts", "RootPOA/accounts/inner" }, asked)
      assert.equal(tag_of(ada), tag_of(eve))
      for _, case in ipairs { { ada, accounts, "ada" }, { other, inner, id }, { plain, nil, "key" }, { numbered, root } } do
        local reference, poa, oid = table.unpack(case, 1, 3)
        local remote = client:proxy(tostring(reference))
        for _, one in ipairs { remote, remote, remote, reference } do          -- over a connection, in Lua and in C; and here
          requests[1] = nil
          assert.is_string(one:owner())
          assert.equal(1, #requests)
          assert.equal(tag_of(reference), requests[1][1])
          if poa then assert.equal(poa.id, requests[1][1]) end
          if oid then assert.equal(oid, requests[1][2]) end
        end
      end
      assert.equal(4, #asked)
    end)
  end)

  it("is asked again for an adapter that was made again: a persistent one has its id, a transient one another", function()
    with(function(server, _, asked)
      local root = server:poa()
      local function make(lifespan)
        local poa = root:create_POA("a", nil, { lifespan, interface = "Account" })
        local id, tag = poa.id, tag_of(poa:create_reference())
        poa:destroy(true, true)
        assert.equal(id, tag)
        return id
      end
      assert.equal(make "PERSISTENT", make "PERSISTENT")
      assert.not_equal(make "TRANSIENT", make "TRANSIENT")
      assert.same({ "RootPOA/a", "RootPOA/a", "RootPOA/a", "RootPOA/a" }, asked)
    end)
  end)

  it("and of requests know an adapter that the request itself has made, and default servants by the id that is meant", function()
    with(function(server, client, asked, requests)
      local root = server:poa()
      local policies = { "PERSISTENT", "USER_ID", "MULTIPLE_ID", "USE_DEFAULT_SERVANT", interface = "Account" }
      local made
      root.the_activator = { unknown_adapter = function(_, parent, name)
        made = parent:create_POA(name, root.the_POAManager, policies)
        made:set_servant({ owner = function() return tostring(tag_of(made:create_reference_with_id "friend") == made.id) end }, "Account")
        return true
      end }
      local first = root:create_POA("late", root.the_POAManager, policies)
      local text, id = tostring(first:create_reference_with_id "ada"), first.id
      first:destroy(true, true)
      local ada = client:proxy(text)
      for i = 1, 3 do
        assert.equal("true", ada:owner())
        assert.same({ id, "ada" }, requests[i])
      end
      assert.equal(id, made.id)
      assert.same({ "RootPOA/late", "RootPOA/late" }, asked)
    end)
  end)

  it("and of requests sees objects of the interface repository as others", function()
    with(function(server, client, _, requests)
      local remote = client:proxy(tostring(server:serve(account "x", "Account", { key = "x" })))
      assert.equal("Account", remote:_interface():_narrow("CORBA::InterfaceDef").name)
      assert.same({ "", "x" }, requests[1])                          -- _interface
      assert.is_true(#requests >= 2)
      for _, request in ipairs(requests) do assert.same({ "", "string" }, { request[1], type(request[2]) }) end
    end)
  end)
end)
