--[[
mare.orb.duplex: connections that carry requests both ways (bidirectional GIOP, CORBA 3.3 part 2, 9.8).

Such a connection is both a *peer* of the server's pool, whose fibers read from it and serve what is asked there, and a *link* of the client's half:
its replies are handed over by those fibers. Who opened the connection offers it, with the addresses of his objects (BI_DIR_IIOP); the other
side then calls these objects over it, so that they need not be reachable otherwise.

That is asked for by options, as omniORB's: -ORBofferBiDirectionalGIOP for connections that we open, -ORBacceptBiDirectionalGIOP for those that others
open, and then a rule of -ORBserverTransportRule that says "bidir" of the client's address. A client may say any address, also somebody else's;
so nobody is believed whom no rule names, nobody gets our own addresses, and what one host has claimed no other one gets as long as that connection
is there.

Invariants:
  - link.leader is true: whoever waits for a reply is a follower, for a fiber of the pool reads;
  - link.wrapped is true, so that fresh makes the ids: even ones of whom opened the connection, odd ones of the other;
  - peer.link is its link from when it carries requests both ways; a dead link stays there, and gets no more calls;
  - claims[address] are the links that were said to lead there, the one in use first; those that are dead or retired are in none.
]]
local mare = require "mare"
local bidir = require "mare.orb.giop.bidir"
local core = require "mare.orb.giop.core"
local door = require "mare.orb.door"
local links = require "mare.orb.link"
local peers = require "mare.orb.peer"
local rules = require "mare.orb.rules"

local LAST_ID = links.LAST_ID
local OFFERS = 16                                 -- different lists of addresses from one connection: who has more is up to no good

-- ---- links ----

local duplex = setmetatable({}, { __index = links })
duplex.__index = duplex

--- The next request id: every other one is ours.
function duplex:fresh()
  local id = self.id
  repeat
    id = id + 2
    if id > LAST_ID then id, self.went_round = self.first, true end
  until not self.waiting[id] and not self.abandoned[id]
  return id
end

--- No reply comes any more; replies of ours may still be written. Takes no memory.
function duplex:sever(why, text)
  if self.dead then return end
  self.dead, self.over, self.text = why, true, self.text or text
  self.transport:forget(self)
  self:wake(why)
end

function duplex:fail(why, text)
  if self.dead then return end
  self:sever(why, text)
  peers.drop(self.pool, self.peer)
end

--- No new calls; those that wait still get their replies.
function duplex:retire()
  if self.retired or self.dead then return end
  self.retired, self.over, self.text = true, true, "the connection was to be closed"
  self.transport:forget(self)
end

--- Nobody waits for a reply any more: a connection that ends has waited for that.
function duplex:idled()
  if self.peer.closing then peers.settle(self.pool, self.peer) end
end

--- The server's half writes now, and has its own limit for that.
function duplex:hurry()
  self.socket:timeout(self.patience)
  self.hurried = true
end

-- It closes for no idleness: the other side could not call any more.
function duplex.expire() return mare.clock() end
function duplex:alive() return not self.dead end

--- A reply has come. False: it answers what was never asked, and the connection is closed.
function duplex:answered(message, kind, bits, id, status, at, contexts)
  if id % 2 == self.first % 2 and (id <= self.id or self.went_round) then
    self:deliver(id, message, kind, bits, status, at, contexts)
    return true
  end
  self.pool.log(2, "a peer answered a request that was never made; its connection is closed")
  self:hurry()
  self.conn:send(core.error(bits >> 1, bits & 1))
  self:fail("lost", "the other side answered a request that was never made")
  return false
end

-- The link of a peer. `first`: 2 if we opened the connection, else 1.
local function couple(pool, peer, transport, address, first)
  local conn = peer.connection
  local l = setmetatable(links.new(transport, address, conn, 2), duplex)
  l.pool, l.peer, l.first, l.id, l.patience = pool, peer, first, first - 2, pool.limits.reply
  l.leader, l.wrapped, l.hurried, l.went_round, l.retired = true, true, true, false, false
  peer.link, peer.patience = l, math.huge
  return l
end

-- ---- a broker's ----

local registry = {}
registry.__index = registry

--- Those of a broker; nil if its options don't ask for any.
function registry.new(broker)
  local options = broker.options
  if not options.offerBiDirectionalGIOP and not options.acceptBiDirectionalGIOP then return nil end
  return setmetatable({ broker = broker, accepts = options.acceptBiDirectionalGIOP or false, claims = {},
                        offers = options.offerBiDirectionalGIOP and options.max_minor >= 2,
                        server = rules.list(options.serverTransportRule) or {} }, registry)
end

