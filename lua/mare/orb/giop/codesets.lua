-- codesets: which character sets two peers use on a connection (CORBA 3.3 part 2, 7.10).
--
-- A server says in the component TAG_CODE_SETS of its references which set is its own (native) and which others it can convert; the client decides
-- and says so in a service context of its first request. It decides in the specification's order: the server's set, if it can convert that itself;
-- else its own, if the server can; else one that both can convert to; else UTF-8. So omniORB's ISO 8859-1 wins, which its `char` is.
--
-- A program's strings are UTF-8, or ISO 8859-1 if it says so (-ORBnativeCharCodeSet); the other of the two is what we can convert. What references
-- name first is another matter: ISO 8859-1, because that is what most peers have and convert nothing for, unless the program chose a set itself.
-- A program that needs every character says codeset = "UTF-8": then that is named first, and taken as a client wherever the server can.
-- Two brokers of mare know that of each other without being told.
local codesets = {
  LATIN1 = 0x00010001, UTF8 = 0x05010001, UTF16 = 0x00010109,
  TAG = 1,          -- of the component
  CONTEXT = 1,      -- of the service context
  AS_IS = 8, WIDE_UTF16 = 16, FROM_LATIN = 128, HAS_UTF8 = 256,   -- bits of a codec, see mare.orb.cdr
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

-- codesets.component_of([first]) -> what our references say: char is that set (ISO 8859-1), on request the other of the two; wchar UTF-16.
function codesets.component_of(first)
  first = first or LATIN1
  return string.pack("<I1xxxI4I4I4I4I4", 1, first, 1, other(first), UTF16, 0)
end
codesets.component = codesets.component_of()

-- Bits of the codec: how strings go between the program's set and the wire's
local function bits_of(native, char)
  return char == native and codesets.AS_IS or native == LATIN1 and codesets.FROM_LATIN or 0
end

-- Strings of UTF-8 go as ISO 8859-1, but need not: what an error about one advises depends on that.
local function could(native, char, utf8) return char == LATIN1 and native ~= LATIN1 and utf8 and codesets.HAS_UTF8 or 0 end

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

-- The order of 7.10.2.6. What is converted to is our other set; a server's list is in the order it likes them.
local function decide(offer, native)
  if offer.native == native or offer.native == other(native) then return offer.native end
  if offers(offer, native) then return native end
  if offers(offer, other(native)) then return other(native) end
  return UTF8                                              -- what everybody must be able to read
end

-- codesets.choose(component[, native[, wish]]) -> data of the service context, bits of the codec | nil, message: it can't be used
-- The client's part. `wish`: the set that is taken if the server can, against that order.
function codesets.choose(component, native, wish)
  native = native or UTF8
  local offer, err = codesets.parse(component)
  if not offer then return nil, err end
  local char = wish and offers(offer.char, wish) and wish or decide(offer.char, native)
  local none = offer.wchar.native == 0 and #offer.wchar == 0
  return string.pack("<I1xxxI4I4", 1, char, none and 0 or UTF16),
         bits_of(native, char) | could(native, char, offers(offer.char, UTF8)) | (none and 0 or codesets.WIDE_UTF16)
end

-- codesets.accept(context[, native[, first]]) -> bits of the codec | nil, message: CODESET_INCOMPATIBLE
-- The server's part. A set of 0 means that none is used. `first`: what our references name first.
function codesets.accept(data, native, first)
  if #data < 12 then return nil, "the code sets of a request are cut off" end
  local char, wchar = string.unpack(data:byte(1) & 1 == 1 and "<I4I4" or ">I4I4", data, 5)
  if char ~= 0 and char ~= UTF8 and char ~= LATIN1 then
    return nil, ("char as %s: UTF-8 and ISO 8859-1 are known here"):format(codesets.name(char))
  end
  if wchar ~= 0 and wchar ~= UTF16 then return nil, ("wchar as %s: UTF-16 is known here"):format(codesets.name(wchar)) end
  return bits_of(native or UTF8, char == 0 and LATIN1 or char) | could(native, char, first ~= UTF8) | (wchar == UTF16 and codesets.WIDE_UTF16 or 0)
end

-- codesets.read(text) -> a set | nil: what -ORBnativeCharCodeSet and -ORBcodeset say
function codesets.read(text)
  local plain = tostring(text):upper():gsub("[%s_-]", "")
  return plain == "UTF8" and UTF8 or plain == "ISO88591" and LATIN1 or nil
end

return codesets
