-- HTTP: a request with its body out of bytes that may be anything. What is taken says one thing only: read as a whole and in pieces its body is
-- the same.
-- needs: llhttp
package.loaded.mare = { clock = os.clock, fiber = { yield = function() end } }       -- all that is needed of processes, and of their errors
package.loaded["mare.error"] = {
  new = function(e) return e end, is = function(e, kind) return type(e) == "table" and e.kind == kind end,
}
local core = require "mare.http.core"
local request = require "mare.http.request"
request.limits = { head_bytes = 512, body_bytes = 256, body = 1, drain = 1 }

-- What a connection gives that has nothing but these bytes; `step` of them come at a time.
local function stream(data, step)
  local at, here = 1, 0
  local conn = {}
  function conn:write() return self end
  function conn.buffered() return here end
  function conn.read(_, n)
    local s = data:sub(at, at + n - 1)
    at, here = at + #s, math.max(here - #s, 0)
    if s == "" then return nil, "closed", "EOF" end
    here = math.min(math.max(here, step), #data - at + 1)
    return s
  end
  function conn:read_until(pattern, most)
    local _, last = data:find(pattern, at, true)
    if last and last - at < most then return self:read(last - at + 1) end
    if #data - at + 1 >= most then return nil, "too long", "EMSGSIZE" end
    return nil, "closed", "EOF"
  end
  function conn.rest() return data:sub(at) end
  return conn
end

local function body(data, head, read, step)
  local method, target, bits, length = core.parse(head, 20)
  local conn = stream(data:sub(#head + 1), step)
  local req = setmetatable({ connection = conn, method = method, target = target, head = head, bits = bits, length = length }, request.class)
  local ok, result = pcall(read, req)
  if not ok then assert(type(result) == "table" and result.kind == "http", result) end
  return ok, ok and result or nil, ok and conn.rest() or nil
end

local function whole(req) return req:body() end

local function pieces(req)
  local parts = {}
  for piece in req:pieces() do
    assert(#piece > 0, "an empty piece")
    parts[#parts + 1] = piece
  end
  return table.concat(parts)
end

return function(data)
  local method, target, bits, length = core.parse(data, 20)
  if not method then return end
  local ends = select(2, data:find("\r\n\r\n", 3, true))
  local head = data:sub(1, ends)
  local fields = core.fields(head)
  assert(not (fields["content-length"] and fields["transfer-encoding"]), "two lengths")
  assert((length ~= nil) == (fields["content-length"] ~= nil) and (bits & core.IN_CHUNKS ~= 0) == (fields["transfer-encoding"] ~= nil),
    "another length")
  assert(not target:find "[%c ]" and method:find "^[%u-]+$", "no first line")
  local text = method .. " " .. target .. (bits & core.OLD ~= 0 and " HTTP/1.0\r\n" or " HTTP/1.1\r\n")
  for name, value in pairs(fields) do
    assert(not value:find "[\r\n%z]" and not name:find "[%c%s:]", "a field breaks out")
    text = text .. name .. ": " .. value .. "\r\n"
  end
  local again = table.pack(core.parse(text .. "\r\n", 20))
  assert(again[1] == method and again[2] == target and again[4] == length and again[3] & ~core.KEEP == bits & ~core.KEEP, "another request")
  local ok, all, rest = body(data, head, whole, 1)
  if not ok then return end
  for _, step in ipairs { 0, 1, 7, 1000 } do
    local fine, parts, left = body(data, head, pieces, step)
    assert(fine and parts == all and left == rest, "another body")
  end
end
