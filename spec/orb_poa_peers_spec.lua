-- Persistent objects of every kind of adapter, called by omniORB's and JacORB's clients by the reference that an earlier run of the server gave out.
-- runs under: mare
-- needs: plain
local mare = require "mare"
local runner = require "spec.orb_peers.pairs"
local foreign = require "spec.support.foreign"
local support = require "spec.support.poa"

local TYPE = "Shore::Rich"

-- Answers t_string and its kin with what it got; `heard` is told.
local function echo(heard)
  return setmetatable({ forwarder = function() return nil end }, { __index = function(_, operation)
    return operation:find "^t_" and function(_, _, got)
      heard()
      return got
    end or nil
  end })
end

local servant = echo(function() end)

-- How an adapter comes to the servant of an id; `asked`: the ids of requests, where it sees them.
local KINDS = {
  { "an active object", { "PERSISTENT", "USER_ID" }, function(poa) poa:activate_object_with_id("rich", servant) end },
  { "a servant activator", { "PERSISTENT", "USER_ID", "USE_SERVANT_MANAGER" }, function(poa, asked)
    poa:set_servant_manager { incarnate = function(_, id)
      asked[#asked + 1] = id
      mare.sleep(0.01)
      return servant
    end }
  end },
  { "a servant locator", { "PERSISTENT", "USER_ID", "NON_RETAIN", "USE_SERVANT_MANAGER" }, function(poa, asked)
    poa:set_servant_manager { preinvoke = function(_, id) return servant, TYPE, id end,
                              postinvoke = function(_, _, _, _, cookie) asked[#asked + 1] = cookie end }
  end },
  { "a default servant", { "PERSISTENT", "USER_ID", "MULTIPLE_ID", "NON_RETAIN", "USE_DEFAULT_SERVANT" }, function(poa, asked, broker)
    local current = broker:resolve_initial_references "POACurrent"
    poa:set_servant(echo(function() asked[#asked + 1] = current:get_object_id() end))
  end },
  { "a single-thread adapter", { "PERSISTENT", "USER_ID", "SINGLE_THREAD_MODEL" }, function(poa) poa:activate_object_with_id("rich", servant) end },
  { "a transient adapter", { "USER_ID" }, function(poa) poa:activate_object_with_id("rich", servant) end },
}

-- One run of the server: f(kind -> { reference, asked }) -> what f gives, the port.
local function run(port, f)
  local broker = support.broker { port = port }
  broker:loadfile "spec/orb_peers/rich.idl"
  local manager, all = broker:poa().the_POAManager, {}
  local above = broker:poa():create_POA("above", manager, { "PERSISTENT" })
  for _, kind in ipairs(KINDS) do
    local asked, policies = {}, { table.unpack(kind[2]) }
    policies.interface = TYPE
    local poa = above:create_POA(kind[1], manager, policies)
    kind[3](poa, asked, broker)
    all[kind[1]] = { reference = tostring(poa:create_reference_with_id "rich"), asked = asked }
  end
  port = tonumber(broker:address():match ":(%d+)$")
  local fine, result = pcall(f, all)
  broker:shutdown(20)
  if not fine then error(result, 0) end
  return result, port
end

local function client_of(peer, reference)
  local text = {}
  local pair = { id = peer, client = peer, options = { "only=t_string", "without=more,callback" } }
  for _, row in ipairs(runner.talk(pair, reference)) do text[#text + 1] = table.concat(row, " ") end
  return table.concat(text, "\n")
end

describe("a persistent reference holds over a restart for", function()
  for _, peer in ipairs { "omniORB", "JacORB" } do
    it(peer .. "'s clients, with each kind of adapter; a transient one does not", function()
      local missing = runner.missing(peer)
      if missing then return foreign.skip(missing) end
      local first, port = run(nil, function(all)
        assert.matches("t_string ok", client_of(peer, all["a servant activator"].reference))
        assert.same({ "rich" }, all["a servant activator"].asked)
        return all
      end)
      run(port, function(all)
        local heard = {}
        for i, kind in ipairs(KINDS) do                       -- a Java virtual machine for each of JacORB's: some of them will do
          if peer == "omniORB" or i % 4 ~= 1 then heard[kind[1]] = mare.fiber.spawn(client_of, peer, first[kind[1]].reference) end
        end
        for name, client in pairs(heard) do
          local text = select(2, client:wait())
          if name == "a transient adapter" then
            assert.matches("OBJECT_NOT_EXIST", text)
          else
            assert.equal(first[name].reference, all[name].reference)
            assert.matches("t_string ok", text, name)
            assert.is_nil(text:find "FAIL", name .. ": " .. text)
          end
        end
        assert.same({ "rich" }, all["a servant activator"].asked)
        for _, name in ipairs { "a servant locator", "a default servant" } do
          assert.equal(heard[name] ~= nil, #all[name].asked > 1)
          for _, id in ipairs(all[name].asked) do assert.equal("rich", id) end
        end
      end)
    end)
  end
end)
