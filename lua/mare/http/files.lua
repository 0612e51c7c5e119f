--[[
mare.http.files: files of a folder as answers: their types, conditions, ranges.

No name leads out of the folder, and none that begins with a point is served; links are followed. Small files and what is known of all are kept for a
moment by each process, so that a file that is asked for often costs no look at the disk. A handler's shelf finds them by the path that was asked for.
]]
local core = require "mare.http.core"
local mare = require "mare"
local errors = require "mare.error"
local file = mare.file

local files = {}

local SMALL, KEPT, PIECE = 1 << 16, 256, 1 << 18     -- bytes of a file that is kept; how many files; bytes that are read and sent at once
local LONGEST = 256                                  -- bytes of a path on a shelf
local kept, count = {}, 0                            -- path -> { due, stat, type, etag, modified, data }
local clock, rawget, ASKS = mare.clock, rawget, core.ASKS

local TYPES = { html = "text/html; charset=utf-8", htm = "text/html; charset=utf-8", css = "text/css; charset=utf-8",
  js = "text/javascript; charset=utf-8",
  mjs = "text/javascript; charset=utf-8", txt = "text/plain; charset=utf-8", md = "text/markdown; charset=utf-8", csv = "text/csv; charset=utf-8",
  json = "application/json", xml = "application/xml", pdf = "application/pdf", zip = "application/zip", gz = "application/gzip",
    wasm = "application/wasm",
  png = "image/png", jpg = "image/jpeg", jpeg = "image/jpeg", gif = "image/gif", svg = "image/svg+xml", webp = "image/webp", ico = "image/x-icon",
  mp3 = "audio/mpeg", ogg = "audio/ogg", mp4 = "video/mp4", webm = "video/webm", woff = "font/woff", woff2 = "font/woff2" }

local function fail(status, fields)
  error(errors.new { kind = "http", status = status, message = core.phrase(status), fields = fields }, 0)
end

-- The path of what is asked for below a folder; raises 404 for what could lead out of it.
local function below(root, path)
  local parts = { root }
  if path:find "%z" then fail(404) end
  for segment in path:gmatch "[^/]+" do
    if segment:sub(1, 1) == "." then fail(404) end
    parts[#parts + 1] = segment
  end
  return table.concat(parts, "/")
end

local function refused(code)
  if code == "EACCES" or code == "EPERM" then fail(403) end
  if code == "EMFILE" or code == "ENFILE" then fail(503) end
  fail(404)
end

local function look(path, keep)
  local now = clock()
  local known = kept[path]
  if known and known.due > now then return known end
  local stat, _, code = file.stat(path)
  if not stat then refused(code) end
  if known and known.stat.size == stat.size and known.stat.modified == stat.modified then
    known.due = now + keep
    return known
  end
  local found = { due = now + keep, stat = stat }
  if stat.type == "file" then
    found.type = TYPES[(path:match "%.(%w+)$" or ""):lower()] or "application/octet-stream"
    found.etag = ('"%x-%x"'):format(stat.size, math.floor(stat.modified * 1e6))
    found.modified = core.date(math.max(0, math.floor(stat.modified)))
    if stat.size <= SMALL then
      found.data, _, code = file.read(path)
      if not found.data then refused(code) end
      stat.size = #found.data
    end
  end
  if keep > 0 then
    if not known then count = count + 1 end
    if count > KEPT then kept, count = {}, 1 end
    kept[path] = found
  end
  return found
end

-- Is one of the tags in the list the file's? Weak ones count.
local function names(list, etag)
  if list:match "^%s*%*%s*$" then return true end
  for tag in list:gmatch '"[^"]*"' do
    if tag == etag then return true end
  end
  return false
end

local function unchanged(request, found)
  local tags = request.headers["if-none-match"]
  if tags then return names(tags, found.etag) end
  return request.headers["if-modified-since"] == found.modified
end

-- The first and last byte asked for; nil: the whole file. Several ranges at once are answered by the whole, as RFC 9110 allows.
local function range_of(request, found, size)
  local range, condition = request.headers.range, request.headers["if-range"]
  if not range or request.method ~= "GET" or condition and condition ~= found.etag and condition ~= found.modified then return nil end
  local first, last = range:match "^bytes=%s*(%d*)%-(%d*)%s*$"
  if not first or first == "" and last == "" or #first > 15 or #last > 15 then return nil end
  first, last = tonumber(first), tonumber(last)
  if not first then first, last = math.max(0, size - last), last > 0 and size - 1 or -1 end
  if last and first <= size and last < first and last ~= -1 then return nil end
  last = math.min(last or size - 1, size - 1)
  if first > last then fail(416, { ["Content-Range"] = "bytes */" .. size }) end
  return first, last
end

local function send(request, path, status, fields, first, length)
  if request.method == "HEAD" then return request:start(status, fields, length) end
  local f <close>, _, code = file.open(path)
  if not f then refused(code) end
  f:seek("set", first)
  request:start(status, fields, length)
  while length > 0 do
    local data = f:read(math.min(length, PIECE))
    if not data then break end                     -- it has become shorter: the server cuts the connection
    request:write(data)
    length = length - #data
  end
end

-- What lies there: a file; or false, and the redirection to a folder.
local function search(request, root, path, options)
  local name = below(root, path)
  local found = look(name, options.keep or 1)
  if found.stat.type == "directory" then
    if path ~= "" and path:sub(-1) ~= "/" then
      return false, 301, "", { Location = "/" .. request.raw_path:gsub("^/+", "") .. "/" }
    end
    name = name .. "/" .. (options.index or "index.html")
    found = look(name, options.keep or 1)
  end
  if found.stat.type ~= "file" then fail(404) end
  found.name = name
  return found
end

local function shelve(shelf, path, found)
  if #path > LONGEST then return end
  if not shelf[path] then shelf[0] = (shelf[0] or 0) + 1 end
  if shelf[0] > KEPT then
    for known in pairs(shelf) do shelf[known] = nil end
    shelf[0] = 1
  end
  shelf[path] = found
end

--- Answers with what lies at `path` below the folder. The shelf is a table of the handler's own, empty at first.
function files.answer(request, shelf, root, path, options)
  local found = shelf[path]
  if not found or found.due <= clock() then
    local code, body, more
    found, code, body, more = search(request, root, path, options)
    if not found then return code, body, more end
    shelve(shelf, path, found)
  end
  local fields = { ["Content-Type"] = found.type, ETag = found.etag, ["Last-Modified"] = found.modified, ["Accept-Ranges"] = "bytes",
    ["X-Content-Type-Options"] = "nosniff" }
  local asks = request.bits & ASKS ~= 0 or rawget(request, "headers")       -- most requests don't, and their fields need not be read
  if not asks and found.data then return 200, found.data, fields end
  if asks and unchanged(request, found) then return 304, "", fields end
  local size, first, last = found.stat.size, nil, nil
  if asks then first, last = range_of(request, found, size) end
  local status = first and 206 or 200
  if first then fields["Content-Range"] = ("bytes %d-%d/%d"):format(first, last, size) end
  first, last = first or 0, last or size - 1
  if found.data then return status, found.data:sub(first + 1, last + 1), fields end
  return send(request, found.name, status, fields, first, last - first + 1)
end

return files
