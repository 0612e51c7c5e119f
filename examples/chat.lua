-- A chat server for telnet or nc: rooms are processes, members are fibers in them, and changing the room moves the connection.
--   mare run examples/chat.lua [PORT]           then:  telnet localhost 8023
--
-- The hall, the main process, knows who is where; it greets who comes and carries people from room to room. A room knows
-- its members only. What a member is to read goes through a queue of its own, so that one who doesn't read delays nobody:
-- when the queue is full, that member is out.
local mare = require "mare"
local net, signal = require "mare.net", require "mare.signal"
local process, channel, fiber, select = mare.process, mare.channel, mare.fiber, mare.select

local LINE, QUEUE, PATIENCE = 1000, 100, 60    -- bytes of a line, lines in a queue, seconds to take one or to tell a name

local help = [[
/join ROOM   go to another room         /rooms   the rooms and how many are there
/who         who is in this room        /quit    leave
Anything else is said to all in the room.]]
help = help:gsub("\n", "\r\n")

-- What a stranger typed, without telnet's negotiations and control characters; nil: the peer is gone or writes no lines.
local function line_of(conn, seconds)
  local text = conn:read_until("\n", LINE, seconds or math.huge)
  return text and text:gsub("\255[\251-\254].", ""):gsub("[%c\255]", "")
end

------------------------------------------------------------------------------------------------------------- a room

-- Takes (connection, name) at `door`; tells the hall: ("moved", name, connection, room), ("left", name), ("rooms", name, channel).
local function room(title, door, hall)
  local members = {}                           -- name -> the queue of what it is to read

  local function tell(queue, text)
    if queue:try_send(text) == nil then queue:close() end      -- full: too slow
  end

  local function all(text)
    for _, queue in pairs(members) do tell(queue, text) end
  end

  local function who()
    local names = {}
    for name in pairs(members) do names[#names + 1] = name end
    table.sort(names)
    return table.concat(names, ", ")
  end

  local commands = { help = help }
  function commands.who(queue) tell(queue, who()) end
  function commands.rooms(queue, name) hall:send("rooms", name, queue) end
  function commands.join(queue, _, wanted)
    if wanted:find("^[%w_-]+$") and #wanted <= 20 then return wanted end
    tell(queue, "a room's name has letters, digits, - and _, at most 20")
  end

  -- Reads what a member types. Gives the room where it wants to go, or nil when it leaves.
  local function listen(conn, name, queue)
    while true do
      local text = line_of(conn)
      if not text or queue:closed() then return nil end
      local word, rest = text:match("^/(%S*)%s*(.-)%s*$")
      if word == "quit" then return nil end
      local command = commands[word]
      if not word then
        if text ~= "" then all(name .. ": " .. text) end
        fiber.yield()                          -- who types without pause lets the writers work, too
      elseif type(command) == "function" then
        local wanted = command(queue, name, rest)
        if wanted then return wanted end
      else
        tell(queue, command or "there is no /" .. word .. "; /help")
      end
    end
  end

  local function member(conn, name)
    local queue = channel.new(QUEUE)
    members[name] = queue
    local writer = fiber.spawn(function()
      for text in queue:each() do
        if not conn:write(text, "\r\n") then break end
      end
      queue:close()
      if members[name] == queue then conn:shutdown("read") end  -- wakes the reader: out
    end)
    all(("* %s is in %s (%s)"):format(name, title, who()))
    local wanted = listen(conn, name, queue)
    members[name] = nil
    all(("* %s has left %s"):format(name, title))
    queue:close()
    writer:wait()
    if not (wanted and hall:send("moved", name, conn, wanted)) then
      conn:close()
      hall:send("left", name)
    end
  end

  for conn, name in door:each() do fiber.spawn(member, conn, name) end
  for _, queue in pairs(members) do
    tell(queue, "* the server ends")
    queue:close()
  end
end

------------------------------------------------------------------------------------------------------------ the hall

local server, message = net.listen("127.0.0.1:" .. (arg[1] or 8023))
if not server then
  io.stderr:write("chat: ", message, "\n")
  os.exit(1)
end
local interrupt, hall, arrivals = signal.on("INT"), channel.new(64), channel.new()
local rooms, people, greeted = {}, {}, {}      -- title -> { door, count, handle }; name -> title; connections without a name

-- Asks a newcomer for a name; fibers do that, for it takes as long as the newcomer likes.
local function greet(conn)
  conn:timeout(PATIENCE)
  local name = nil
  repeat
    conn:write(name and "That name won't do, or is taken. " or "Welcome. ", "Your name? ")
    local text = line_of(conn, PATIENCE)
    if not text then
      greeted[conn] = nil
      return conn:close()
    end
    name = text:match("^%s*([%w_-]+)%s*$") or ""
  until name ~= "" and #name <= 20 and not people[name]
  people[name], greeted[conn] = "", nil        -- between the look and this nobody else ran
  arrivals:send(name, conn, "lobby")
end

local function enter(name, conn, title)
  local r = rooms[title]
  if not r then
    local door = channel.new(64)
    r = { door = door, count = 0, handle = process.spawn { main = room, args = { title, door, hall }, name = "room " .. title } }
    rooms[title] = r
  end
  people[name], r.count = title, r.count + 1
  r.door:send(conn, name)
end

local function leave(name)
  local title = people[name]
  local r = rooms[title]
  r.count = r.count - 1
  if r.count == 0 then                         -- the last one turns off the light
    r.door:close()
    rooms[title] = nil
  end
  people[name] = nil
end

local requests = {}
requests.left = leave
function requests.moved(name, conn, title)
  leave(name)
  enter(name, conn, title)
end
function requests.rooms(_, queue)
  local list = {}
  for title, r in pairs(rooms) do list[#list + 1] = ("%s (%d)"):format(title, r.count) end
  table.sort(list)
  queue:try_send(table.concat(list, ", "))
end

print(("chat on %s %d; Ctrl-C ends it"):format(server:address()))
io.stdout:flush()

while true do
  local which, what, name, conn, title = select { server, hall, arrivals, interrupt }
  if which == 1 and what then
    greeted[what] = fiber.spawn(greet, what)
  elseif which == 2 then
    requests[what](name, conn, title)
  elseif which == 3 then
    enter(what, name, conn)
  elseif which == 4 then
    break
  end
end

interrupt:close()                              -- a second one ends it at once
server:close()
hall:close()
arrivals:close()
for conn in pairs(greeted) do conn:shutdown("read") end
for _, r in pairs(rooms) do r.door:close() end
for _, r in pairs(rooms) do r.handle:wait(5) end
os.exit(0)                                     -- who still doesn't read what is left for him is not waited for
