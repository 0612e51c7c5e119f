-- Children that tell what becomes of them, for specs of supervisors.
local mare = require "mare"
local proc = require "spec.support.proc"
local process, channel, supervisor = mare.process, mare.channel, mare.supervisor

local supervised = { LIMIT = 30 * proc.slow }
local LIMIT = supervised.LIMIT

-- Tells when it begins and, whatever ends it but kill, when it ends. A word from `orders` makes it return or fail.
local function worker(log, name, orders)
  local _ <close> = setmetatable({}, { __close = function() log:try_send("end", name) end })
  log:send("begin", name, process.self())
  local order = (orders or channel.new()):receive()
  if order == "fail" then error({ failed = name }) end
  return order
end

function supervised.entry(log, name, more)
  local e = { id = name, start = worker, args = { log, name } }
  for field, value in pairs(more or {}) do e[field] = value end
  return e
end

function supervised.start(options)
  if options.report == nil then options.report = false end
  return supervisor.start(options)
end

-- The next n words of the log: "begin a", "end b" …, and the handles of those that began.
function supervised.words(log, n)
  local list, handles = {}, {}
  for i = 1, n do
    local what, name, handle = log:receive(LIMIT)
    list[i] = ("%s %s"):format(what, name)
    handles[name] = handle or handles[name]
  end
  return list, handles
end

function supervised.sorted(list)
  table.sort(list)
  return list
end

function supervised.quiet(log) assert.same(table.pack(nil, "timeout"), table.pack(log:receive(0.02))) end
supervised.worker = worker

return supervised
