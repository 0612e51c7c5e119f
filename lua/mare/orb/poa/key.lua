--[[
mare.orb.poa.key: object keys of adapters, as they stand in references.

  a plain text                                     of omniINSPOA: the object id itself
  stamp, serial                                    of the RootPOA; serial is 4 bytes and never 0
  PERSISTENT, path, object id                      of a persistent adapter, the same in every run
  stamp, 4 zero bytes, path, number, object id     of a transient one; number tells it from others that have had its name

A path is the names of the adapters from the root down; path and names have 2 bytes of length before them. An empty name at its beginning, which no
adapter has, leads to omniINSPOA, whose children are others than those of RootPOA. What stands before the object id is the adapter's *prefix*.
Keys come from strangers: what has the form of none of these is a plain text.
]]
local key = {}

local FIRST = 0xff                               -- byte of all keys that are no text
local PERSISTENT, BELOW = "\xffpoa", "\0\0\0\0"
key.INS = "\0\0"                                 -- the path of omniINSPOA
local MOST = 0xffff                              -- bytes of a path

--- The path of a child; nil: it would be too long.
function key.path(parent, name)
  local path = #name <= MOST and parent .. string.pack(">s2", name)
  return path and #path <= MOST and path or nil
end

function key.persistent(path) return PERSISTENT .. string.pack(">s2", path) end

function key.transient(stamp, path, number) return stamp .. BELOW .. string.pack(">s2I4", path, number) end

--- Prefix and path in the key of an object of an adapter below the root; nil: it is no such key. `lasting`: of a persistent one.
function key.split(text, stamp)
  if text:byte() ~= FIRST then return nil end
  local lasting, at = text:sub(1, #PERSISTENT) == PERSISTENT, #PERSISTENT + 1
  if not lasting then
    at = #stamp + #BELOW + 1
    if text:sub(1, at - 1) ~= stamp .. BELOW then return nil end
  end
  if #text < at + 1 then return nil end
  local first = at + 2
  local last = first + string.unpack(">I2", text, at) - 1
  local own = lasting and last or last + 4
  if #text < own then return nil end
  return text:sub(1, own), text:sub(first, last), lasting
end

--- The names in a path, or nil: a stranger's invention.
function key.names(path)
  local names, at = {}, 1
  while at <= #path do
    if at == #path then return nil end
    local n = string.unpack(">I2", path, at)
    if at + 1 + n > #path or n == 0 and at > 1 then return nil end
    names[#names + 1] = path:sub(at + 2, at + 1 + n)
    at = at + 2 + n
  end
  return names
end

return key
