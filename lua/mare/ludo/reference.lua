--[[
mare.ludo.reference: where an object is, as a text: ludo://host:port/key, with TLS ludos://host:port/key. The key is any string; what is no
letter, digit or one of - . _ ~ : is written as %XX. An IPv6 address stands in brackets.
]]
local reference = {}

local function escaped(key)
  return (key:gsub("[^%w%-._~:]", function(c) return ("%%%02X"):format(c:byte()) end))
end

function reference.make(host, port, key, tls)
  return ("%s://%s:%d/%s"):format(tls and "ludos" or "ludo", host:find(":", 1, true) and "[" .. host .. "]" or host, port, escaped(key))
end

--- -> { host =, port =, key =, tls = } | nil, what is wrong
function reference.parse(text)
  if type(text) ~= "string" then return nil, ("a reference is a string, not a %s"):format(type(text)) end
  local scheme, rest = text:match "^(ludos?)://(.*)$"
  if not scheme then return nil, ("'%s' is no reference of LuDO: ludo://host:port/key"):format(text:sub(1, 60)) end
  local host, port, key = rest:match "^%[([%x:.%%%w]+)%]:(%d+)/(.*)$"
  if not host then host, port, key = rest:match "^([%w._%-]+):(%d+)/(.*)$" end
  port = host and #port <= 5 and math.tointeger(tonumber(port))
  if not port or port < 1 or port > 65535 then return nil, ("'%s' has no host and port: ludo://host:port/key"):format(text:sub(1, 60)) end
  if key:find "[^%w%-._~:%%]" or key:gsub("%%%x%x", ""):find("%", 1, true) then
    return nil, ("'%s' has a key that is not escaped"):format(text:sub(1, 60))
  end
  key = key:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end)
  return { host = host, port = port, key = key, tls = scheme == "ludos" }
end

return reference
