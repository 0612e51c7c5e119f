-- support: what generated marshalling calls (generate.lua). Each function checks one value and gives what string.pack takes, or fails.
local support = { pack = string.pack, unpack = string.unpack, tochar = string.char, zeros = { [0] = "" } }

for n = 1, 7 do support.zeros[n] = ("\0"):rep(n) end

local LARGEST = 3.4028235677973366e38 -- from here on a number rounds to an infinite float

local function described(v)
  if type(v) == "string" then return #v > 30 and "'" .. v:sub(1, 27) .. "...'" or "'" .. v .. "'" end
  if type(v) == "number" or type(v) == "boolean" then return tostring(v) end
  return type(v)
end

local function wrong(expected, v, fail) fail(expected .. " expected, got " .. described(v)) end

function support.integer(v, low, high, kind, fail)
  local n = math.type(v) and math.tointeger(v)
  if not n and kind == "ulonglong" and math.type(v) == "float" and v >= 2 ^ 63 and v < 2 ^ 64 then
    n = math.tointeger(v - 2 ^ 63) | math.mininteger
  end
  if not n or (low and (n < low or n > high)) then wrong(kind, v, fail) end
  return n
end

function support.number(v, kind, fail)
  if type(v) ~= "number" then wrong(kind, v, fail) end
  if kind == "float" and (v >= LARGEST or v <= -LARGEST) and v ~= math.huge and v ~= -math.huge then wrong(kind, v, fail) end
  return v
end

function support.boolean(v, fail)
  if type(v) ~= "boolean" then wrong("boolean", v, fail) end
  return v and 1 or 0
end

function support.char(v, fail)
  if type(v) ~= "string" or #v ~= 1 then wrong("char", v, fail) end
  return v:byte()
end

function support.label(ordinals, v, fail)
  local n = ordinals[v] or math.type(v) and math.tointeger(v)
  if type(n) ~= "number" or n < 0 or n >= ordinals[0] then wrong("a label", v, fail) end
  return n
end

function support.text(v, bound, fail)
  if type(v) ~= "string" then wrong("string", v, fail) end
  if v:find("\0", 1, true) then fail "string without zero bytes expected" end
  if bound > 0 and #v > bound then fail(("string of at most %d expected, got %d"):format(bound, #v)) end
  return v
end

function support.octets(v, bound, length, fail)
  if type(v) ~= "string" then wrong("string of octets", v, fail) end
  if length and #v ~= length then fail(("string of %d bytes expected, got %d"):format(length, #v)) end
  if bound > 0 and #v > bound then fail(("string of at most %d expected, got %d"):format(bound, #v)) end
  return v
end

-- The number of elements of a list.
function support.count(v, bound, length, fail)
  if type(v) ~= "table" then wrong(length and "array" or "sequence", v, fail) end
  local n = rawlen(v)
  if length and n ~= length then fail(("array of %d expected, got %d elements"):format(length, n)) end
  if bound > 0 and n > bound then fail(("at most %d elements expected, got %d"):format(bound, n)) end
  return n
end

function support.fields(v, name, fail)
  if type(v) ~= "table" then wrong(name, v, fail) end
  return v
end

function support.need(bytes, at, n, fail)
  if n > #bytes - at + 1 then fail("the bytes end before the value does", at) end
end

function support.take(bytes, at, n, fail)
  if n > #bytes - at + 1 then fail("the bytes end before the value does", at) end
  return bytes:sub(at, at + n - 1), at + n
end

function support.nolabel(at, fail) fail("a number that is no label of its enum", at) end

-- A list's length may not be more than the bytes that are left can hold.
function support.fits(bytes, at, n, least, bound, fail)
  if bound > 0 and n > bound then fail("a sequence longer than its type allows", at) end
  if n > (least > 0 and (#bytes - at + 1) // least or 4096 + #bytes) then fail("a list longer than the bytes that are left", at) end
end

return support
