-- event_command: `mare events` for a test, as a server and as one that listens.
--
--   local command = require "spec.support.event_command"
--   local child, port = command.serve(word…)           a service on a port of its own
--   local child = command.listen(port, word…)          one that is connected
local mare = require "mare"
local channels = require "spec.support.event_service"
local proc = require "spec.support.proc"

local command = {}

function command.serve(...)
  local child = assert(mare.subprocess.spawn { stderr = "null", proc.bin, "events", "--host", "127.0.0.1", "--port", "0", ... })
  return child, assert(child.stdout:read("l", channels.LIMIT)):match ":(%d+)/EventChannel$"
end

function command.listen(port, ...)
  local child = assert(mare.subprocess.spawn { proc.bin, "events", "listen", "--host", "127.0.0.1", "--port", port, ... })
  assert.equal("listening", channels.line(child.stderr))
  return child
end

return command
