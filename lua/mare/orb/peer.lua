--[[
mare.orb.peer: how a connection of a server ends. `self` is its pool, which counts it; pool.lua says what a peer is.

Who takes n to 0 settles the peer: a closing one gets CloseConnection, then its leader reads on until the client closes (closing
first could make the client's system throw away replies it has not read), but not beyond `linger` seconds; a gone one is closed.
]]
local fiber = require "mare".fiber

local QUIET = 0.1                                -- seconds

local function remove(self, peer)
  if not self.peers[peer] then return end
  self.peers[peer] = nil
  self.count = self.count - 1
  if peer.host then self.departed(peer.host) end
  if peer.counted then self.parting = self.parting - 1 end
  if peer.n == 0 then peer.purse:close() end               -- else with the last of its requests
  peer.over:close()
  if self.count == 0 and self.emptied then self.emptied:close() end
  pcall(self.vacancy.try_send, self.vacancy, true)         -- where there is no memory for it: who waits there looks by himself
end

-- Takes no memory.
local function drop(self, peer)
  peer.gone, peer.closing = true, true
  self.keeper:released(peer.connection.pending)
  peer.connection:close(0)
  remove(self, peer)
  if peer.link then peer.link:sever("lost", "the connection was closed") end
end

-- A client that doesn't close after a CloseConnection is closed: soon if it was quiet, as then it reads nothing before its next call.
local function lingering(self, peer, quiet)
  peer.over:receive(quiet and math.min(QUIET, self.limits.linger) or self.limits.linger)
  if self.peers[peer] then drop(self, peer) end
end

local function settle(self, peer, quiet)
  if peer.n > 0 then return end
  if peer.gone then return drop(self, peer) end
  if not peer.closing or peer.parted then return end
  local link = peer.link
  if link and link.count > 0 then return end     -- it says when it isn't waited for any more
  peer.parted = true
  local connection_ = peer.connection
  if link then link:hurry() end
  if connection_:goodbye() then connection_.socket:shutdown("write") end
  fiber.spawn(lingering, self, peer, quiet)
end

-- Accepts no more from a client, and says so when all it asked is answered.
local function part(self, peer)
  peer.closing = true
  if peer.link then peer.link:retire() end
  if not peer.counted then
    peer.counted, self.parting = true, self.parting + 1
  end
  settle(self, peer, true)
end

return { drop = drop, settle = settle, part = part }
