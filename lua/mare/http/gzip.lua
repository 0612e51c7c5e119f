--[[
mare.http.gzip: a handler around another one, which sends its answers as gzip to who takes that, where it makes them shorter.

What the handler returns is compressed at once, what a function gives and what the handler writes piece by piece: each piece can be read as soon as it
has come. Answers that are parts, that are encoded already, or whose type doesn't gain are left as they are.
]]
local deflate = require "mare.http.deflate"
local mare = require "mare"
local yield = mare.fiber.yield

local PIECE = 1 << 18                            -- bytes of a body that are compressed until others have a turn
local GAIN = { ["application/json"] = true, ["application/javascript"] = true, ["application/xml"] = true, ["application/wasm"] = true,
  ["image/svg+xml"] = true, ["application/manifest+json"] = true }

local gzip = {}

--- How much a client wants gzip: is it taken, and at least as much as what is not encoded?
function gzip.accepted(field)
  if not field then return false end
  local q = {}
  for item in field:gmatch "[^,]+" do
    local name, weight = item:match "^%s*([^%s;]+)%s*(.-)%s*$"
    if name then q[name:lower()] = tonumber(weight:match "^;%s*[qQ]=([%d.]+)$") or (weight == "" and 1 or 0) end
  end
  local wanted = q.gzip or q["x-gzip"] or q["*"] or 0
  return wanted > 0 and wanted >= (q.identity or 0)
end

-- The fields in a table of their own, and those that are asked for here, by their names in lower case.
local function copied(fields)
  local all, known = {}, {}
  for name, value in pairs(fields or {}) do
    all[name] = value
    local text = type(value) == "table" and table.concat(value, ", ") or tostring(value)
    if type(name) == "string" then known[name:lower()] = { name = name, value = text } end
  end
  return all, known
end

local function gains(types, known)
  local kind = known["content-type"] and known["content-type"].value or "text/plain"
  kind = (kind:match "^%s*([^%s;]*)" or ""):lower()
  if kind == "text/event-stream" then return false end
  if types then return types[kind] == true end
  return kind:find "^text/" ~= nil or GAIN[kind] == true or kind:find "%+json$" ~= nil or kind:find "%+xml$" ~= nil
end

-- The fields for an answer, and whether it may be compressed; nil: it is left as it is.
local function prepare(self, req, status, fields)
  if status < 200 or status == 204 or status == 206 or status == 416 then return nil end
  local all, known = copied(fields)
  if known["content-encoding"] or known["content-range"] or not gains(self.types, known) then return nil end
  if known["cache-control"] and known["cache-control"].value:lower():find "no%-transform" then return nil end
  local vary = known.vary
  if not vary then
    all.Vary = "Accept-Encoding"
  elseif not vary.value:lower():find "accept%-encoding" and vary.value ~= "*" then
    all[vary.name] = vary.value .. ", Accept-Encoding"
  end
  return all, status ~= 304 and req.method ~= "HEAD" and gzip.accepted(req.headers["accept-encoding"]), known.etag
end

-- These fields, of what is compressed. Its bytes are not those that a strong tag names.
local function encoded(all, etag)
  all["Content-Encoding"] = "gzip"
  if etag and etag.value:sub(1, 2) ~= "W/" then all[etag.name] = "W/" .. etag.value end
  return all
end

-- A whole body. Others have a turn between its pieces.
local function whole(self, body)
  local stream, parts, n = deflate.new(self.level), {}, #body
  for at = 1, n, PIECE do
    parts[#parts + 1] = stream(body:sub(at, math.min(at + PIECE - 1, n)), at + PIECE > n)
    if at + PIECE <= n then yield() end
  end
  return table.concat(parts)
end

local function in_pieces(self, next_piece)
  local stream, done = deflate.new(self.level), false
  return function()
    if done then return nil end
    local data = next_piece()
    done = data == nil
    return stream(data or "", done)
  end
end

-- What a handler returned.
local function returned(self, req, status, body, fields)
  if type(status) ~= "number" then status, body, fields = 200, status, body end
  local kind = type(body)
  if kind ~= "string" and kind ~= "userdata" and kind ~= "function" or kind ~= "function" and #body < self.least and status ~= 304 then
    return status, body, fields
  end
  local all, fine, etag = prepare(self, req, status, fields)
  if not all then return status, body, fields end
  if not fine then return status, body, all end
  if kind == "function" then return status, in_pieces(self, body), encoded(all, etag) end
  local short = whole(self, body)
  if #short >= #body then return status, body, all end
  return status, short, encoded(all, etag)
end

-- An answer that the handler writes itself goes through these two.
local function hooked(self, req)
  local start, write = req.start, req.write
  local stream
  local function restore() req.start, req.write = nil, nil end
  function req.start(_, status, fields, length)
    restore()
    if not (length and length < self.least) then
      local all, fine, etag = prepare(self, req, status or 200, fields)
      if fine then
        stream, fields, length = deflate.new(self.level), encoded(all, etag), nil
        req.write = function(_, ...)
          for i = 1, select("#", ...) do write(req, stream((select(i, ...)), false)) end
        end
      end
      fields = all or fields
    end
    return start(req, status, fields, length)
  end
  return function()
    restore()
    if stream then write(req, stream("", true)) end
    return stream ~= nil or req._began
  end
end

--- The handler with gzip. options: { least =, level =, types = }
function gzip.wrap(handler, options)
  if options == true then options = {} end
  local self = { least = options.least or 1024, level = options.level or 6 }
  if options.types then
    self.types = {}
    for _, name in ipairs(options.types) do self.types[name:lower()] = true end
  end
  return function(req)
    local finish = hooked(self, req)
    local status, body, fields = handler(req)
    if finish() or status == nil then return status, body, fields end
    return returned(self, req, status, body, fields)
  end
end

return gzip
