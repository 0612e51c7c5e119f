-- omnievents: omniORB's event service, its tools, and a client over omniORB for a test.
--
--   local omnievents = require "spec.support.omnievents"
--   omnievents.missing                         why it can't be had here, or nil
--   omnievents.with(function(port) … end)      beside a server whose file lies in a folder that is removed again
--   omnievents.run(tool, argument…)            -> exit code of eventc, eventf, rmeventc
--   omnievents.client(argument…)               starts the C++ client (spec/orb_peers/events-cpp): { line = f(), wait = f() -> the rest, code }
local mare = require "mare"
local foreign = require "spec.support.foreign"
local proc = require "spec.support.proc"

local omnievents = {}
local CLIENT = "build/orb_peers/events-cpp/client"
local HERE = { "-ORBendPoint", "giop:tcp:127.0.0.1:" }

omnievents.missing = foreign.lacks("omniEvents", "eventc") or foreign.built "events-cpp"

function omnievents.run(...)
  local child = assert(mare.subprocess.spawn { stdout = "null", stderr = "null", ... })
  return child:wait().code
end

function omnievents.client(...)
  local words = table.pack(CLIENT, ...)
  local child = assert(mare.subprocess.spawn(table.move({ table.unpack(words) }, 1, words.n, 1,
    { stderr = "null", [words.n + 1] = HERE[1], [words.n + 2] = HERE[2] })))
  local client = {}
  function client.line() return child.stdout:read("l", 30 * proc.slow) end
  function client.wait()
    local lines = {}
    for text in client.line do lines[#lines + 1] = text end
    return table.concat(lines, " "), child:wait().code
  end
  return client
end

function omnievents.with(f)
  foreign.with(function(port, folder)
    return { "omniEvents", "-f", "-p", tostring(port), "-l", folder, "-t", folder .. "/trace", "-ORBInitRef",
             "NameService=corbaloc::127.0.0.1:1/none" }
  end, f)
end

return omnievents
