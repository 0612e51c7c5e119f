--[[
mare.socket.tcp: LuaSocket's TCP objects over mare.net.

A socket is a table; its class changes as in LuaSocket: master (new, or bound), client, server. Fields:
  conn      the mare connection (client)         server, ready   the mare server, and what select accepted already (server)
  dialling  a fiber that connects while the program does something else (settimeout(0), then connect)
  block, total   the two timeouts of settimeout, in seconds; nil = none
]]
local mare = require "mare"
local net = require "mare.net"
local common = require "mare.socket.common"

local master, client, server = common.class "tcp{master}", common.class "tcp{client}", common.class "tcp{server}"
local tcp = { master = master, client = client, server = server }

function tcp.new()
  return setmetatable({ received = 0, sent = 0, born = mare.clock() }, master)
end

local function become_client(self, conn)
  self.conn, self.dialling = conn, nil
  return setmetatable(self, client)
end

-- Every class has these.
local function shared(name, f)
  for _, class in ipairs { master, client, server } do class.__index[name] = f end
end

shared("settimeout", common.settimeout)
shared("gettimeout", common.gettimeout)

shared("close", function(self)
  local it = self.conn or self.server
  if it then
    if self.conn then self.conn:close(common.seconds(self)) else it:close() end
  end
  for _, waiting in ipairs(self.ready or {}) do waiting:close() end
  self.closed, self.ready = true, nil
  return 1
end)

shared("getfd", function(self)
  local it = self.conn or self.server
  return it and it:fd() or -1
end)

