--[[
mare.orb.rules: who may connect, by address, as omniORB's -ORBserverTransportRule says it.

  "10.0.0.0/8 tcp,ssl"    "192.168.1.0/255.255.255.0 ssl"    "fd00::/8 ssl"    "localhost tcp"    "* none"

A rule is a mask and what those may use whom it fits: tcp, ssl, unix, or none; and bidir, see duplex.lua. The first that fits counts; whom none fits
is refused. "localhost" is who connects from this machine. For what we connect to see reach.lua.
]]
local rules = {}

local FORM = "an address mask and what it may use, such as \"10.0.0.0/8 tcp,ssl\", \"localhost tcp\", \"* none\""
local ACTIONS = { tcp = true, ssl = true, unix = true, bidir = true, none = true }

local function ipv4(text)
  local bytes = { text:match "^(%d+)%.(%d+)%.(%d+)%.(%d+)$" }
  if #bytes ~= 4 then return nil end
  for i, b in ipairs(bytes) do
    if #b > 3 or tonumber(b) > 255 then return nil end
    bytes[i] = tonumber(b)
  end
  return string.char(table.unpack(bytes))
end

-- Groups of four digits on one side of the ::, the last of them perhaps an address of IPv4.
local function groups(text)
  local out = {}
  if text == "" then return "" end
  for part, last in (text .. ":"):gmatch "([^:]*)(:)" do
    local four = part:find(".", 1, true) and ipv4(part)
    if not four and not part:find "^%x%x?%x?%x?$" or not last then return nil end
    out[#out + 1] = four or string.pack(">I2", tonumber(part, 16))
  end
  return table.concat(out)
end

local function ipv6(text)
  text = text:gsub("%%.*$", "")                  -- the zone
  local before, after = text:match "^(.-)::(.*)$"
  if not before then
    local all = groups(text)
    return all and #all == 16 and all or nil
  end
  local a, b = groups(before), groups(after)
  if not a or not b or #a + #b > 14 then return nil end
  return a .. ("\0"):rep(16 - #a - #b) .. b
end

local MAPPED = ("\0"):rep(10) .. "\255\255"

--- An address as bytes, 4 or 16 of them; one of IPv4 that came by IPv6 is one of IPv4. nil: it is none.
function rules.address(text)
  local bytes = ipv4(text) or text:find(":", 1, true) and ipv6(text)
  if bytes and #bytes == 16 and bytes:sub(1, 12) == MAPPED then return bytes:sub(13) end
  return bytes or nil
end

-- How many of its first bits are ones, if no other is.
local function ones(mask)
  local n, over = 0, false
  for i = 1, #mask * 8 do
    local one = mask:byte((i - 1) // 8 + 1) & 0x80 >> (i - 1) % 8 ~= 0
    if one and over then return nil end
    if one then n = n + 1 else over = true end
  end
  return n
end

local function prefix(address, mask)
  if not mask then return #address * 8 end
  local n = mask:find "^%d+$" and math.tointeger(tonumber(mask))
  if n then return n <= #address * 8 and n or nil end
  local bytes = rules.address(mask)
  return bytes and #bytes == #address and ones(bytes) or nil
end

local function mask_of(text)
  if text == "*" or text == "localhost" then return { name = text } end
  local host, length = text:match "^(.-)/(.+)$"
  local address = rules.address(host or text)
  local bits = address and prefix(address, length)
  return bits and { address = address, bits = bits } or nil
end

--- { name = "*" or "localhost" | address =, bits =, tcp =, ssl =, unix =, bidir =, none = }, each the place where the rule names it
--- | nil, what it should be
function rules.read(text)
  local mask, actions = tostring(text):match "^%s*(%S+)%s+(%S.-)%s*$"
  local rule = mask and mask_of(mask)
  if not rule then return nil, FORM end
  local n = 0
  for action in actions:gmatch "[^,%s]+" do
    if not ACTIONS[action] then return nil, FORM end
    n = n + 1
    rule[action] = rule[action] or n
  end
  return rule
end

local function same_bits(a, b, n)
  local whole = n // 8
  if a:sub(1, whole) ~= b:sub(1, whole) then return false end
  if n % 8 == 0 then return true end
  return (a:byte(whole + 1) ~ b:byte(whole + 1)) >> 8 - n % 8 == 0
end

local function is_here(bytes, own)
  return bytes == own or #bytes == 4 and bytes:byte() == 127 or bytes == ("\0"):rep(15) .. "\1"
end

local function fits(rule, bytes, own)
  if rule.name == "*" then return true end
  if not bytes then return false end
  if rule.name then return is_here(bytes, own) end
  return #bytes == #rule.address and same_bits(bytes, rule.address, rule.bits)
end

--- The rules of a list of texts; nil: there are none.
function rules.list(texts)
  if not texts then return nil end
  local list = {}
  for i, text in ipairs(texts) do list[i] = rules.read(text) end
  return list
end

--- The first rule that fits an address that is connected to ours, and its place; nil: none does. One that says "none" allows nothing else.
function rules.find(list, host, own)
  local bytes, here = rules.address(host or ""), rules.address(own or "")
  for i, rule in ipairs(list) do
    if fits(rule, bytes, here) then return rule, i end
  end
end

--- May who comes from this address to that of ours use "tcp", "ssl" or "unix"?
function rules.allow(list, host, own, transport)
  local rule = rules.find(list, host, own)
  return rule ~= nil and not rule.none and rule[transport] ~= nil
end

return rules
