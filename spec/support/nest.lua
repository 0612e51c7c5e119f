-- nest: TypeCodes inside TypeCodes, as many as you like, in little-endian bytes; in time that grows with their number.
local pack = string.pack

local EMPTY, ORDER = "\1\0\0\0\0\0\0\0", "\1\0\0\0"               -- a string without characters; the encapsulation's order, and what aligns the rest
local MEMBER = "\2\0\0\0m\0\0\0"

-- letter -> kind, what stands before the inner TypeCode, what stands behind it
local layers = {
  s = { 19, ORDER, pack("<I4", 0) },                              -- a sequence
  a = { 20, ORDER, pack("<I4", 1) },                              -- an array of one
  t = { 15, ORDER .. EMPTY .. EMPTY .. pack("<I4", 1) .. MEMBER, "" },                                -- a struct with one member, m
  x = { 22, ORDER .. EMPTY .. EMPTY .. pack("<I4", 1) .. MEMBER, "" },                                -- an exception
  u = { 16, ORDER .. EMPTY .. EMPTY .. pack("<I4i4I4I4", 3, -1, 1, 7) .. MEMBER, "" },                -- a union with one member, whose label is 7
  l = { 21, ORDER .. EMPTY .. EMPTY, "" },                        -- an alias
}
local nest = { layers = layers }

-- nest.typecode("sts", core) -> the TypeCode of a sequence of structs of sequences of what core is the TypeCode of
function nest.typecode(letters, core)
  local before, behind = {}, {}
  core = core .. ("\0"):rep(-#core % 4)
  local size, n = #core, #letters
  for i = n, 1, -1 do
    local layer = layers[letters:sub(i, i)]
    size = size + #layer[2] + #layer[3]
    before[i] = pack("<I4I4", layer[1], size) .. layer[2]
    behind[n - i + 1] = layer[3]
    size = size + 8
  end
  return table.concat(before) .. core .. table.concat(behind)
end

return nest
