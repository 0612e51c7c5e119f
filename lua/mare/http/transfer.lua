--[[
mare.http.transfer: a request on its way, and the fiber that lets libcurl go on (src/module/curl.c).

All requests of a client wait behind one descriptor. While any are running, a daemon of the process, the *driver*, waits for it, lets libcurl do what
can be done, and rings the bells of those transfers to which something has happened. It ends when nothing runs, and the next request makes a new one.
Who finds that it has ended while he waits makes one, too.

A client here is a table { core =, transfers =, driver =, trouble =, closing = }. `transfers` are weak: one that nobody reads any more is collected,
and so is closed. A transfer has two bells, channels of one place, for who reads and who feeds it. Who was rung looks again; a bell that rings for
nothing does no harm.
]]
local mare = require "mare"
local core = require "mare.http.curl"
local channel, fiber, clock = mare.channel, mare.fiber, mare.clock

local transfer = {}
transfer.__index = transfer

-- ---- the driver ----

local function ring(bell)
  if bell and not pcall(bell.try_send, bell, true) then bell:close() end
end

local function wake(self)
  ring(self.reader)
  ring(self.feeder)
end

-- A yield after each step: the descriptor may be ready again at once, and those that were rung have their turn first.
local function run(client)
  local handle, transfers = client.core, client.transfers
  if client.closing then return end
  local descriptor = core.descriptor(handle)
  while not client.closing and core.running(handle) > 0 do
    client.waiting = true
    local ready, why = mare.wait_fd(descriptor, "r")
    client.waiting = false
    if not ready then error(why, 0) end
    core.step(handle)
    for id in core.changed, handle do
      local changed = transfers[id]
      if changed then wake(changed) end
    end
    fiber.yield()
  end
end

local function drive(client)
  local ok, err = pcall(run, client)
  client.driver, client.waiting = nil, false
  if client.closing then core.close(client.core) end
  if not ok then client.trouble = err end
  for _, t in pairs(client.transfers) do wake(t) end
end

local function driven(client)
  if client.driver then return end
  client.trouble = nil
  client.driver = fiber.spawn { main = drive, args = { client }, name = "http client", daemon = true }
end

--- Ends all of a client's transfers, then its connections. The descriptor goes when nobody waits for it any more.
function transfer.close_all(client)
  if client.closing then return end
  client.closing = true
  core.finish(client.core)                       -- this first: it takes no memory
  if not client.waiting then core.close(client.core) end
  for _, t in pairs(client.transfers) do t:close() end
end

-- ---- waiting ----

-- Until the bell rings, or for so many seconds. The two fibers that could ring it may have ended, even before they began: then there was no memory.
local function rest(self, bell, seconds)
  local client = self.client
  driven(client)
  if not self[bell] then self[bell] = channel.new(1) end
  local driver = client.driver
  local which, ok, err = mare.select { self[bell], driver, bell == "reader" and self.fiber or nil, timeout = seconds }
  if which == 2 and client.driver == driver then client.driver = nil end
  if which == 3 then self.fiber = nil end
  if (which == 2 or which == 3) and not ok then error(err, 0) end
  if client.trouble then error(client.trouble, 0) end
end

-- -> what look(handle) gives once that is not nil; nil, message, code: the transfer is over (without a message: well).
-- The limit is for times in which no byte moves and it is not the program's own function that we wait for.
local function await(self, bell, look)
  local handle, moved, since = self.handle, core.moved(self.handle), clock()
  local idle = bell == "reader" and self.idle or nil
  while true do
    if self.raised then error(self.raised.value, 0) end
    local seen = look(handle)
    if seen ~= nil then return seen end
    local over, message, code = core.over(handle)
    if over ~= nil then return nil, message, code end
    local now = core.moved(handle)
    if now ~= moved or self.producing then moved, since = now, clock() end
    local left = idle and since + idle - clock()
    if left and left <= 0 then
      self:close()
      return nil, "timeout"
    end
    rest(self, bell, left)
  end
end

-- ---- sending a body piece by piece ----

local function starving(handle)
  local hungry = core.hungry(handle)
  if hungry == nil then return "over" end
  return hungry or nil
end

local function bytes_of(piece)
  local kind = type(piece)
  if kind == "string" then return piece end
  if kind == "userdata" and require "mare.buffer".is(piece) then return tostring(piece) end
  error(("mare.http: a body's function returns strings, buffers and at the end nil, not a %s"):format(kind), 0)
end

local function next_piece(produce)
  local piece
  repeat
    piece = produce()
    if piece == nil then return nil end
    piece = bytes_of(piece)
  until piece ~= ""
  return piece
end

local function feed(self, produce)
  repeat
    if await(self, "feeder", starving) ~= true then return end
    self.producing = true
    local ok, piece = pcall(next_piece, produce)
    self.producing = false
    if self.closed then return end
    if not ok then
      self.raised, self.fiber = { value = piece }, nil
      return self:close()
    end
    core.feed(self.handle, piece)
    ring(self.reader)                            -- time begins anew for it
  until piece == nil
end

-- What is raised here is told to who waits for the answer.
local function feeding(self, produce)
  local ok, err = pcall(feed, self, produce)
  if ok or self.closed then return end
  self.raised, self.fiber = { value = err }, nil
  self:close()
end

-- ---- transfers ----

--- Begins one. `body` is a string, or the length of what `produce` gives, -1 if that is not known. `idle`: seconds in which nothing may move.
function transfer.begin(client, options, fields, body, produce, idle)
  local handle, id = core.begin(client.core, options, fields, body)
  local self = setmetatable({ client = client, handle = handle, id = id, idle = idle }, transfer)
  client.transfers[id] = self
  driven(client)
  if produce then self.fiber = fiber.spawn { main = feeding, args = { self, produce }, name = "http body", daemon = true } end
  return self
end

--- The head of the answer; nil, message, code.
function transfer:head()
  local head, message, code = await(self, "reader", core.head)
  if head or message then return head, message, code end
  return nil, "closed", "EOF"
end

--- The next bytes of the body, at most that many; nil at its end; nil, message, code.
function transfer:read(most)
  return await(self, "reader", function(handle) return core.take(handle, most) end)
end

function transfer:info() return core.info(self.handle) end

--- Whoever waits for it learns that it is closed.
function transfer:close()
  if self.closed then return end
  self.closed = true
  self.client.transfers[self.id] = nil
  core.close(self.handle)
  local feeder = self.fiber
  self.fiber = nil
  if feeder then feeder:cancel() end
  wake(self)
end

transfer.__close = transfer.close

return transfer
