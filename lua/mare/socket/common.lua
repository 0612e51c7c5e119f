-- mare.socket.common: what the sockets of the LuaSocket look-alike share - classes, timeouts, and LuaSocket's words for errors.
local common = {}

local names = setmetatable({}, { __mode = "k" })

function common.class(name)
  local class = { __name = name, __index = {} }
  class.__tostring = function(self)
    local id = names[self]
    if not id then
      id = ("%p"):format(self)
      names[self] = id
    end
    return name .. ": " .. id
  end
  return class
end

-- Methods of one class called on an object of another are an error that says which class they belong to.
function common.strangers(...)
  local classes = { ... }
  for _, class in ipairs(classes) do
    for name in pairs(class.__index) do
      for _, other in ipairs(classes) do
        if not other.__index[name] then
          other.__index[name] = function() error(("bad argument #1 to '%s' (%s expected)"):format(name, class.__name), 2) end
        end
      end
    end
  end
end

-- The texts that programs compare with.
local TEXTS = { ECONNREFUSED = "connection refused", EISCONN = "already connected", EADDRINUSE = "address already in use", EPIPE = "closed",
                EOF = "closed", EBADF = "closed", ECONNRESET = "closed", ECONNABORTED = "closed", ETIMEDOUT = "timeout",
                EACCES = "permission denied", EAI_NONAME = "host or service not provided, or not known",
                EAI_AGAIN = "temporary failure in name resolution" }

function common.text(message, code)
  return TEXTS[code] or (message and message:gsub("^[^ ]*: ", "")) or "unknown error"
end

-- settimeout(seconds[, "b" | "t"]): nil or negative: none. Here both are limits of one call.
function common.settimeout(self, seconds, mode)
  if seconds ~= nil and type(seconds) ~= "number" then error("bad argument #1 to 'settimeout' (number expected)", 2) end
  if seconds and seconds < 0 then seconds = nil end
  mode = mode or "b"
  if mode == "b" then self.block = seconds
  elseif mode == "t" or mode == "r" then self.total = seconds
  else error("bad argument #2 to 'settimeout' (invalid timeout mode)", 2) end
  return 1
end

function common.gettimeout(self) return self.block or -1, self.total or -1 end

function common.seconds(self)
  if self.block and self.total then return math.min(self.block, self.total) end
  return self.block or self.total
end

local SERVICES = { http = 80, https = 443, ftp = 21, smtp = 25, domain = 53 }
function common.port(port)
  local n = math.tointeger(tonumber(port)) or SERVICES[port]
  if not n then error(("bad argument (port '%s' is neither a number nor a known service)"):format(tostring(port)), 3) end
  return n
end

return common
