-- A pipeline of stages: an access log is read line by line, taken apart by two processes, and counted by one. The statistics show where time goes.
--   mare run examples/stages.lua [FILE]
-- test:
-- expect~ 200%s3200
-- expect~ 404%s401
-- expect~ 500%s399
-- expect: parse: 4001 lines, 1 skipped
local mare = require "mare"
local pipeline = mare.pipeline

-- Without a file, lines as one would have.
local function made_up()
  local n = 0
  return function()
    n = n + 1
    if n == 2000 then return "not a line of a log" end
    if n <= 4001 then return ('10.0.0.%d - "GET /page/%d" %d'):format(n % 250, n, n % 10 == 0 and 500 or n % 20 < 3 and 404 or 200) end
  end
end

local log = pipeline.new {
  ordered = false, on_error = "skip",
  { name = "parse", processes = 2, run = function(line)
    local status = line:match '" (%d+)$' or error("can't be read: " .. line, 0)
    return tonumber(status)
  end },
}

local run <close> = log:run(arg[1] and pipeline.lines(arg[1]) or made_up())
local counts, order = {}, {}
for status in run:each() do
  if not counts[status] then order[#order + 1] = status end
  counts[status] = (counts[status] or 0) + 1
end
table.sort(order)
for _, status in ipairs(order) do print(status, counts[status]) end
local parse = run:statistics()[1]
print(("%s: %d lines, %d skipped"):format(parse.name, parse.items, parse.skipped))