shared("dirty", function(self)
  return (self.conn and self.conn:buffered() > 0) or (self.ready and #self.ready > 0) or false
end)

shared("getsockname", function(self)
  local it = self.conn or self.server
  if not it then return nil, "Bad file descriptor" end
  local host, port = it:address()
  if not host then return nil, "closed" end
  if host == "::" then host = "0.0.0.0" end
  return host, ("%d"):format(port), host:find(":", 1, true) and "inet6" or "inet"
end)

shared("getstats", function(self) return self.received, self.sent, mare.clock() - self.born end)

shared("setstats", function(self, received, sent, age)
  self.received, self.sent = received or self.received, sent or self.sent
  self.born = age and mare.clock() - age or self.born
  return 1
end)

local OPTIONS = { ["keepalive"] = "keepalive", ["reuseaddr"] = "reuseaddr", ["reuseport"] = "reuseport", ["tcp-nodelay"] = "nodelay",
                  ["recv-buffer-size"] = "rcvbuf", ["send-buffer-size"] = "sndbuf", ["ipv6-v6only"] = "v6only", ["linger"] = "linger" }

shared("setoption", function(self, name, value)
  local own = OPTIONS[name] or error(("bad argument #1 to 'setoption' (unsupported option '%s')"):format(tostring(name)), 2)
  if name == "linger" then value = value.on and value.timeout or false end
  local it = self.conn or self.server
  if not it then                                  -- there is no descriptor yet
    self.wishes = self.wishes or {}
    self.wishes[own] = value
    return 1
  end
  local ok, err, code = it:option(own, value)
  if not ok then return nil, common.text(err, code) end
  return 1
end)

shared("getoption", function(self, name)
  local own = OPTIONS[name] or error(("bad argument #1 to 'getoption' (unsupported option '%s')"):format(tostring(name)), 2)
  local it = self.conn or self.server
  if not it then return self.wishes and self.wishes[own] or false end
  local value, err, code = it:option(own)
  if value == nil then return nil, common.text(err, code) end
  if name == "linger" then return { on = value and true or false, timeout = value or 0 } end
  return value
end)

local function grant(self, it)
  for name, value in pairs(self.wishes or {}) do it:option(name, value) end
  self.wishes = nil
end

------------------------------------------------------------------------------------------------------------------- master

function master.__index:bind(address, port)
  if address == "*" then address = nil end
  local bound, err, code = net.listen({ host = address, port = common.port(port), backlog = 32,
                                        reuseport = self.wishes and self.wishes.reuseport })
  if not bound then return nil, common.text(err, code) end
  self.server = bound                             -- so the port is known from now on
  return 1
end

function master.__index:listen(backlog)
  if backlog ~= nil and not math.tointeger(backlog) then error("bad argument #1 to 'listen' (number expected)", 2) end
  if not self.server then
    local bound, err, code = net.listen({ port = 0 })
    if not bound then return nil, common.text(err, code) end
    self.server = bound
  end
  self.ready = {}
  grant(self, self.server)
  setmetatable(self, server)
  return 1
end

local function finished(self)
  local ok, conn, err, code = self.dialling:wait(0)
  if ok == nil then return nil, "Operation already in progress" end
  self.dialling = nil
  if not ok then return nil, tostring(conn) end
  if not conn then return nil, common.text(err, code) end
  grant(self, conn)
  become_client(self, conn)
  self.told = true
  return 1
end

function master.__index:connect(address, port)
  if self.dialling then return finished(self) end
  local options = { timeout = common.seconds(self) }
  if self.server then
    local host, own = self.server:address()
    self.server:close()
    self.server = nil
    if host ~= "::" and host ~= "0.0.0.0" then options.bind = host:find(":", 1, true) and ("[%s]:%d"):format(host, own) or host .. ":" .. own end
  end
  if options.timeout == 0 then
    options.timeout = nil
    self.dialling = mare.fiber.spawn(net.connect, address, common.port(port), options)
    mare.fiber.yield()                            -- near peers have answered by then
    local ok, err = finished(self)
    if ok then return 1 end
    return nil, err == "Operation already in progress" and "timeout" or err
  end
  local conn, err, code = net.connect(address, common.port(port), options)
  if not conn then return nil, common.text(err, code) end
  grant(self, conn)
  become_client(self, conn)
  return 1
end

------------------------------------------------------------------------------------------------------------------- server

function server.__index:accept()
  local conn, err, code = table.remove(self.ready or {}, 1), nil, nil
  if not conn then conn, err, code = self.server:accept(common.seconds(self)) end
  if not conn then return nil, common.text(err, code) end
  return become_client(tcp.new(), conn)
end

------------------------------------------------------------------------------------------------------------------- client

-- As Linux says it: the first time that it is done, then that it was done.
function client.__index:connect()
  if self.told then return nil, "already connected" end
  self.told = true
  return 1
end

function client.__index:getpeername()
  local host, port = self.conn:peer()
  if not host then return nil, common.text(port, "ENOTCONN") end
  return host, port, host:find(":", 1, true) and "inet6" or "inet"
end

-- What came so far, of a receive that failed.
local function rest(self, prefix, err, code)
  local n = self.conn:closed() and 0 or self.conn:buffered()
  local part = n > 0 and self.conn:read(n) or ""
  self.received = self.received + #part
  return nil, common.text(err, code), prefix .. part
end

local function receive_line(self, prefix, seconds)
  local line, err, code = self.conn:read("L", seconds)
  if not line then
    local _, text, part = rest(self, "", err, code)
    return nil, text, prefix .. part:gsub("\r", "")
  end
  self.received = self.received + #line
  if line:sub(-1) ~= "\n" then return nil, "closed", prefix .. line:gsub("\r", "") end
  return prefix .. line:sub(1, -2):gsub("\r", "")
end

local function receive_all(self, prefix, seconds)
  local text, err, code = self.conn:read("a", seconds)
  if not text then return rest(self, prefix, err, code) end
  self.received = self.received + #text
  if text == "" then return nil, "closed", prefix end
  return prefix .. text
end

local function receive_count(self, n, prefix, seconds)
  n = n - #prefix
  if n <= 0 then return prefix end
  local text, err, code = self.conn:read(n, seconds)
  if not text then return rest(self, prefix, err, code) end
  self.received = self.received + #text
  if #text < n then return nil, "closed", prefix .. text end
  return prefix .. text
end

function client.__index:receive(pattern, prefix)
  prefix = prefix and tostring(prefix) or ""
  local seconds = common.seconds(self)
  if type(pattern) == "number" or tonumber(pattern) then
    local n = math.tointeger(tonumber(pattern))
    if not n or n < 0 then error("bad argument #1 to 'receive' (invalid receive pattern)", 2) end
    return receive_count(self, n, prefix, seconds)
  end
  local kind = (pattern or "*l"):gsub("^%*", ""):sub(1, 1)
  if kind == "l" then return receive_line(self, prefix, seconds) end
  if kind == "a" then return receive_all(self, prefix, seconds) end
  error("bad argument #1 to 'receive' (invalid receive pattern)", 2)
end

function client.__index:send(data, i, j)
  data = tostring(data)
  local n = #data
  i, j = i or 1, j or -1
  if i < 0 then i = math.max(n + i + 1, 1) elseif i == 0 then i = 1 end
  if j < 0 then j = n + j + 1 elseif j > n then j = n end
  if i > j then return i - 1 end
  self.conn:timeout(common.seconds(self) or math.huge)
  local ok, err, code, count = self.conn:write((i == 1 and j == n) and data or data:sub(i, j))
  if ok then count = j - i + 1 end
  self.sent = self.sent + (count or 0)
  if ok then return j end
  return nil, common.text(err, code), i - 1 + (count or 0)
end

local WAYS = { both = "both", send = "write", receive = "read" }
function client.__index:shutdown(way)
  local own = WAYS[way or "both"] or error(("bad argument #1 to 'shutdown' (invalid option '%s')"):format(tostring(way)), 2)
  local ok, err, code = self.conn:shutdown(own)
  if not ok then return nil, common.text(err, code) end
  return 1
end

common.strangers(master, client, server)

return tcp
