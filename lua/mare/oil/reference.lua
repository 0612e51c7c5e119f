--[[
mare.oil.reference: references as OiL's programs see them: { type_id =, profiles = { { tag =, profile_data = } … } }, one table for each canonical
IOR as
long as somebody has it, so that two proxies of one object have the same.
]]
local ior = require "mare.orb.giop.ior"
local corbaloc = require "mare.orb.giop.corbaloc"

local reference = { __name = "object reference" }
reference.__index = reference

local known = setmetatable({}, { __mode = "v" })
local bytes_of = setmetatable({}, { __mode = "k" })
local decoded = setmetatable({}, { __mode = "k" })

--- The reference of a canonical IOR.
function reference.of(bytes)
  local ref = known[bytes]
  if not ref then
    local parsed = assert(ior.parse(bytes))
    ref = { type_id = parsed.type_id, profiles = {} }
    for i, p in ipairs(parsed.profiles) do ref.profiles[i] = { tag = p.tag, profile_data = p.data } end
    setmetatable(ref, reference)
    known[bytes], bytes_of[ref] = ref, bytes
  end
  return ref
end

--- The canonical IOR of a reference, which may be a table that the program made.
function reference.bytes(ref)
  local bytes = bytes_of[ref]
  if bytes then return bytes end
  if type(ref) ~= "table" then error("what is called is no proxy: an operation is called with a colon, proxy:operation(...)", 0) end
  local profiles = {}
  for i, p in ipairs(ref.profiles) do profiles[i] = { tag = p.tag, data = p.profile_data } end
  return ior.make { type_id = ref.type_id, profiles = profiles }
end

--- Its first IIOP profile, as interceptors see it: tag, data, { host =, port =, object_key =, iiop_version = }.
function reference.profile(ref)
  local known_profile = decoded[ref]
  if known_profile == nil then
    known_profile = false
    for _, p in ipairs(ior.parse(reference.bytes(ref)).profiles) do
      if p.tag == ior.TAG_IIOP and p.host then
        known_profile = { tag = p.tag, data = p.data, key = p.key,
                          decoded = { host = p.host, port = p.port, object_key = p.key, iiop_version = { major = 1, minor = p.minor } } }
        break
      end
    end
    decoded[ref] = known_profile
  end
  return known_profile or nil
end

function reference:__tostring() return ior.stringify(reference.bytes(self)) end

--- A corbaloc as the standard wants it: OiL takes one without a host, and any character in a key.
function reference.text(text)
  local key = text:match "^%s*corbaloc::?/(.*)$"
  if key then text = "corbaloc::localhost:2809/" .. key end
  local head, rest = text:match "^%s*(corbaloc:[^/]*/)(.-)%s*$"
  if not head then return text end
  return head .. rest:gsub("[^%w%%;/:?@&=+$,%-_.!~*'()]", corbaloc.escape)
end

return reference
