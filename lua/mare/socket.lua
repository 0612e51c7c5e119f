--[[
mare.socket: LuaSocket's interface over mare.net, so that programs written for it run in processes and fibers and hold up nobody.
What differs is listed in docs/socket.md.
]]
local mare = require "mare"
local net = require "mare.net"
local common = require "mare.socket.common"
local tcp = require "mare.socket.tcp"
local udp = require "mare.socket.udp"

local socket = { _VERSION = "LuaSocket 3.1.0 (mare)", _SETSIZE = math.maxinteger, _DATAGRAMSIZE = udp.DATAGRAM, BLOCKSIZE = 2048,
                 _DEBUG = false }

socket.tcp, socket.tcp4, socket.tcp6 = tcp.new, tcp.new, tcp.new
socket.udp, socket.udp4, socket.udp6 = udp.new, udp.new, udp.new

function socket.connect(address, port, own_address, own_port)
  local it = tcp.new()
  if own_address then
    local ok, err = it:bind(own_address, own_port or 0)
    if not ok then return nil, err end
  end
  local ok, err = it:connect(address, port)
  if not ok then return nil, err end
  return it
end
socket.connect4, socket.connect6 = socket.connect, socket.connect

function socket.bind(address, port, backlog)
  local it = tcp.new()
  local ok, err = it:bind(address, port)
  if ok then ok, err = it:listen(backlog or 32) end
  if not ok then return nil, err end
  return it
end

------------------------------------------------------------------------------------------------------- time

local boot -- LuaSocket's time is that since 1970
function socket.gettime()
  if not boot then                               -- the moment at which a second begins, as exactly as it can be had
    local now = os.time()
    boot = now - mare.clock()
  end
  return boot + mare.clock()
end

function socket.sleep(seconds)
  mare.sleep(math.max(seconds, 0))
end

------------------------------------------------------------------------------------------------------- select

-- What mare.select waits for, or true: it is ready already.
local function to_read(it)
  local class = getmetatable(it)
  if class == tcp.client then return it.conn:closed() or it.conn end
  if class == tcp.server then return (it.ready and #it.ready > 0) or it.server end
  if class == udp.unconnected or class == udp.connected then return udp.handle(it) or true end
  if class == tcp.master then return false end
  error("socket.select: only sockets of mare.socket can be waited for; use mare.wait_fd for a descriptor", 3)
end

local function to_write(it)
  local class = getmetatable(it)
  if class == tcp.client then return it.conn:closed() or it.conn:writing() end
  if class == tcp.master then return it.dialling or false end
  return true
end

local function note(list, it)
  if list[it] then return end
  list[#list + 1] = it
  list[it] = #list
end

-- The connection that select accepted waits for accept.
local function took(it, value)
  if getmetatable(it) == tcp.server and value then it.ready[#it.ready + 1] = value end
end

function socket.select(readers, writers, seconds)
  local readable, writable, cases, owners = {}, {}, {}, {}
  local function add(it, list, what)
    if what == true then note(list, it)
    elseif what then
      cases[#cases + 1] = what
      owners[#cases] = { it, list }
    end
  end
  for _, it in ipairs(readers or {}) do add(it, readable, to_read(it)) end
  for _, it in ipairs(writers or {}) do add(it, writable, to_write(it)) end
  if seconds and seconds < 0 then seconds = nil end
  if #readable + #writable > 0 then seconds = 0 end
  cases.timeout = seconds
  local i, value
  if #cases > 0 or seconds then i, value = mare.select(cases) end
  -- One is ready; which of the others are, too?
  while i do
    local owner = owners[i]
    note(owner[2], owner[1])
    took(owner[1], value)
    local rest, places = { timeout = 0 }, {}
    for k, case in ipairs(cases) do
      if not owners[k][2][owners[k][1]] then
        rest[#rest + 1] = case
        places[#rest] = owners[k]
      end
    end
    cases, owners = rest, places
    if #cases == 0 then break end
    i, value = mare.select(cases)
  end
  if #readable + #writable == 0 then return readable, writable, "timeout" end
  return readable, writable
end

------------------------------------------------------------------------------------------------------- names

socket.dns = {}

local function lookup(name)
  local list, err, code = net.resolve(name)
  if not list then return nil, common.text(err, code) end
  return list
end

function socket.dns.toip(name)
  local list, err = lookup(name)
  if not list then return nil, err end
  local four = {}
  for _, a in ipairs(list) do
    if not a:find(":", 1, true) then four[#four + 1] = a end
  end
  if #four == 0 then return nil, "host not found" end
  return four[1], { name = name, alias = {}, ip = four }
end

function socket.dns.getaddrinfo(name)
  local list, err = lookup(name)
  if not list then return nil, err end
  local out = {}
  for i, a in ipairs(list) do out[i] = { family = a:find(":", 1, true) and "inet6" or "inet", addr = a } end
  return out
end

function socket.dns.tohostname() return nil, "names of addresses are not looked up by mare.socket" end
socket.dns.getnameinfo = socket.dns.tohostname

function socket.dns.gethostname()
  local file <close> = io.open("/proc/sys/kernel/hostname") or io.open("/etc/hostname")
  return file and file:read("l") or "localhost"
end

------------------------------------------------------------------------------------------------------- exceptions

local thrown = { __tostring = function(self) return tostring(self[1]) end }

function socket.newtry(finalise)
  return function(...)
    if (...) then return ... end
    if finalise then pcall(finalise) end
    error(setmetatable({ (select(2, ...)) }, thrown), 0)
  end
end
socket.try = socket.newtry()

local function caught(ok, ...)
  if ok then return ... end
  if getmetatable((...)) == thrown then return nil, (...)[1] end
  error((...), 0)
end

function socket.protect(f)
  return function(...) return caught(pcall(f, ...)) end
end

function socket.skip(n, ...) return select(n + 1, ...) end

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
    local f = table_[name] or error(("unknown key (%s)"):format(tostring(name)), 2)
    return f(first, second)
  end
end
socket.choose, socket.sink, socket.source = choose, choose(socket.sinkt), choose(socket.sourcet)

return socket
