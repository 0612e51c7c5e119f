--[[
mare.orb.transport: the client's connections: which address has a link (mare.orb.link), how new ones are made, what closes those that nobody uses.

Fibers that want a link to the same address at once wait for the one that connects.
]]
local mare = require "mare"
local net = require "mare.net"
local budget = require "mare.orb.budget"
local connection = require "mare.orb.giop.connection"
local link = require "mare.orb.link"

local channel, clock, fiber = mare.channel, mare.clock, mare.fiber
local remaining, IDLE = link.remaining, link.IDLE
local FOREVER = math.huge
local MEMORY = 64 << 20                           -- bytes of all replies that have not all come

local transport = {}
transport.__index = transport

local attempt = {}

-- Whoever connects has ended, with a link or without: who waited for him goes on.
function attempt.__close(a)
  if a.transport.attempts[a.address] == a then a.transport.attempts[a.address] = nil end
  a.over:close()
end

--- options: connect_timeout, max_minor; unused: seconds after which a connection that nobody uses is closed, or nil; limits, native, codeset
--- as connection.new takes them; capture (giop/pcap); secure (mare.orb.secure)
function transport.new(options)
  local limits = options.limits or {}
  return setmetatable({ links = {}, attempts = {}, options = options, opened = 0, closing = channel.new(),
                        budget = budget.new(limits.memory or MEMORY, limits.share or limits.memory or MEMORY) }, transport)
end

-- Closes what nobody has used for long: one fiber for all links, while there are any.
local function sweep(self)
  local unused = self.options.unused
  while next(self.links) do
    local now, first = clock(), FOREVER
    for _, l in pairs(self.links) do
      local used = l:expire(now - unused)
      if used and used < first then first = used end
    end
    if first < FOREVER then self.closing:receive(first + unused - now) end
    if self.closed then break end
  end
  self.sweeping = false
end

function transport:forget(l)
  if self.links[l.address] == l then self.links[l.address] = nil end
end

local function sooner(a, b)
  if not a or not b then return a or b end
  return a < b and a or b
end

-- To a Unix socket, whose path a stranger's reference may have: what can be none is nil, why, too.
local function connect_unix(path, how)
  local fine, sock, err, code = pcall(net.connect, path, how)
  if fine then return sock, err, code end
  local why = type(sock) == "string" and sock:match "bad argument #1 to '[^']*' %((.*)%)$"
  if why then return nil, why, "EINVAL" end
  error(sock, 0)
end

-- A connection, with TLS or without; port 0: to a Unix socket, whose host is unix:/path. -> socket | nil, message, code
local function connect(self, host, port, deadline, tls)
  local options = self.options
  local how = { timeout = sooner(options.connect_timeout, remaining(deadline)) }
  local sock, err, code
  if port == 0 then sock, err, code = connect_unix(host, how) else sock, err, code = net.connect(host, port, how) end
  if not sock or not tls then return sock, err, code end
  return options.secure:client(sock, host, sooner(options.connect_timeout, remaining(deadline)))
end

-- The link over a connection that was just made. `offer`: the other side may call by it, too.
local function link_over(self, sock, address, offer)
  local options = self.options
  if offer then return self.duplex:open(self, address, sock, offer) end
  local tap = options.capture and options.capture:tap(sock, "client")
  local conn = connection.new(sock, { role = "client", limits = options.limits, tap = tap, native = options.native, codeset = options.codeset,
                                      purse = self.budget:purse() })
  return link.new(self, address, conn, options.max_minor or 2)
end

local function open(self, address, host, port, minor, deadline, tls)
  local options = self.options
  local offer = self.duplex and minor == 2 and self.duplex:offer(host) or nil
  local a <close> = setmetatable({ transport = self, address = address, over = channel.new() }, attempt)
  self.attempts[address] = a
  local sock, err, code = connect(self, host, port, deadline, tls)
  if not sock then
    if err ~= "timeout" or not deadline or clock() < deadline then a.err, a.code = err, code end     -- else the time was over for one call alone
    return nil, err, code
  end
  if self.closed then
    sock:close(0)
    return nil, "the broker is closed", "EBADF"
  end
  self.opened = self.opened + 1
  local fine, l = pcall(link_over, self, sock, address, offer)
  if not fine then
    sock:close(0)
    error(l, 0)
  end
  self.links[address] = l
  if options.unused and not self.sweeping then
    self.sweeping = pcall(fiber.spawn, { name = "orb idle connections", main = sweep, args = { self }, daemon = true })   -- or with the next one
  end
  return l
end

--- What links to an address are known by. GIOP 1.0 knows no code sets, so it has connections of its own; and so has TLS.
function transport.name(host, port, minor, tls)
  if port == 0 then return host .. (minor == 0 and " (GIOP 1.0)" or "") end
  return (host:find(":", 1, true) and "[" .. host .. "]" or host) .. ":" .. port .. (minor == 0 and " (GIOP 1.0)" or "") .. (tls and " (TLS)" or "")
end

--- The link to an address; connects if there is none. -> link | nil, message, code
function transport:link(host, port, minor, deadline, tls)
  local address = transport.name(host, port, minor, tls)
  while true do
    local l = self.links[address] or self.duplex and self.duplex:find(address)
    if l then
      local now = clock()
      if l.leader or now - l.used < IDLE or l:alive() then return l end
    end
    local a = self.attempts[address]
    if not a then return open(self, address, host, port, minor, deadline, tls) end
    local _, err = a.over:receive(remaining(deadline))
    if err == "timeout" then return nil, "timeout" end
    if a.err then return nil, a.err, a.code end
  end
end

--- Closes all connections; who waits for a reply learns that they are lost.
function transport:close()
  self.closed = true
  self.closing:close()
  for _, l in pairs(self.links) do l:fail("lost", "the broker was closed") end
  if self.duplex then self.duplex:close() end
end

return transport
