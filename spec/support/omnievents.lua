-- omnievents: omniORB's event service, its tools, and a client over omniORB for a test.
--
--   local omnievents = require "spec.support.omnievents"
--   omnievents.missing                         why it can't be had here, or nil
--   omnievents.with(function(port) … end)      beside a server whose file lies in a folder that is removed again
--   omnievents.run(tool, argument…)            -> exit code of eventc, eventf, rmeventc
--   omnievents.client(argument…)               starts the C++ client (spec/orb_peers/events-cpp): { line = f(), wait = f() -> the rest, code }
local mare = require "mare"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

local omnievents = {}
local CLIENT = "build/orb_peers/events-cpp/client"
local HERE = { "-ORBendPoint", "giop:tcp:127.0.0.1:" }

local path = { PATH = os.getenv "PATH" .. ":/usr/sbin" }
if not os.execute "PATH=$PATH:/usr/sbin command -v omniEvents >/dev/null && command -v eventc >/dev/null" then
  omnievents.missing = "omniEvents is not installed"
else
  local built = proc.run({ "spec/orb_peers/build", "events-cpp" }, { timeout = 300 })
  if built.code == 77 then omnievents.missing = built.err:gsub("\n$", "") else assert(built.code == 0, built.err) end
end

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
  local probe = assert(mare.net.listen "127.0.0.1:0")
  local _, port = probe:address()
  probe:close()
  local folder = temporary()
  os.remove(folder)
  assert(os.execute("mkdir " .. folder))
  local child = assert(mare.subprocess.spawn { "omniEvents", "-f", "-p", tostring(port), "-l", folder, "-t", folder .. "/trace", "-ORBInitRef",
                                               "NameService=corbaloc::127.0.0.1:1/none", stdout = "null", stderr = "null", env = path })
  local results = table.pack(pcall(function()
    local limit = mare.clock() + 60 * proc.slow
    repeat
      local conn = mare.net.connect("127.0.0.1", port)
      if conn then conn:close() else mare.sleep(0.02) end
    until conn or mare.clock() > limit
    f(port)
  end))
  child:kill "KILL"
  child:wait()
  os.execute("rm -r " .. folder)
  if not results[1] then error(results[2], 0) end
end

return omnievents
