-- codesets: which character sets two peers use on a connection (CORBA 3.3 part 2, 7.10).
--
-- A server says in the component TAG_CODE_SETS of its references what it has and what it can convert; the client decides and says so in a service
-- context of its first request. Ours, the native set, is taken wherever the server can: nothing needs to be converted here, and every character
-- arrives. (The specification's order would take ISO 8859-1 with an omniORB server, whose native set that is.)
--
-- A program's strings are UTF-8, or ISO 8859-1 if it says so (-ORBnativeCharCodeSet); the other of the two is what we can convert.
local codesets = {
  LATIN1 = 0x00010001, UTF8 = 0x05010001, UTF16 = 0x00010109,
  TAG = 1,          -- of the component
  CONTEXT = 1,      -- of the service context
  AS_IS = 8, WIDE_UTF16 = 16, FROM_LATIN = 128,   -- bits of a codec, see mare.orb.cdr
}
local LATIN1, UTF8, UTF16 = codesets.LATIN1, codesets.UTF8, codesets.UTF16

local names = {
  [0x00010001] = "ISO 8859-1", [0x00010002] = "ISO 8859-2", [0x00010003] = "ISO 8859-3", [0x00010004] = "ISO 8859-4",
  [0x00010005] = "ISO 8859-5", [0x00010006] = "ISO 8859-6", [0x00010007] = "ISO 8859-7", [0x00010008] = "ISO 8859-8",
  [0x00010009] = "ISO 8859-9", [0x0001000a] = "ISO 8859-10", [0x0001000b] = "ISO 8859-13", [0x0001000d] = "ISO 8859-14",
  [0x0001000f] = "ISO 8859-15", [0x00010020] = "ISO 646:1991 (ASCII)",
  [0x00010100] = "UCS-2, level 1", [0x00010101] = "UCS-2, level 2", [0x00010102] = "UCS-2, level 3",
  [0x00010104] = "UCS-4, level 1", [0x00010105] = "UCS-4, level 2", [0x00010106] = "UCS-4, level 3",
  [0x00010109] = "UTF-16", [0x05010001] = "UTF-8", [0x100204e2] = "Windows 1250", [0x100204e4] = "Windows 1252",
}

-- codesets.name(0x05010001) -> "UTF-8", or the number of an unknown one
function codesets.name(id) return names[id] or ("0x%08x"):format(id) end

local function other(native) return native == LATIN1 and UTF8 or LATIN1 end

-- codesets.component_of([native]) -> what our references say: char is the native set (UTF-8), on request the other of the two; wchar UTF-16.
function codesets.component_of(native)
  native = native or UTF8
  return string.pack("<I1xxxI4I4I4I4I4", 1, native, 1, other(native), UTF16, 0)
end
codesets.component = codesets.component_of()

-- Bits of the codec: how strings go between the program's set and the wire's
local function bits_of(native, char)
  return char == native and codesets.AS_IS or native == LATIN1 and codesets.FROM_LATIN or 0
end

-- codesets.silent([native]) -> bits of the codec where nobody says anything: char is ISO 8859-1 then
function codesets.silent(native) return bits_of(native or UTF8, LATIN1) end

local function one_kind(data, at, order)
  local native, n
  native, n, at = string.unpack(order .. "I4I4", data, at)
  if n > (#data - at + 1) // 4 then error("too short", 0) end
  local set = { native = native }
  for i = 1, n do set[i], at = string.unpack(order .. "I4", data, at) end
  return set, at
end

-- codesets.parse(component) -> { char = { native =, conversions… }, wchar = … } | nil, message
function codesets.parse(data)
  local ok, char, wchar = pcall(function()
    local order = data:byte(1) & 1 == 1 and "<" or ">"
    local char, at = one_kind(data, 5, order)
    return char, (one_kind(data, at, order))
  end)
  if not ok then return nil, "the code sets of a reference are cut off" end
  return { char = char, wchar = wchar }
end

local function offers(set, id)
  if set.native == id then return true end
  for _, conversion in ipairs(set) do
    if conversion == id then return true end
  end
  return false
end

-- codesets.choose(component[, native]) -> data of the service context, bits of the codec | nil, message: it can't be used
-- The client's part.
function codesets.choose(component, native)
  native = native or UTF8
  local offer, err = codesets.parse(component)
  if not offer then return nil, err end
  local char = offers(offer.char, native) and native or offers(offer.char, other(native)) and other(native)
    or UTF8                                                -- what everybody must be able to read
  local none = offer.wchar.native == 0 and #offer.wchar == 0
  return string.pack("<I1xxxI4I4", 1, char, none and 0 or UTF16), bits_of(native, char) | (none and 0 or codesets.WIDE_UTF16)
end

-- codesets.accept(context[, native]) -> bits of the codec | nil, message: CODESET_INCOMPATIBLE
-- The server's part. A set of 0 means that none is used.
function codesets.accept(data, native)
  if #data < 12 then return nil, "the code sets of a request are cut off" end
  local char, wchar = string.unpack(data:byte(1) & 1 == 1 and "<I4I4" or ">I4I4", data, 5)
  if char ~= 0 and char ~= UTF8 and char ~= LATIN1 then
    return nil, ("char as %s: UTF-8 and ISO 8859-1 are known here"):format(codesets.name(char))
  end
  if wchar ~= 0 and wchar ~= UTF16 then return nil, ("wchar as %s: UTF-16 is known here"):format(codesets.name(wchar)) end
  return bits_of(native or UTF8, char == 0 and LATIN1 or char) | (wchar == UTF16 and codesets.WIDE_UTF16 or 0)
end

-- codesets.read(text) -> a native set | nil: what -ORBnativeCharCodeSet says
function codesets.read(text)
  local plain = tostring(text):upper():gsub("[%s_-]", "")
  return plain == "UTF8" and UTF8 or plain == "ISO88591" and LATIN1 or nil
end

return codesets
