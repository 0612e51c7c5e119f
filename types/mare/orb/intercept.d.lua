---@meta

--- What an interceptor is told of a request: docs/orb-interceptors.md says at which points there is what.
---@class mare.orb.requestinfo
---@field operation string
---@field request_id integer
---@field response_expected boolean
---@field sync_scope string
---@field arguments { name: string?, mode: string, type: table, value: any }[]
---@field result any
---@field exceptions table[]
---@field contexts string[]
---@field operation_context table<string, string>
---@field reply_status "SUCCESSFUL" | "SYSTEM_EXCEPTION" | "USER_EXCEPTION" | "LOCATION_FORWARD" | "TRANSPORT_RETRY"
---@field forward_reference table
---@field target table client
---@field effective_target table client
---@field effective_profile { tag: integer, data: string }? client
---@field received_exception table client
---@field received_exception_id string client
---@field sending_exception table server
---@field object_id string server
---@field adapter_id string server
---@field target_most_derived_interface string server
---@field peer mare.orb.peer? server
local info = {}

---@param id integer
---@return string
function info:get_request_service_context(id) end

---@param id integer
---@return string
function info:get_reply_service_context(id) end

--- A client's, in send_request.
---@param id integer
---@param data string
---@param replace? boolean
function info:add_request_service_context(id, data, replace) end

--- A server's.
---@param id integer
---@param data string
---@param replace? boolean
function info:add_reply_service_context(id, data, replace) end

---@param tag integer
---@return string
function info:get_effective_component(tag) end

---@param tag integer
---@return string[]
function info:get_effective_components(tag) end

---@param id string
---@return boolean
function info:target_is_a(id) end

---@param slot integer
---@return any
function info:get_slot(slot) end

---@param slot integer
---@param value any
function info:set_slot(slot, value) end

---@class mare.orb.iorinfo
---@field adapter_id string whose references they are: as in requests
---@field adapter_name string[] from the root down, { "RootPOA", "accounts" }
local ior = {}

---@param tag integer
---@param data string
function ior:add_ior_component(tag, data) end

---@class mare.orb.interceptor
---@field name? string
---@field send_request? fun(self: mare.orb.interceptor, info: mare.orb.requestinfo)
---@field receive_reply? fun(self: mare.orb.interceptor, info: mare.orb.requestinfo)
---@field receive_exception? fun(self: mare.orb.interceptor, info: mare.orb.requestinfo)
---@field receive_other? fun(self: mare.orb.interceptor, info: mare.orb.requestinfo)
---@field receive_request_service_contexts? fun(self: mare.orb.interceptor, info: mare.orb.requestinfo)
---@field receive_request? fun(self: mare.orb.interceptor, info: mare.orb.requestinfo)
---@field send_reply? fun(self: mare.orb.interceptor, info: mare.orb.requestinfo)
---@field send_exception? fun(self: mare.orb.interceptor, info: mare.orb.requestinfo)
---@field send_other? fun(self: mare.orb.interceptor, info: mare.orb.requestinfo)
---@field establish_components? fun(self: mare.orb.interceptor, info: mare.orb.iorinfo)
---@field destroy? fun(self: mare.orb.interceptor)

---@class mare.orb.picurrent
local current = {}

---@param id integer
---@return any
function current:get_slot(id) end

---@param id integer
---@param value any
function current:set_slot(id, value) end
