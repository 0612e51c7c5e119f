-- supervised restart COUNT: a child that fails at once is started again COUNT times; in µs each, above spawning the same process and waiting for it.
-- supervised many COUNT: starting COUNT children that wait, and ending them.
-- supervised storm COUNT SECONDS: COUNT children, of which a tenth fails each second: how many are started again, and how long the supervisor takes
-- to answer meanwhile.
local mare = require "mare"
local measure = require "measure"
local process, channel, supervisor = mare.process, mare.channel, mare.supervisor

local modes = {}

function modes.restart()
  local count, done = measure.arg(2), channel.new(math.huge)
  local function fail(c)
    c:send(true)
    error("x", 0)
  end
  local function alone(n)
    for _ = 1, n do
      process.spawn(fail, done):wait()
      done:receive()
    end
  end
  local sup
  local function watched(n)
    for _ = 1, n do done:receive() end
  end
  alone(count // 20 + 1)
  local plain = measure.seconds(function() alone(count) end) / count
  sup = supervisor.start { intensity = math.huge, report = false, children = { { id = 1, start = fail, args = { done } } } }
  watched(count // 20 + 1)
  local restart = measure.seconds(function() watched(count) end) / count
  sup:shutdown()
  measure.report("spawn", plain * 1e6, "us")
  measure.report("restart", restart * 1e6, "us")
  measure.report("above", (restart - plain) * 1e6, "us")
end

-- Its memory is that of the whole program, divided by the children.
function modes.many()
  local count = measure.arg(2)
  local before = measure.resident()
  local sup = supervisor.start { template = { start = mare.sleep, args = { math.huge } } }
  measure.rate("started", count, "1/s", function()
    for _ = 1, count do sup:spawn() end
  end)
  measure.report("memory", (measure.resident() - before) / count, "KiB")
  measure.rate("ended", count, "1/s", function() sup:shutdown() end)
end

function modes.storm()
  local count, seconds = measure.arg(2), measure.arg(3)
  local begun = channel.new(math.huge)
  local sup = supervisor.start { intensity = math.huge, report = false, template = { args = { begun }, start = function(c)
    c:send(true)
    mare.sleep(-10 * math.log(1 - math.random()))            -- at any moment as likely as at any other
    error("x", 0)
  end } }
  for _ = 1, count do sup:spawn() end
  local function drain()
    local n = 0
    while begun:try_receive() do n = n + 1 end
    return n
  end
  mare.sleep(1)
  drain()
  local start, restarts, slowest, asked, total = mare.clock(), 0, 0, 0, 0
  repeat
    local from = mare.clock()
    sup:count()
    local time = mare.clock() - from
    slowest, asked, total = math.max(slowest, time), asked + 1, total + time
    mare.sleep(0.02)
    restarts = restarts + drain()
  until mare.clock() - start >= seconds
  measure.report("restarts", restarts / (mare.clock() - start), "1/s")
  measure.report("answer", 1000 * total / asked, "ms")
  measure.report("slowest", 1000 * slowest, "ms")
  local c = sup:count()
  measure.report("alive", c.active / c.specs, "of the children")
  sup:shutdown()
end

modes[arg[1]]()
os.exit(0)
