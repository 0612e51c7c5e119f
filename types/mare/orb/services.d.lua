---@meta mare.orb.services.naming
-- luacheck: ignore 212 241

---OMG's naming service. See docs/orb-naming.md.
---@class mare.orb.naminglib
local naming = {}

---@class mare.orb.naming.options
---@field db? string a file of SQLite that keeps the names
---@field key? string of the root context, "NameService"
---@field limits? { bytes?: integer, iterators?: integer, federation?: number }

---@class mare.orb.naming.service
---@field root { proxy: mare.orb.proxy } the root context
local service = {}

---Serves a naming service in a broker; raises what is wrong with the file.
---@param broker mare.orb.broker
---@param options? mare.orb.naming.options
---@return mare.orb.naming.service
function naming.serve(broker, options) end

---How many names there are.
---@return integer
function service:count() end

---Ends the service; the broker goes on.
function service:close() end

return naming
