-- A key-value server whose every part may be killed at any moment, and which serves on.
--   mare run examples/supervised.lua [PORT]         then:  nc localhost 8025,  and type  color=blue  or  color
--   mare run examples/supervised.lua --demo         clients use it while its processes are killed at random
-- test: --demo
-- expect: 100 times a process was killed; each of 4 clients got every answer
--
-- Ctrl-C, or kill, shuts it down in order. The tree:
--
--   top -- store          the data, a server
--       -- connections -- a process for each connection; one that ends is not started again, its client asks anew
--       -- acceptor       takes connections and gives them away
--
-- The listening socket belongs to the main script and is shared: while there is no acceptor, clients wait in the system's queue.
local mare = require "mare"
local net = require "mare.net"
local process, channel, server, supervisor = mare.process, mare.channel, mare.server, mare.supervisor

local KILLS, CLIENTS, PATIENCE = 100, 4, 2       -- seconds that a client waits for an answer before it asks on a new connection

------------------------------------------------------------------------------------------------------- the children

local store = server.child {
  name = "store",
  init = function() return {} end,
  call = function(data, request)
    if request.value then data[request.key] = request.value end
    return data[request.key]
  end,
}

-- A line "key" or "key=value" is answered by the value.
local function serve(conn)
  local data = server.named "store"
  conn:timeout(60)
  for line in function() return conn:read("l") end do
    local key, value = line:match("^([^=]*)=?(.*)$")
    conn:write(data:call { key = key, value = value ~= "" and value or nil } or "", "\n")
  end
  conn:close()
end

local function accept(listener)
  local connections = supervisor.named "connections"
  for conn in listener:connections() do connections:spawn(conn) end
end

local function tree(listener, report)
  return {
    name = "top", intensity = report == nil and 10 or math.huge, report = report,
    children = {
      store,
      { id = "connections", supervisor = { name = "connections", report = report, template = { start = serve, restart = "temporary" } } },
      { id = "acceptor", start = accept, args = { listener } },
    },
  }
end

------------------------------------------------------------------------------------------------------------ the demo

-- The processes below a supervisor, those of its supervisors too.
local function processes(name, list)
  local ok, children = pcall(supervisor.named(name).children, supervisor.named(name))
  for _, child in ipairs(ok and children or {}) do
    list[#list + 1] = child.process
    if child.type == "supervisor" then processes(child.id, list) end
  end
  return list
end

local function kill_at_random()
  local kills = 0
  while kills < KILLS do
    local list = processes("top", {})
    local victim = list[math.random(math.max(1, #list))]
    if victim and victim:kill() then kills = kills + 1 end
    mare.sleep(0.005)
  end
  return kills
end

-- Asks until there is an answer: where the connection breaks, on a new one.
local function asker(port)
  local conn = nil
  return function(line)
    while true do
      conn = conn or net.connect { host = "127.0.0.1", port = port, timeout = PATIENCE }
      local answer = conn and conn:timeout(PATIENCE):write(line, "\n") and conn:read("l")
      if answer then return answer end
      if conn then conn:close() end
      conn = nil
      mare.sleep(0.001)
    end
  end
end

local function client(name, port, over)
  local ask, rounds = asker(port), 0
  while not over:closed() do
    rounds = rounds + 1
    local key, value = ("%s-%d"):format(name, rounds % 10), tostring(rounds)
    repeat ask(key .. "=" .. value) until ask(key) == value     -- a new store has forgotten it
  end
  return rounds
end

local function demo()
  local listener = assert(net.listen("127.0.0.1:0"))
  local port = select(2, listener:address())
  local top <close> = supervisor.start(tree(listener, false))
  local over = channel.new()
  process.scope(function(s)
    local clients = {}
    for i = 1, CLIENTS do clients[i] = s:spawn(client, i, port, over) end
    local _, kills = s:spawn(kill_at_random):wait()
    over:close()
    for _, c in ipairs(clients) do assert(select(2, c:wait()) > 0) end
    print(("%d times a process was killed; each of %d clients got every answer"):format(kills, CLIENTS))
  end)
  assert(top:count().specs == 3)
end

if arg[1] == "--demo" then
  demo()
else
  local listener = assert(net.listen("127.0.0.1:" .. (arg[1] or 8025)))
  print(("serving on %s %d"):format(listener:address()))
  io.stdout:flush()
  supervisor.run(tree(listener))
end
