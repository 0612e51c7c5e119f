--[[
mare.oil: the API of OiL 0.6 over mare's broker, so that programs written for OiL run unchanged.

  local oil = require "oil"
  oil.main(function()
    local orb = oil.init()
    …
  end)

docs/oil.md is the user's page, with what is different. Nothing of it is OiL's own code.
]]
require "mare.oil.names"
require "mare.oil.idioms"
local mare = require "mare"
local assert = require "mare.oil.assert"
local cothread = require "mare.oil.cothread"
local ORB = require "mare.oil.orb"

local oil = { VERSION = "OiL 0.6", ORB = ORB, verbose = require "mare.oil.verbose", assert = assert }

local default

--- An ORB with the options of a table, which becomes it. Without one always the same.
function oil.init(config)
  if config == nil then
    if default and default.serving then return default end
    default = {}
    config = default
  end
  assert.type(config, "table", "ORB configuration")
  config.flavor = config.flavor or "cooperative;corba"
  assert.type(config.flavor, "string", "ORB flavor")
  return ORB(config)
end

--- Runs a function, and returns when all threads have ended and all ORBs were shut down. Raises the error of the first thread that fails.
function oil.main(main, ...)
  assert.type(main, "function", "main function")
  local fine, err = pcall(cothread.main, main, ...)
  if not fine then error(type(err) == "string" and err or tostring(err), 0) end
end

--- Runs a function in a thread of its own, which has begun when this returns.
function oil.newthread(f, ...)
  assert.type(f, "function", "thread body")
  cothread.next(coroutine.create(f), ...)
end

--- Waits so many seconds. Others run meanwhile.
function oil.sleep(seconds)
  assert.type(seconds, "number", "time")
  return cothread.delay(seconds)
end

oil.time = mare.clock

--- Writes the text of a value to a file: success, or false and why not.
function oil.writeto(path, data, mode)
  local file, err = io.open(path, mode or "w")
  if not file then return false, err end
  local fine, why = file:write(tostring(data))
  file:close()
  return fine ~= nil, why
end

--- The content of a file | nil, why not.
function oil.readfrom(path, binary)
  local file, err = io.open(path, binary and "rb" or "r")
  if not file then return nil, err end
  local text, why = file:read "a"
  file:close()
  return text, why
end

return oil
