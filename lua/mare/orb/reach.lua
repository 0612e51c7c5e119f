--[[
mare.orb.reach: how servers may be reached, by their addresses, as omniORB's -ORBclientTransportRule says it.

  "localhost unix,tcp"    "10.0.0.0/8 ssl,tcp,bidir"    "* none"

The first rule that fits a server's address counts (see rules.lua); a server whom none fits is not called. Of several addresses of a reference those
are tried first whose rule comes first, and of one rule's those whose transport is named first. A name stands for all its addresses; it is only
looked up if a rule has a mask. "localhost" is this machine, whatever the address. A Unix socket is on this machine.
]]
local net = require "mare.net"
local endpoint = require "mare.orb.endpoint"
local rules = require "mare.orb.rules"

local reach = {}
reach.__index = reach

local PATIENCE = 5                                -- seconds to look up a name
local HERE = "127.0.0.1"

--- The rules in these texts; nil: there are none, and every way will do.
function reach.new(texts)
  local list = rules.list(texts)
  if not list then return nil end
  local self = setmetatable({ list = list, masks = false }, reach)
  for _, rule in ipairs(list) do self.masks = self.masks or rule.name ~= "*" end
  return self
end

-- The addresses that a host stands for; "" where that makes no difference, or nobody knows.
local function addresses_of(self, host)
  if host == "localhost" or host:find "^unix:" then return { HERE } end
  if rules.address(host) then return { host } end
  local list = self.masks and net.resolve(host, PATIENCE)
  return list and #list > 0 and list or { "" }
end

--- The first rule that fits a host, and its place.
function reach:rule(host)
  local best, place
  for _, address in ipairs(addresses_of(self, host)) do
    local own = self.masks and address ~= HERE and address ~= "" and endpoint.source(address) or nil
    local rule, at = rules.find(self.list, address, own)
    if rule and (not place or at < place) then best, place = rule, at end
  end
  return best, place
end

--- May a host be reached by "tcp", "ssl" or "unix"? Then: its rank, less is better. nil: no.
function reach:rank(host, transport)
  local rule, place = self:rule(host)
  if not rule or rule.none or not rule[transport] then return nil end
  return place * 100 + rule[transport]
end

--- May servers at this host call us back over our connections?
function reach:both_ways(host)
  local rule = self:rule(host)
  return rule ~= nil and not rule.none and rule.bidir ~= nil
end

return reach
