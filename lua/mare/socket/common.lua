-- mare.socket.common: what LuaSocket's look-alikes share - arguments as its C functions take them, its words for errors, names to addresses.
local core = require "mare.socket.core"

local common = {}

-- An error about the n-th argument of who called our caller, as Lua's own functions make it: a method's object is not counted.
local function complain(name, n, text)
  local as_method = debug.getinfo(3, "n").namewhat == "method"
  if as_method and n == 1 then error(("calling '%s' on bad self (%s)"):format(name, text), 4) end
  error(("bad argument #%d to '%s' (%s)"):format(as_method and n - 1 or n, name, text), 4)
end

function common.string(v, name, n)
  if type(v) == "string" then return v end
  if type(v) == "number" then return tostring(v) end
  complain(name, n, "string expected, got " .. (v == nil and "no value" or type(v)))
end

-- The object must be of one of the classes; `group` is what LuaSocket calls them together.
function common.check(self, name, group, ...)
  local class = core.class(self)
  for i = 1, select("#", ...) do
    if class == select(i, ...) then return class end
  end
  complain(name, 1, group .. " expected")
end

-- LuaSocket's words for what the resolver says; others are the resolver's own.
local NAMES = { EAI_NONAME = "host or service not provided, or not known", EAI_AGAIN = "temporary failure in name resolution",
                EAI_SERVICE = "service not supported for socket type", EAI_FAMILY = "ai_family not supported",
                EAI_SOCKTYPE = "ai_socktype not supported", EAI_FAIL = "non-recoverable failure in name resolution",
                ENOMEM = "memory allocation failure", EAI_OVERFLOW = "argument buffer overflow" }

local function own_words(message) return (message:gsub("^.-: ", "")) end

-- Addresses of a host and a port: a list of { host, address, family }; families: 0 (any), 4, 6; how: see core.resolve.
function common.addresses(host, port, family, how)
  local number = math.tointeger(tonumber(port))
  if host and number then
    local address, of = core.address(host, number & 0xffff)
    if address and (family == 0 or family == of) then return { { host = host, address = address, family = of } } end
  end
  local list, err, code = core.resolve(host, port, how .. (family == 4 and "4" or family == 6 and "6" or ""))
  if list then return list end
  return nil, NAMES[code] or own_words(err), own_words(err)
end

-- Makes the first address work by `try`, which gets the object and an address; with a descriptor of its family. 1 or nil and why not.
function common.first(self, list, try, only)
  local ok, err = nil, "no info on address"
  for _, a in ipairs(list) do
    ok, err = core.open(self, a.family)
    if ok then ok, err = try(self, a.address) end
    if ok or (only and only(self)) then
      core.settle(self, a.family)
      break
    end
  end
  if ok then return 1 end
  return nil, err
end

return common
