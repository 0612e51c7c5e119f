-- A server as in the text on the extended luaproc (section 4.3), on LuaSocket's own sockets: a controller accepts connections and reads which service
-- the client wants; it sends the connection, and a function made for that client, to the next free worker. A worker sorts as many lists as the client
-- likes, and tells when it is free again.
--
--   mare run examples/sortserver.lua [WORKERS [CLIENTS [LISTS]]]
-- test: 3 5 4
-- expect any order
local mare = require "mare"
local socket = require "socket"
local channel, process = mare.channel, mare.process

local nworkers, nclients, nlists = tonumber(arg[1]) or 4, tonumber(arg[2]) or 8, tonumber(arg[3]) or 100

-- ---- the services: two ways to sort, with any order ----

local algorithms = {}

function algorithms.insertion(list, before)
  for i = 2, #list do
    local value, k = list[i], i - 1
    while k > 0 and before(value, list[k]) do
      list[k + 1] = list[k]
      k = k - 1
    end
    list[k + 1] = value
  end
end

function algorithms.library(list, before) table.sort(list, before) end

local orders = {
  parity = function(a, b) return a % 2 < b % 2 or a % 2 == b % 2 and a < b end,
  sign = function(a, b) return (a < 0) ~= (b < 0) and a < 0 or (a < 0) == (b < 0) and a < b end,
}

-- service(algorithm, order) -> what a worker does with a connection; it travels with the two functions it closes over
local function service(algorithm, order)
  local sort, before = algorithms[algorithm], orders[order]
  if not sort or not before then return nil end
  return function(line)
    local list = {}
    for number in line:gmatch "%-?%d+" do list[#list + 1] = math.tointeger(number) end
    sort(list, before)
    return table.concat(list, " ")
  end
end

-- LuaSocket would hold up the thread while it waits for a client; mare lets others run meanwhile.
local function line_from(connection)
  connection:settimeout(0)
  local line, why, part
  repeat
    line, why, part = connection:receive("*l", part)
    if why == "timeout" then mare.wait_fd(connection, "r") end
  until line or why ~= "timeout"
  return line
end

-- ---- a worker: connections come here, each with what is to be done ----

local function worker(work, free)
  local served = 0
  repeat
    free:send(work)
    local connection, answer = work:receive()
    while connection do
      local line = line_from(connection)
      if not line then break end
      connection:send(answer(line) .. "\n")
      served = served + 1
    end
    if connection then connection:close() end
  until not connection
  return served
end

-- ---- the controller ----

local function controller(server, workers)
  local free = channel.new(workers)
  local handles, served = {}, 0
  for i = 1, workers do handles[i] = process.spawn { name = "worker " .. i, main = worker, args = { channel.new(1), free } } end
  for _ = 1, nclients do
    mare.wait_fd(server, "r")
    local connection = server:accept()
    local wanted = line_from(connection)
    local answer = service((wanted or ""):match "(%a+) (%a+)")
    if answer then
      free:receive():send(connection, answer)              -- it moves: the worker has it, and nobody else
    else
      connection:send("there is no such service\n")
      connection:close()
    end
  end
  for _ = 1, workers do free:receive():close() end
  for i = 1, workers do served = served + select(2, assert(handles[i]:wait())) end
  return served
end

-- ---- clients ----

local function client(port, number)
  local connection = assert(require "socket".connect("127.0.0.1", port))
  local algorithm = number % 2 == 0 and "insertion" or "library"
  local order = number % 3 == 0 and "sign" or "parity"
  connection:send(algorithm .. " " .. order .. "\n")
  local before = orders[order]
  for i = 1, nlists do
    local list = {}
    for k = 1, 50 do list[k] = (k * 7919 * i * number) % 1009 - 500 end
    connection:send(table.concat(list, " ") .. "\n")
    local last, n
    for value in line_from(connection):gmatch "%-?%d+" do
      value, n = math.tointeger(value), (n or 0) + 1
      assert(not last or not before(value, last), "not sorted")
      last = value
    end
    assert(n == 50)
  end
  connection:close()
  return number
end

local server = assert(socket.bind("127.0.0.1", 0))
local _, port = server:getsockname()
local control = process.spawn { name = "controller", main = controller, args = { server, nworkers } }
local clients = {}
for i = 1, nclients do clients[i] = process.spawn(client, port, i) end
for i = 1, nclients do print("client " .. select(2, assert(clients[i]:wait())) .. " got its lists, sorted") end
print(select(2, assert(control:wait())) .. " lists were sorted")
-- expect: client 1 got its lists, sorted
-- expect: client 2 got its lists, sorted
-- expect: client 3 got its lists, sorted
-- expect: client 4 got its lists, sorted
-- expect: client 5 got its lists, sorted
-- expect: 20 lists were sorted
