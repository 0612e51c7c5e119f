-- omninames: omniORB's naming service for a test.
--
--   local omninames = require "spec.support.omninames"
--   omninames.missing                        why it can't be had here, or nil
--   omninames.with(function(port) … end)     beside one whose names lie in a folder that is removed again
local foreign = require "spec.support.foreign"

local omninames = { idl = "/usr/share/idl/omniORB/COS/CosNaming.idl" }

local found = io.open(omninames.idl)
if found then found:close() end
omninames.missing = foreign.lacks "omniNames" or not found and foreign.missing(omninames.idl) or nil

function omninames.with(f)
  foreign.with(function(port, folder)
    return { "omniNames", "-start", tostring(port), "-logdir", folder, "-errlog", folder .. "/errors", "-ORBendPoint",
             "giop:tcp:127.0.0.1:" .. port }
  end, f)
end

return omninames
