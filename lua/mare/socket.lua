--[[
mare.socket: LuaSocket's interface, so that programs written for it run in processes and fibers and hold up nobody. Objects and whatever
waits are in C (src/module/socket*.c); what differs from LuaSocket is listed in docs/socket.md.
]]
local mare = require "mare"
local core = require "mare.socket.core"
local common = require "mare.socket.common"
local tcp = require "mare.socket.tcp"
local udp = require "mare.socket.udp"

local socket = { _VERSION = "LuaSocket 3.1.0 (mare)", _SETSIZE = math.maxinteger, _SOCKETINVALID = -1, _DATAGRAMSIZE = udp.DATAGRAM,
                 BLOCKSIZE = 2048 }
function socket.__unload() end

socket.tcp, socket.tcp4, socket.tcp6 = tcp.new, tcp.new4, tcp.new6
socket.udp, socket.udp4, socket.udp6 = udp.new, udp.new4, udp.new6
socket.select, socket.gettime = core.select, core.gettime

local FAMILIES = { inet = tcp.new4, inet6 = tcp.new6, unspec = tcp.new }

-- connect(address, port[, own address[, own port[, family]]])
function socket.connect(address, port, own_address, own_port, family)
  local new = FAMILIES[family or "unspec"] or error(("bad argument #5 to 'connect' (invalid option '%s')"):format(tostring(family)), 2)
  address, port = common.string(address, "connect", 1), common.string(port, "connect", 2)
  local it, err = new()
  local ok
  if it then ok = true end
  if ok and own_address then ok, err = it:bind(own_address, own_port or 0) end
  if ok then ok, err = it:connect(address, port) end
  if ok then return it end
  if it then it:close() end
  return nil, err
end

function socket.connect4(address, port, own_address, own_port) return socket.connect(address, port, own_address, own_port, "inet") end
function socket.connect6(address, port, own_address, own_port) return socket.connect(address, port, own_address, own_port, "inet6") end

-- The first address of the host at which a server can be had.
function socket.bind(host, port, backlog)
  local list, err = socket.dns.getaddrinfo(host == "*" and "0.0.0.0" or host)
  if not list then return nil, err end
  err = "no info on address"
  for _, a in ipairs(list) do
    local it, ok
    it, err = FAMILIES[a.family]()
    if not it then return nil, err end
    it:setoption("reuseaddr", true)
    ok, err = it:bind(a.addr, port)
    if ok then ok, err = it:listen(backlog) end
    if ok then return it end
    it:close()
  end
  return nil, err
end

function socket.sleep(seconds)
  local kind = seconds == nil and "no value" or type(seconds)
  seconds = tonumber(seconds)
  if not seconds then error(("bad argument #1 to 'sleep' (number expected, got %s)"):format(kind), 2) end
  mare.sleep(seconds > 0 and math.min(seconds, 1e9) or 0)
end

------------------------------------------------------------------------------------------------------- names

socket.dns = { gethostname = core.gethostname }

function socket.dns.toip(name)
  name = common.string(name, "toip", 1)
  local list = common.addresses(name, "0", 4, "")
  if not list then return nil, "host not found" end
  local all = {}
  for i, a in ipairs(list) do all[i] = a.host end
  return all[1], { name = name, alias = {}, ip = all }
end

function socket.dns.getaddrinfo(name)
  local list, err = common.addresses(common.string(name, "getaddrinfo", 1), "0", 0, "")
  if not list then return nil, err end
  local out = {}
  for i, a in ipairs(list) do out[i] = { family = a.family == 6 and "inet6" or "inet", addr = a.host } end
  return out
end

function socket.dns.tohostname() return nil, "names of addresses are not looked up by mare.socket" end
socket.dns.getnameinfo = socket.dns.tohostname

------------------------------------------------------------------------------------------------------- exceptions

local thrown = { __tostring = function(self) return tostring(self[1]) end, __metatable = false }

function socket.newtry(finalise)
  return function(...)
    if (...) then return ... end
    if finalise then finalise() end
    error(setmetatable({ (select(2, ...)) }, thrown), 0)
  end
end
socket.try = socket.newtry()

local function caught(ok, ...)
  if ok then return ... end
  if debug.getmetatable((...)) == thrown then return nil, (...)[1] end
  error((...), 0)
end

function socket.protect(f)
  return function(...) return caught(pcall(f, ...)) end
end

function socket.skip(n, ...)
  local count = math.tointeger(tonumber(n))
  if not count then error(("bad argument #1 to 'skip' (number expected, got %s)"):format(n == nil and "no value" or type(n)), 2) end
  if count < 0 then return n, ... end
  return select(count + 1, ...)
end

------------------------------------------------------------------------------------------------------- pumps

socket.sinkt, socket.sourcet = {}, {}

socket.sinkt["keep-open"] = function(it)
  return setmetatable({ getfd = function() return it:getfd() end, dirty = function() return it:dirty() end },
    { __call = function(_, chunk)
      if chunk then return it:send(chunk) end
      return 1
    end })
end

socket.sinkt["close-when-done"] = function(it)
  return setmetatable({ getfd = function() return it:getfd() end, dirty = function() return it:dirty() end },
    { __call = function(_, chunk)
      if chunk then return it:send(chunk) end
      it:close()
      return 1
    end })
end
socket.sinkt.default = socket.sinkt["keep-open"]

socket.sourcet["by-length"] = function(it, length)
  return setmetatable({ getfd = function() return it:getfd() end, dirty = function() return it:dirty() end },
    { __call = function()
      if length <= 0 then return nil end
      local chunk, err = it:receive(math.min(socket.BLOCKSIZE, length))
      if not chunk then return nil, err end
      length = length - #chunk
      return chunk
    end })
end

socket.sourcet["until-closed"] = function(it)
  local over
  return setmetatable({ getfd = function() return it:getfd() end, dirty = function() return it:dirty() end },
    { __call = function()
      if over then return nil end
      local chunk, err, part = it:receive(socket.BLOCKSIZE)
      if chunk then return chunk end
      if err ~= "closed" then return nil, err end
      it:close()
      over = true
      return part ~= "" and part or nil
    end })
end
socket.sourcet.default = socket.sourcet["until-closed"]

local function choose(table_)
  return function(name, first, second)
    if type(name) ~= "string" then name, first, second = "default", name, first end
    local f = table_[name] or error(("unknown key (%s)"):format(tostring(name)), 3)
    return f(first, second)
  end
end
socket.choose, socket.sink, socket.source = choose, choose(socket.sinkt), choose(socket.sourcet)

return socket
