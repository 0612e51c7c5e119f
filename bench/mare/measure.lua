-- Shared by the mare programs: time a piece of work, print "metric value unit" lines (bench/run reads those).
local mare = require "mare"

local measure = {}

function measure.arg(i)
  return assert(math.tointeger(tonumber(arg[i])), "argument " .. i .. " must be an integer")
end

function measure.report(metric, value, unit)
  print(("%s %.6g %s"):format(metric, value, unit))
end

function measure.seconds(work)
  local start = mare.clock()
  work()
  return mare.clock() - start
end

function measure.rate(metric, count, unit, work)
  measure.report(metric, count / measure.seconds(work), unit)
end

-- Resident memory of this OS process, in KiB.
function measure.resident()
  local file <close> = assert(io.open("/proc/self/smaps_rollup"))
  return tonumber(file:read("a"):match("Rss:%s+(%d+)"))
end

-- The most that it ever had, likewise.
function measure.peak()
  local file <close> = assert(io.open("/proc/self/status"))
  return tonumber(file:read("a"):match("VmHWM:%s+(%d+)"))
end

return measure
