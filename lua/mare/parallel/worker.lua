--[[
mare.parallel.worker: what the processes of mare.parallel do. One serves a call after the other: it gets the work from its inbox, takes chunks from
the call's channel until that is closed, and sends back what each gave. Without a call for a while it ends. It closes its inbox first and looks once
more: so a call is either refused or served.

A chunk is (number, first, last, items): a part of a list with its items, a part of a shared object without, or a range of bytes of a file or buffer.
A line belongs to the range in which it begins. The answer is (number, count, seconds, result), or (false, place, error, traceback).
]]
local mare = require "mare"

local IDLE = 1                                 -- seconds until a worker without work ends
local BLOCK = 65536

-------------------------------------------------------------------------------------------------- sources: items of a chunk

-- Gives the items, and either the number of the one before the first or a list of their places.
local sources = {}

function sources.list(_, first, _, items) return items, first - 1 end
sources.numbers = sources.list

function sources.view(source, first, last)
  source.view = source.view or source.of:view(source.type)
  return source.view:table(first, last), first - 1
end

function sources.shared(source, first, last)
  local list, items = source.of, {}
  for i = first, last do
    local item = list[i]
    if item == nil then error(("list[%d] is nil; a list without holes expected"):format(i), 0) end
    items[i - first + 1] = item
  end
  return items, first - 1
end

-- The bytes of a buffer, read as a file is.
local Reader = {}
Reader.__index = Reader
function Reader:seek(_, at) self.at = at end
function Reader:close() self.buffer = nil end
function Reader:read(n)
  if self.at >= #self.buffer then return nil, "end of file", "EOF" end
  local piece = self.buffer:sub(self.at + 1, self.at + n)
  self.at = self.at + #piece
  return piece
end

local function opened(source)
  if source.buffer then return setmetatable({ buffer = source.buffer, at = 0 }, Reader) end
  local file, message = mare.file.open(source.path)
  if not file then error(message, 0) end
  return file
end

local function failed(source, message) error(("%s: %s"):format(source.path, message), 0) end

-- All lines that begin in the bytes from first to last, which count from 0.
function sources.lines(source, first, last)
  source.open = source.open or opened(source)
  local file, from = source.open, math.max(first - 1, 0)
  file:seek("set", from)
  local pieces, have, whole = {}, from, false
  while not whole do                           -- until the end of the line that holds the last byte
    local wanted = last + 1 > have and last + 1 - have or BLOCK
    local piece, message, code = file:read(wanted)
    if not piece and code ~= "EOF" then failed(source, message) end
    if not piece then break end
    whole = have + #piece > last and piece:find("\n", math.max(1, last + 1 - have), true) ~= nil
    pieces[#pieces + 1], have = piece, have + #piece
  end
  local text = table.concat(pieces)
  local at = 1
  if first > 0 then at = (text:find("\n", 1, true) or #text) + 1 end   -- the one before has read this line
  local items, places, n = {}, {}, 0
  while from + at - 1 <= last and at <= #text do
    local stop = text:find("\n", at, true) or #text + 1
    n = n + 1
    items[n], places[n] = text:sub(at, stop - 1), from + at - 1
    at = stop + 1
  end
  return items, places
end

--------------------------------------------------------------------------------------------------------- what is done with it

-- at.i is the item that is at work, for errors.
local works = {}

function works.map(f, items, place, at)
  local results = {}
  for i = 1, #items do
    at.i = i
    results[i] = f(items[i], place(i))
  end
  return results
end

function works.each(f, items, place, at)
  for i = 1, #items do
    at.i = i
    f(items[i], place(i))
  end
end

-- Which of them are kept; of a file the lines themselves, which the caller doesn't have.
function works.filter(f, items, place, at, whole)
  local kept, n = {}, 0
  for i = 1, #items do
    at.i = i
    if f(items[i], place(i)) then
      n = n + 1
      kept[n] = whole and items[i] or i
    end
  end
  return kept
end

function works.fold(f, items, _, at)
  local sum = items[1]
  for i = 2, #items do
    at.i = i
    sum = f(sum, items[i])
  end
  return sum
end

function works.gather(f, items, place, at)
  local sum = f.start and f.start()
  for i = 1, #items do
    at.i = i
    sum = f.step(sum, items[i], place(i))
  end
  return sum
end

function works.sort(less, items)
  table.sort(items, less or nil)
  return items
end

---------------------------------------------------------------------------------------------------------------- calls

local function chunk(at, work, f, source, first, last, items)
  local list, places = sources[source.kind](source, first, last, items)
  at.places = places
  local function place(i) return type(places) == "table" and places[i] or places + i end
  at.place = place
  return #list, works[work](f, list, place, at, source.kind == "lines")
end

-- What is told instead of results that can't travel: the place of the item whose result it is, if there is one, and why.
local function unsent(at, work, why)
  if type(why) ~= "string" then return false, why end
  local i = work == "map" and tonumber(why:match "^message%[4%]%[(%d+)%]")
  if i then return at.place(i), (why:gsub("^message%[4%]%[%d+%]", "result")) end
  return false, (why:gsub("^message%[4%]", "result"))
end

local function serve(work, f, source, tasks, results)
  local at = {}
  local function trouble(err)
    at.where = at.i and at.place(at.i) or nil
    return { err = err, traceback = debug.traceback("", 2):sub(2) }
  end
  for number, first, last, items in tasks:each() do
    at.i, at.place = nil, nil
    local since = mare.clock()
    local ok, count, result = xpcall(chunk, trouble, at, work, f, source, first, last, items)
    if ok then
      local sent, why = pcall(results.send, results, number, count, mare.clock() - since, result)
      if not sent then results:send(false, unsent(at, work, why)) end
    elseif not pcall(results.send, results, false, at.where or false, count.err, count.traceback) then
      results:send(false, at.where or false, tostring(count.err), count.traceback)
    end
  end
  if source.open then source.open:close() end
end

return function(inbox)
  local work, f, source, tasks, results
  while true do
    work, f, source, tasks, results = inbox:receive(IDLE)
    if not work then
      inbox:close()
      work, f, source, tasks, results = inbox:try_receive()
      if not work then return end
    end
    serve(work, f, source, tasks, results)
    f, source = nil, nil                       -- luacheck: ignore
  end
end
