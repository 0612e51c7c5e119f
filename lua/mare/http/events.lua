--[[
mare.http.events: server-sent events (the HTML standard's text/event-stream) over an answer that is written piece by piece.

A fiber of its own, `_watcher`, reads the connection: so it is seen at once that the client has gone, though nothing is sent. What it reads is
dropped, so nothing can come behind this answer: the connection ends with it. `gone` is a channel that is closed when nobody reads any more, or the
server stops; from then on nothing is sent.
]]
local frames = require "mare.http.frames"
local mare = require "mare"
local errors = require "mare.error"
local request = require "mare.http.request"
local core = require "mare.http.core"
local check = require "mare.control.request".check
local channel, fiber = mare.channel, mare.fiber

local DROPPED = 1 << 16                          -- bytes that a client may send meanwhile; of one that sends more we have seen enough

local events = {}
local Stream = {}
Stream.__index = Stream
Stream.__name = "event stream"
Stream.__stays = "a stream of events cannot be sent: it belongs to its connection's process"
require "mare.near".guard(Stream, "a stream of events")

local function bad(message, ...) error(message:format(...), 3) end

-- The text of one field's value: one line.
local function line(name, value)
  if type(value) ~= "string" or value:find "[\r\n%z]" or not frames.is_text(value) then
    bad("stream:send: '%s' is a text of one line", name)
  end
  return value
end

local FIELDS = { data = true, event = true, id = true, retry = true }

-- An event as it is sent. Of the data each line is a field; a line ends as it likes.
local function text_of(event)
  local data = event
  local parts = {}
  if type(event) == "table" then
    for name in pairs(event) do
      if not FIELDS[name] then bad("stream:send: unknown field '%s'; there are data, event, id and retry", tostring(name)) end
    end
    data = event.data
    if event.event ~= nil then parts[#parts + 1] = "event: " .. line("event", event.event) .. "\n" end
    if event.id ~= nil then parts[#parts + 1] = "id: " .. line("id", type(event.id) == "number" and tostring(event.id) or event.id) .. "\n" end
    if event.retry ~= nil then
      if type(event.retry) ~= "number" or not (event.retry >= 0 and event.retry < 1e9) then bad "stream:send: 'retry' is a number of seconds" end
      parts[#parts + 1] = ("retry: %d\n"):format(event.retry * 1000 // 1)
    end
  end
  if data ~= nil then
    if type(data) ~= "string" or not frames.is_text(data) then bad("stream:send: data is a text (UTF-8), got a %s", type(data)) end
    for one in (data:gsub("\r\n?", "\n") .. "\n"):gmatch "(.-)\n" do parts[#parts + 1] = "data: " .. one .. "\n" end
  elseif #parts == 0 then
    bad "stream:send: an event has nothing in it"
  end
  parts[#parts + 1] = "\n"
  return table.concat(parts)
end

local function leave(self)
  self._open = false
  self.gone:close()
end

local function write(self, text)
  if not self._open then return nil, "closed" end
  local req = self.request
  local fine, err = pcall(req.write, req, text)
  if fine then return true end
  leave(self)
  if not errors.is(err, "http") then error(err, 0) end
  return nil, "closed"
end

--- Sends an event: a text, or { data =, event =, id =, retry = }. nil, "closed" when nobody reads it.
function Stream:send(event) return write(self, text_of(event)) end

--- Sends what clients skip.
function Stream:comment(text)
  return write(self, ": " .. line("comment", text or "") .. "\n\n")
end

--- Sends what comes through a channel, until that is closed or nobody reads any more.
function Stream:follow(source)
  while self._open do
    local which, event = mare.select { source, self.gone }
    if which == 2 or event == nil then break end
    write(self, text_of(event))
  end
end

-- Looks whether the client is there; a comment now and then tells it, and whoever is between, that we are.
local function watch(self, conn, seconds)
  local dropped = 0
  while self._open do
    local data, message = conn:read(nil, seconds < math.huge and seconds or nil)
    if data then
      dropped = dropped + #data
      if dropped > DROPPED then break end
    elseif message ~= "timeout" then
      break
    else
      write(self, ":\n\n")
    end
  end
  leave(self)
end

local function seconds(n) if type(n) ~= "number" or n ~= n or n <= 0 then return "a number above 0" end end

--- An answer that is a stream of events. The options are in docs/http.md.
function events.open(req, options)
  check(options or {}, { keep_alive = seconds, fields = "table" }, "request:events")
  options = options or {}
  local fields = { ["Content-Type"] = "text/event-stream", ["Cache-Control"] = "no-store" }
  for name, value in pairs(options.fields or {}) do fields[name] = value end
  req.bits = req.bits & ~core.KEEP
  req:start(200, fields)
  local self = setmetatable({ request = req, last = req.headers["last-event-id"] or false, gone = channel.new(), _open = true, _watcher = false },
    Stream)
  self._watcher = fiber.spawn(watch, self, req.connection, options.keep_alive or 15)
  request.state.leaving[self] = function() leave(self) end
  req._after = function()
    request.state.leaving[self] = nil
    leave(self)
    self._watcher:cancel()
    self._watcher:wait()
  end
  return self
end

return events
