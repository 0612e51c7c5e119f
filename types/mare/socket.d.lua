---@meta mare.socket
-- luacheck: ignore 212 241

---LuaSocket's interface; see docs/socket.md, and LuaSocket's own manual for each function.
---@class mare.socketlib
local socketlib = {}

---@class mare.socket.tcp
---@class mare.socket.udp

---@return mare.socket.tcp
function socketlib.tcp() end

---@return mare.socket.tcp?
---@return string? message
function socketlib.tcp4() end

---@return mare.socket.tcp?
---@return string? message
function socketlib.tcp6() end

---@return mare.socket.udp
function socketlib.udp() end

---@return mare.socket.udp?
---@return string? message
function socketlib.udp4() end

---@return mare.socket.udp?
---@return string? message
function socketlib.udp6() end

---@param address string
---@param port integer
---@param backlog? integer
---@return mare.socket.tcp? server
---@return string? message
function socketlib.bind(address, port, backlog) end

---@param address string
---@param port integer
---@param own_address? string
---@param own_port? integer
---@param family? '"unspec"' | '"inet"' | '"inet6"'
---@return mare.socket.tcp? client
---@return string? message
function socketlib.connect(address, port, own_address, own_port, family) end

---@param readers? table[]
---@param writers? table[]
---@param seconds? number
---@return table readable
---@return table writable
---@return '"timeout"'?
function socketlib.select(readers, writers, seconds) end

---@return number seconds since 1970
function socketlib.gettime() end

---@param seconds number
function socketlib.sleep(seconds) end

return socketlib
