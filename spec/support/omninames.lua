-- omninames: omniORB's naming service for a test.
--
--   local omninames = require "spec.support.omninames"
--   omninames.missing                        why it can't be had here, or nil
--   omninames.with(function(port) … end)     beside one whose names lie in a folder that is removed again
local mare = require "mare"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

local omninames = { idl = "/usr/share/idl/omniORB/COS/CosNaming.idl" }

local found = io.open(omninames.idl)
if found then found:close() end
if not (found and os.execute "command -v omniNames >/dev/null") then omninames.missing = "omniNames or its IDL is not installed" end

function omninames.with(f)
  local probe = assert(mare.net.listen "127.0.0.1:0")
  local _, port = probe:address()
  probe:close()
  local folder = temporary()
  os.remove(folder)
  assert(os.execute("mkdir " .. folder))
  local child = assert(mare.subprocess.spawn { "omniNames", "-start", tostring(port), "-logdir", folder, "-errlog", folder .. "/errors",
                                               "-ORBendPoint", "giop:tcp:127.0.0.1:" .. port, stdout = "null", stderr = "null" })
  local results = table.pack(pcall(function()
    local limit = mare.clock() + 60 * proc.slow
    repeat                                         -- until it answers
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

return omninames
