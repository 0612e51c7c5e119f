-- cdr: what the specs of mare.orb.cdr share: types, an environment whose failures are tables, bytes in hexadecimal.
local cdr = require "mare.orb.cdr"

local M = {
  LITTLE = 1 | 2 << 1 | 8 | 16, BIG = 2 << 1 | 8 | 16,       -- GIOP 1.2, UTF-8, UTF-16
  LATIN = 1 | 2 << 1 | 16, ONE_ONE = 1 | 1 << 1 | 8 | 16, ONE_ZERO = 1 | 8 | 16,
}

-- T.long, T.string and so on: the kinds without parameters.
M.T = setmetatable({}, { __index = function(t, kind) t[kind] = { kind = kind } return t[kind] end })

function M.fail(name, minor, text) error({ name = name, minor = minor, text = text }, 0) end
function M.environment(options)
  options = options or {}
  options.fail = M.fail
  return cdr.environment(options)
end
M.env = M.environment()

function M.seq(element, bound) return { kind = "sequence", element = element, bound = bound } end
function M.array(element, length) return { kind = "array", element = element, length = length } end
function M.bounded(kind, bound) return { kind = kind, bound = bound } end
-- struct("Name", { "member", T, "member", T, … })
function M.struct(name, list, kind)
  local members = {}
  for i = 1, #list, 2 do members[#members + 1] = { name = list[i], type = list[i + 1] } end
  return { kind = kind or "struct", id = "IDL:" .. name .. ":1.0", name = name, members = members }
end
function M.enum(name, ...) return { kind = "enum", id = "IDL:" .. name .. ":1.0", name = name, labels = { ... } } end
-- union("Name", D, { label, "member", T }, …); the label nil (as false in place 4) is the default's
function M.union(name, discriminator, ...)
  local u = { kind = "union", id = "IDL:" .. name .. ":1.0", name = name, discriminator = discriminator, members = {} }
  for i, m in ipairs { ... } do
    if m.default then u.default = i end
    u.members[i] = { label = m[1], name = m[2], type = m[3] }
  end
  return u
end
function M.alias(name, T) return { kind = "alias", id = "IDL:" .. name .. ":1.0", name = name, type = T } end
M.object = { kind = "interface", id = "IDL:omg.org/CORBA/Object:1.0", name = "Object" }

function M.hex(s) return (s:gsub(".", function(c) return ("%02x "):format(c:byte()) end):gsub(" $", "")) end
function M.bytes(text) return (text:gsub("%s+", ""):gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end)) end

function M.encode(T, codec, value, env) return (env or M.env):program({ T }, { "value" }):encode(codec, value) end
function M.decode(T, codec, bytes, env) return (env or M.env):program({ T }):decode(bytes, 1, codec) end

-- The value is these bytes, in that order, and the bytes are that value (or `back`).
function M.is(T, codec, value, text, back)
  local bytes = M.bytes(text)
  assert.equal(M.hex(bytes), M.hex(M.encode(T, codec, value)))
  if back == nil then back = value end
  assert.same({ back }, { M.decode(T, codec, bytes) })
end
function M.both(T, value, little, big, back)
  M.is(T, M.LITTLE, value, little, back)
  M.is(T, M.BIG, value, big, back)
end

-- The failure's table.
function M.refused(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, "it was not refused")
  assert.is_table(e, tostring(e))
  return e
end
function M.unsent(T, value, text, codec, name, minor)
  local e = M.refused(M.encode, T, codec or M.LITTLE, value)
  assert.same({ name = name or "BAD_PARAM", minor = minor or 0, text = text }, e)
end
function M.unread(T, text, what, codec, name, minor)
  local e = M.refused(M.decode, T, codec or M.LITTLE, M.bytes(text))
  assert.same({ name or "MARSHAL", minor or 0 }, { e.name, e.minor })
  assert.is_truthy(e.text:find(what, 1, true), e.text)
end

return M
