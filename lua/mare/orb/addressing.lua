--[[
mare.orb.addressing: requests that name their object by a profile or by its whole reference, for servers that answer a key with
NEEDS_ADDRESSING_MODE (CORBA 3.3 part 2, 9.4.3.1 and 9.4.4). Rare, so the head is put together here; only GIOP 1.2 has it.
]]
local ior = require "mare.orb.giop.ior"

local addressing = {}

local core = require "mare.orb.giop.core"

local KEY, PROFILE, REFERENCE = core.KEY, core.PROFILE, core.REFERENCE

local function index_of(profiles, endpoint)
  for i, p in ipairs(profiles) do
    if p.data == endpoint.profile then return i end
  end
  return 1
end

--- What a request carries in the place of the key; nil: the key itself.
function addressing.target(canonical, endpoint, mode)
  if mode == KEY then return nil end
  if mode == PROFILE then return { mode = PROFILE, bytes = string.pack("<!4I4s4", 0, endpoint.profile) } end
  if mode ~= REFERENCE then return nil end
  local index = index_of(ior.parse(canonical).profiles, endpoint)
  return { mode = REFERENCE, bytes = string.pack("<I4", index - 1) .. canonical:sub(5) }    -- without the order of its encapsulation
end

local function contexts_of(list)
  local parts, size = { string.pack("<I4", #list) }, 4
  for _, entry in ipairs(list) do
    local bytes = ("\0"):rep(-size % 4) .. string.pack("<I4s4", entry[1], entry[2])
    parts[#parts + 1], size = bytes, size + #bytes
  end
  return table.concat(parts)
end

--- As core.head, with what addressing.target gave instead of the key.
function addressing.head(minor, _, response, target, operation, contexts)
  local function align(bytes) return bytes .. ("\0"):rep(-#bytes % 4) end
  local head = align(string.pack("<!4I4I1I1I1I1i2", 0, response, 0, 0, 0, target.mode)) .. target.bytes
  head = align(align(head) .. string.pack("<s4", operation .. "\0")) .. contexts_of(contexts or {})
  return "GIOP" .. string.pack("<I1I1I1I1I4", 1, minor, 1, 0, #head) .. head, 12
end

return addressing
