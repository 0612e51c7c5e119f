--[[
mare.log: what a program has to say of itself, for people at a terminal and for other programs.

A line has a level, a message and fields. Lines are made in C (src/module/log.c) and written by a thread (src/observe/log.c); here is what is called
now and then: settings, and the fields that a fiber carries. These are a table in the fiber's storage that is never changed, only replaced, so that
fibers can share it.
]]
local core = require "mare.log.core"
local mare = require "mare"
local request = require "mare.control.request"
local storage, clock = mare.fiber.storage, mare.clock
local FIELDS = core.FIELDS

local log = { trace = core.trace, debug = core.debug, info = core.info, warn = core.warn, error = core.error,
              level = core.level, enabled = core.enabled, reopen = core.reopen }

------------------------------------------------------------------------------------------------------------- settings

local function whole(n) if math.type(n) ~= "integer" or n < 4096 then return "a whole number of bytes, 4096 at least" end end
local WORDS = { auto = true, text = true, colour = true, json = true }
local function format(word) if not WORDS[word] then return '"auto", "text", "colour" or "json"' end end
local function hang_up(v) if type(v) ~= "boolean" then return "true or false" end end
local function path(v) if type(v) ~= "string" or v == "" or v:find "%z" then return "the path of a file" end end
local function level(v) if type(v) ~= "string" then return "a level, as \"info\"" end end
local OPTIONS = { level = level, file = path, format = format, queue = whole, hup = hang_up }

--- For the whole program. nil, message, code: the file can't be opened, and nothing was changed.
function log.setup(options)
  options = options or {}
  request.check(options, OPTIONS, "log.setup")
  local level_ok, wrong = pcall(core.enabled, options.level or "info")
  if not level_ok then request.fail("%s", (wrong:gsub("^log%.enabled", "log.setup"))) end
  local form = options.format ~= "auto" and options.format or nil
  local ok, err, code = core.set(options.level, form, options.file, options.queue)
  if not ok then return nil, err, code end
  if options.file and options.hup ~= false then return core.hang_up() end
  return true
end

--- Waits until what was logged before is written. nil, "timeout": it is not yet.
function log.flush(seconds)
  if seconds ~= nil and (type(seconds) ~= "number" or seconds ~= seconds) then
    request.fail("log.flush: a number of seconds expected, got %s", tostring(seconds))
  end
  local mark, due, pause = core.mark(), seconds and clock() + seconds, 0.0001
  while not core.written(mark) do
    if due and clock() >= due then return nil, "timeout" end
    mare.sleep(pause)
    pause = math.min(pause * 2, 0.02)
  end
  return true
end

--- How many lines were taken, lost because the queue was full, could not be written; bytes that wait to be.
function log.statistics()
  local lines, lost, failed, queued = core.numbers()
  return { lines = lines, lost = lost, failed = failed, queued = queued }
end

------------------------------------------------------------------------------------------------------------- fields of a fiber

local Back = { __name = "log fields", __close = function(self) self.store[FIELDS] = self.before end }

--- What this fiber logs has these fields, too, and so has what fibers log that it makes meanwhile: during f(…), or until what is returned is closed.
function log.with(fields, f, ...)
  if type(fields) ~= "table" then request.fail("log.with: a table of names and values expected, got %s", type(fields)) end
  if f ~= nil and type(f) ~= "function" and not (getmetatable(f) or {}).__call then
    request.fail("log.with: a function expected after the fields, or nothing; got %s", type(f))
  end
  core.keeps()
  local store, all = storage(), {}
  local back = setmetatable({ store = store, before = store[FIELDS] }, Back)
  for name, value in pairs(back.before or {}) do all[name] = value end
  for name, value in pairs(fields) do all[name] = value end
  store[FIELDS] = all
  if f == nil then return back end
  local closing <close> = back                   -- luacheck: ignore closing
  return f(...)
end

--- A copy of the fields that this fiber carries: to hand them to another process, for its log.with.
function log.fields()
  local copy = {}
  for name, value in pairs(storage()[FIELDS] or {}) do copy[name] = value end
  return copy
end

return require "mare.near".guard(log)
