--[[
mare.http.response: what a server has answered. The head is there from the beginning; the body is in `body`, or comes by `read` if it was asked for
with `stream`.

One whose body has come to its end is a plain table, which can be sent to another process.

`transfer` is what the rest of the body comes from; nil when it has ended. `rest` are bytes that have come and were not asked for.
]]
local response = {}
response.__index = response
response.__name = "http response"

local PIECE = 65536

-- "HTTP/1.1 200 OK" and lines of fields. A value of several lines, which HTTP once had, is one.
local function read_head(head)
  local version, status, reason = head:match "^HTTP/(%d[%.%d]*) (%d%d%d) ?([^\r\n]*)"
  local fields, headers = {}, {}
  for name, value in head:gsub("\r?\n[ \t]+", " "):gmatch "\n([^:\r\n]+):[ \t]*([^\r\n]*)" do
    value = value:match "^(.-)[ \t]*$"
    fields[#fields + 1] = { name, value }
    local key = name:lower()
    local before = headers[key]
    headers[key] = before and before .. (key == "set-cookie" and "\n" or ", ") .. value or value
  end
  return version, tonumber(status), reason, fields, headers
end

--- Of a transfer that has a head. `url` is the last one's, `redirects` how many there were before it.
function response.new(transfer, head, about)
  local version, status, reason, fields, headers = read_head(head)
  local self = { transfer = transfer, rest = "", url = about.url, method = about.method, redirects = about.redirects, most = about.most,
                 version = version, status = status, reason = reason, fields = fields, headers = headers, ok = status >= 200 and status < 300 }
  return setmetatable(self, response)
end

-- nil, message, code, with the URL in front, but for a time limit, which is told as everywhere.
local function failed(self, message, code)
  if message == "timeout" and not code then return nil, message end
  return nil, self.url .. ": " .. message, code
end

-- The next bytes, at most that many; nil at the end; nil, message, code.
local function more(self, most)
  local rest, transfer = self.rest, self.transfer
  if rest ~= "" then
    self.rest = rest:sub(most + 1)
    return rest:sub(1, most)
  end
  if self.failure then return failed(self, self.failure, self.failure_code) end
  if not transfer then return nil end
  local piece, message, code = transfer:read(most)
  if piece then return piece end
  self:info()
  self.transfer = nil
  transfer:close()
  if not message then return nil end
  self.failure, self.failure_code = message, code
  return failed(self, message, code)
end

--- The next piece of the body as it comes, of at most `most` bytes; nil at its end; nil, message, code.
function response:read(most)
  if most ~= nil and (math.type(most) ~= "integer" or most < 1) then error("response:read: a whole number from 1 on expected", 2) end
  return more(self, most or PIECE)
end

--- The rest of the body. nil, message, code; one of more than `most` bytes is a failure, and the transfer is closed.
function response:all(most)
  most = most or self.most
  local parts, n, total = {}, 0, 0
  while true do
    local piece, message, code = more(self, PIECE)
    if not piece then
      if message then return nil, message, code end
      return table.concat(parts)
    end
    total = total + #piece
    if total > most then
      self:close()
      return failed(self, ("the body is longer than %s bytes"):format(most), "EMSGSIZE")
    end
    n = n + 1
    parts[n] = piece
  end
end

--- for piece in response:pieces() do … A failure is raised, so that a part is not taken for the whole.
function response:pieces(most)
  return function()
    local piece, message = self:read(most)
    if not piece and message then error(message, 0) end
    return piece
  end
end

-- Up to the next line's end, which is left out, if there is one within `most` bytes.
local function line_of(self, most)
  local parts, total = {}, 0
  while true do
    local piece, message = more(self, PIECE)
    if not piece then
      if message then error(message, 0) end
      return #parts > 0 and table.concat(parts) or nil
    end
    local at = piece:find("\n", 1, true)
    total = total + (at or #piece)
    if total > most then
      self:close()
      error(("%s: a line is longer than %d bytes"):format(self.url, most), 0)
    end
    parts[#parts + 1] = at and piece:sub(1, at - 1) or piece
    if at then
      self.rest = piece:sub(at + 1) .. self.rest
      return (table.concat(parts):gsub("\r$", ""))
    end
  end
end

--- for line in response:lines() do … without their ends. A failure is raised, and so is a line of more than `most` bytes (1 MiB).
function response:lines(most)
  return function() return line_of(self, most or 1 << 20) end
end

--- The body as a value of JSON. nil, message, code.
function response:json(options)
  local text = self.body
  if not text then
    local message, code
    text, message, code = self:all()
    if not text then return nil, message, code end
  end
  local value, why = require "mare.json".decode(text, options)
  if value == nil and why then return failed(self, "no JSON: " .. why, "EPROTO") end
  return value
end

--- When it took how long, in seconds, and where to: address, port, opened (connections that were made for it), connect, first_byte, total.
function response:info()
  local transfer = self.transfer
  if transfer and not transfer.closed then
    local t = {}
    t.address, t.port, t.opened, t.connect, t.first_byte, t.total = transfer:info()
    self.told = t
  end
  return self.told or {}
end

--- What has not come is not waited for. A body that was read to its end leaves the connection to the next request; otherwise it is closed.
function response:close()
  local transfer = self.transfer
  self.rest = ""
  if transfer then
    if not self.failure then self.failure, self.failure_code = "closed", "EBADF" end
    self:info()
    self.transfer = nil
    transfer:close()
  end
end

response.__close = response.close

return response