local function note(self, level, text) pcall(self.broker.log, level, text) end

-- ---- connections that we open ----

--- Is a connection to this host to be offered? Then the server's half is open, and this is what the request says: the data of the context.
function registry:offer(host)
  local reach = self.broker.secure.reach
  if not self.offers or reach and not reach:both_ways(host) then return nil end
  local server = self.broker:need_server()
  if server.state == "new" then server:open() end
  if server.state ~= "open" then return nil end
  local points = {}
  for _, a in ipairs(server.addresses) do
    if a[2] ~= 0 then points[#points + 1] = { a[1], a[2] } end
  end
  return #points > 0 and #points <= bidir.MOST and bidir.make(points) or nil
end

--- The link over a connection that we have opened. `data`: what offer gave.
function registry:open(transport, address, socket, data)
  local pool = self.broker.server.pool
  local peer = pool:peer(socket, "client")
  local l = couple(pool, peer, transport, address, 2)
  l.offer, peer.ours = data, true
  pool:begin(peer)
  return l
end

-- ---- connections that others open ----

local function named(self, socket)
  local host, own = door.who(socket)
  local rule = rules.find(self.server, host, own)
  return rule and rule.bidir and not rule.none, host
end

-- The names under which a transport looks for a link. One with TLS serves calls that need none, too; never the reverse.
local function names_of(transport, point, secured)
  local plain = transport.name(point[1], point[2], 2, false)
  return secured and { plain, transport.name(point[1], point[2], 2, true) } or { plain }
end

-- What is claimed twice stays with the host that has it; the same host means its new connection, as it may have lost the old one without our knowing:
-- that is over then, unless the new one goes first.
local function claim(self, name, l)
  local list = self.claims[name]
  for _, other in ipairs(list or {}) do
    if other == l then return end
  end
  if not list then
    self.claims[name] = { l }
  elseif list[1].from == l.from then
    list[1].over = true
    table.insert(list, 1, l)
  else
    list[#list + 1] = l
    note(self, 2, ("a client at %s says that it serves at %s, as one at %s does: that one is believed while it is connected"):format(l.from, name,
      list[1].from))
  end
  l.names[#l.names + 1] = name
end

--- A link is over. Takes no memory.
function registry:forget(l)
  for _, name in ipairs(l.names) do
    local list = self.claims[name]
    for i = #(list or ""), 1, -1 do
      if list[i] == l then table.remove(list, i) end
    end
    if list and list[1] then list[1].over = false else self.claims[name] = nil end
  end
  l.names = self.none
end
registry.none = {}

--- The link to an address, if a client that serves there has offered its connection.
function registry:find(address)
  local list = self.claims[address]
  return list and list[1]
end

local function accept(self, pool, peer, points, host)
  local transport, server = self.broker.transport, self.broker.server
  local l = peer.link
  if not l then
    l = couple(pool, peer, self, ("the connection from %s"):format(host), 1)
    l.from, l.names = host, {}
    peer.connection.chosen = true                -- with its code sets
  elseif l.dead or l.retired then
    return
  end
  for _, point in ipairs(points) do
    if server:is_own(point[1], point[2]) then
      note(self, 2, ("a client at %s says that it serves at %s:%d, which is our own address"):format(host, point[1], point[2]))
    elseif #l.names < 2 * bidir.MOST then
      for _, name in ipairs(names_of(transport, point, peer.connection.socket:tls() ~= nil)) do claim(self, name, l) end
    end
  end
end

--- A request came with contexts: is its connection offered, by somebody whom a rule names?
function registry:offered(pool, peer, bits, contexts)
  local data = contexts[bidir.CONTEXT]
  if not data or bits >> 1 < 2 or peer.points == data or peer.ours or peer.closing or peer.offers == OFFERS then return end
  peer.points, peer.offers = data, peer.offers + 1
  local welcome, host = named(self, peer.connection.socket)
  if not welcome then
    if peer.stranger then return end              -- said once, however often it is offered
    peer.stranger = true
    note(self, 2, ("a client at %s offers its connection for calls; no rule of -ORBserverTransportRule says 'bidir' of it"):format(tostring(host)))
    return
  end
  local points, err = bidir.read(data)
  if not points then
    note(self, 2, ("a client at %s offers its connection for calls, but %s"):format(tostring(host), err))
    return
  end
  accept(self, pool, peer, points, host)
end

--- The client's half ends: nobody is called back any more.
function registry:close()
  local all = {}
  for _, list in pairs(self.claims) do
    for _, l in ipairs(list) do all[l] = true end
  end
  for l in pairs(all) do l:sever("lost", "the broker was closed") end
end

return registry
