---@meta mare.orb.poa
-- luacheck: ignore 212 241

---Object adapters; see docs/orb-adapters.md.
---@class mare.orb.broker
local broker = {}

---The RootPOA.
---@return mare.orb.POA
---@nodiscard
function broker:poa() end

---@alias mare.orb.policy
---| '"TRANSIENT"' | '"PERSISTENT"' | '"UNIQUE_ID"' | '"MULTIPLE_ID"' | '"SYSTEM_ID"' | '"USER_ID"' | '"RETAIN"' | '"NON_RETAIN"'
---| '"USE_ACTIVE_OBJECT_MAP_ONLY"' | '"USE_DEFAULT_SERVANT"' | '"USE_SERVANT_MANAGER"' | '"NO_IMPLICIT_ACTIVATION"' | '"IMPLICIT_ACTIVATION"'
---| '"ORB_CTRL_MODEL"' | '"SINGLE_THREAD_MODEL"' | '"MAIN_THREAD_MODEL"'

---Values of policies; each belongs to one of them.
---@class mare.orb.policies
---@field interface? string|table of servants for which none is named
---@field [integer] mare.orb.policy

---@class mare.orb.POA
---@field the_name string
---@field the_parent mare.orb.POA?
---@field the_children mare.orb.POA[]
---@field the_POAManager mare.orb.POAManager
---@field the_activator { unknown_adapter: fun(self: table, parent: mare.orb.POA, name: string): boolean }? makes children that are asked for
---@field id string
local poa = {}

---@param name string
---@param manager? mare.orb.POAManager nil: a new one, which holds requests
---@param policies? mare.orb.policies
---@return mare.orb.POA
function poa:create_POA(name, manager, policies) end

---@param name string
---@param activate? boolean the activator may make it
---@return mare.orb.POA
function poa:find_POA(name, activate) end

---Ends it and all below it.
---@param etherealize? boolean activators get their objects back
---@param wait? boolean until all that is over
function poa:destroy(etherealize, wait) end

---Of RETAIN an activator: incarnate(id, poa), etherealize(id, poa, servant, cleanup, remaining). Of NON_RETAIN a locator: preinvoke(id, poa,
---operation), postinvoke(id, poa, operation, cookie, servant).
---@param manager table
function poa:set_servant_manager(manager) end

---@return table?
---@nodiscard
function poa:get_servant_manager() end

---@param servant mare.orb.servant?
---@param interface? string|table
function poa:set_servant(servant, interface) end

---@return mare.orb.servant
---@nodiscard
function poa:get_servant() end

---@param servant mare.orb.servant
---@param interface? string|table
---@return string id
function poa:activate_object(servant, interface) end

---@param id string
---@param servant mare.orb.servant
---@param interface? string|table
function poa:activate_object_with_id(id, servant, interface) end

---@param id string
function poa:deactivate_object(id) end

---@param interface? string|table
---@return mare.orb.proxy
---@nodiscard
function poa:create_reference(interface) end

---@param id string
---@param interface? string|table
---@return mare.orb.proxy
---@nodiscard
function poa:create_reference_with_id(id, interface) end

---@param servant mare.orb.servant
---@param interface? string|table of a servant that is activated by it
---@return string id
function poa:servant_to_id(servant, interface) end

---@param servant mare.orb.servant
---@param interface? string|table
---@return mare.orb.proxy
function poa:servant_to_reference(servant, interface) end

---@param reference mare.orb.proxy|string
---@return string id
---@nodiscard
function poa:reference_to_id(reference) end

---@param reference mare.orb.proxy|string
---@return mare.orb.servant
---@nodiscard
function poa:reference_to_servant(reference) end

---@param id string
---@return mare.orb.servant
---@nodiscard
function poa:id_to_servant(id) end

---@param id string
---@return mare.orb.proxy
---@nodiscard
function poa:id_to_reference(id) end

---Whether adapters take requests.
---@class mare.orb.POAManager
local manager = {}

---@return '"HOLDING"'|'"ACTIVE"'|'"DISCARDING"'|'"INACTIVE"'
---@nodiscard
function manager:get_state() end

---@return string
---@nodiscard
function manager:get_id() end

function manager:activate() end

---@param wait? boolean until what has begun is over
function manager:hold_requests(wait) end

---@param wait? boolean
function manager:discard_requests(wait) end

---@param etherealize? boolean
---@param wait? boolean
function manager:deactivate(etherealize, wait) end

---What resolve_initial_references("POACurrent") gives.
---@class mare.orb.POACurrent
local current = {}

---@return string
---@nodiscard
function current:get_object_id() end

---@return mare.orb.POA
---@nodiscard
function current:get_POA() end

---@return mare.orb.servant?
---@nodiscard
function current:get_servant() end

---@return mare.orb.proxy?
---@nodiscard
function current:get_reference() end

return broker
