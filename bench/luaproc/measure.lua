-- Shared by the programs written for luaproc, which run in plain Lua with the original, and with mare's drop-in. luaproc has no
-- clock, so the system's is asked in the same way for both.
local luaproc = require "luaproc"

local measure = {}

function measure.arg(i)
  return assert(math.tointeger(tonumber(arg[i])), "argument " .. i .. " must be an integer")
end

function measure.report(metric, value, unit)
  print(("%s %.6g %s"):format(metric, value, unit))
end

function measure.now()
  local date <close> = assert(io.popen("date +%s.%N"))
  return tonumber(date:read("l"))
end

function measure.rate(metric, count, unit, work)
  local start = measure.now()
  work()
  measure.report(metric, count / (measure.now() - start), unit)
end

-- Resident memory of this OS process, in KiB.
function measure.resident()
  local file <close> = assert(io.open("/proc/self/smaps_rollup"))
  return tonumber(file:read("a"):match("Rss:%s+(%d+)"))
end

-- The workers are the last argument. The original can't end some: it only adds.
function measure.workers(i)
  local n = measure.arg(i)
  if luaproc.getnumworkers() ~= n then luaproc.setnumworkers(n) end
end

return measure
