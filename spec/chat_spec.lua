-- The chat server from outside: members as sockets, who see what is said in their room and nothing else.
-- runs under: mare
-- needs: plain
local net, subprocess = require "mare.net", require "mare.subprocess"
local proc = require "spec.support.proc"

local LIMIT = 30
local child, port

-- Reads up to and with `text`; what came.
local function expect(conn, text)
  local got, why = conn:read_until(text, 1 << 20, LIMIT)
  if got then return got end
  error(("'%s' never came (%s), but: %s"):format(text, why, conn:read(nil, 0)), 2)
end

local function stranger() return assert(net.connect("127.0.0.1", port, { timeout = LIMIT })) end

local function member(name)
  local conn = stranger()
  expect(conn, "Your name? ")
  conn:write(name, "\r\n")
  expect(conn, ("* %s is in lobby"):format(name))
  expect(conn, "\r\n")
  return conn
end

-- Everything up to the answer to a command that only this member sees.
local function ask(conn, command)
  conn:write(command, "\r\n")
  return expect(conn, "\r\n")
end

describe("the chat server", function()
  before_each(function()
    child = assert(subprocess.spawn { proc.bin, "run", "examples/chat.lua", "0", stdin = "null" })
    port = tonumber(assert(child.stdout:read("l", LIMIT)):match("127.0.0.1 (%d+)"))
  end)
  after_each(function()
    child:kill("INT")
    local result = child:wait(LIMIT)
    if not result then child:kill("KILL") end
    local complaints = child.stderr:read("a", LIMIT):gsub("MARE_CHAOS=%d+\n", "")
    child.stdout:close()
    child.stderr:close()
    assert.equal("", complaints)
    assert.same({ code = 0 }, result)
  end)

  it("tells what is said to all in the room, in one order", function()
    local ann <close> = member("ann")
    local bob <close> = member("bob")
    expect(ann, "* bob is in lobby (ann, bob)\r\n")
    for i = 1, 20 do (i % 2 == 0 and ann or bob):write("number ", i, "\n") end
    ann:write("end\n")
    bob:write("end\n")
    local heard = {}
    for i, conn in ipairs { ann, bob } do
      local text = ""
      for _ = 1, 22 do text = text .. expect(conn, "\r\n") end
      heard[i] = text
    end
    assert.equal(heard[1], heard[2])
    assert.matches("ann: number 2\r\n.*ann: number 4\r\n", heard[1])
    assert.matches("bob: number 1\r\n.*bob: number 3\r\n", heard[1])
  end)

  it("gives each name once, and asks again", function()
    local ann <close> = member("ann")
    local other <close> = stranger()
    expect(other, "Welcome. Your name? ")
    for _, bad in ipairs { "ann", "", "two words", ("x"):rep(21) } do
      other:write(bad, "\n")
      expect(other, "That name won't do, or is taken. Your name? ")
    end
    other:write("bob\n")
    expect(other, "(ann, bob)\r\n")
    expect(ann, "* bob is in lobby")
  end)

  it("moves members between rooms, which hear only their own", function()
    local ann <close> = member("ann")
    local bob <close> = member("bob")
    expect(ann, "bob)\r\n")
    bob:write("/join den\n")
    expect(ann, "* bob has left lobby\r\n")
    expect(bob, "* bob is in den (bob)\r\n")
    assert.equal("den (1), lobby (1)\r\n", ask(ann, "/rooms"))
    bob:write("secret\n")
    expect(bob, "bob: secret\r\n")
    assert.equal("ann\r\n", ask(ann, "/who"))                -- the next thing that ann reads
    bob:write("/join lobby\nhello\n")                        -- what was typed ahead moves along
    expect(ann, "bob: hello\r\n")
    expect(bob, "bob: hello\r\n")
    assert.equal("lobby (2)\r\n", ask(bob, "/rooms"))        -- the den has gone with its last member
  end)

  it("explains itself", function()
    local ann <close> = member("ann")
    assert.matches("^/join ROOM", ask(ann, "/help"))
    expect(ann, "all in the room.\r\n")
    assert.equal("there is no /fly; /help\r\n", ask(ann, "/fly"))
    assert.matches("^a room's name has", ask(ann, "/join a b"))
    ann:write("\255\253\1ca\7r\r\n")                         -- telnet's negotiation, a bell
    expect(ann, "ann: car\r\n")
    ann:write("/quit\n")
    assert.equal("", ann:read("a", LIMIT):gsub("%* ann has left lobby\r\n", ""))
  end)

  it("lets go who leaves, resets, sends no lines or ends only its side", function()
    local ann <close> = member("ann")
    local ways = {
      function(conn) conn:close() end,
      function(conn)
        conn:option("linger", 0)
        conn:close()
      end,
      function(conn) conn:write(("x"):rep(5000)) end,
      function(conn) conn:shutdown("write") end,
    }
    for i, way in ipairs(ways) do
      local guest <close> = member("guest" .. i)
      expect(ann, ("guest%d)\r\n"):format(i))
      way(guest)
      expect(ann, ("* guest%d has left lobby\r\n"):format(i))
    end
    local again <close> = member("guest1")                   -- names are free again
    expect(ann, "* guest1 is in lobby")
    expect(ann, "\r\n")
    assert.equal("ann, guest1\r\n", ask(ann, "/who"))
    assert.equal("lobby (2)\r\n", ask(again, "/rooms"))
  end)

  it("delays nobody for a member who doesn't read", function()
    local ann <close> = member("ann")
    local deaf <close> = stranger()
    deaf:option("rcvbuf", 4096)
    expect(deaf, "? ")
    deaf:write("deaf\n")
    expect(ann, "* deaf is in lobby (ann, deaf)\r\n")
    local text = ("y"):rep(900)
    for _ = 1, 200 do
      for _ = 1, 50 do ann:write(text, "\n") end
      for _ = 1, 50 do expect(ann, text .. "\r\n") end
    end
  end)

  it("holds many members in many rooms", function()
    local members = {}
    for i = 1, 60 do
      members[i] = member("m" .. i)
      members[i]:write("/join r", i % 6, "\n")
    end
    for i = 1, 60 do expect(members[i], ("* m%d is in r%d"):format(i, i % 6)) end
    for i = 1, 60 do members[i]:write("from ", i, "\n") end
    for i = 1, 60 do
      local heard, from = 0, {}
      while heard < 10 do
        local n = tonumber(expect(members[i], "\r\n"):match(": from (%d+)"))
        if n then
          assert.equal(i % 6, n % 6)
          assert.is_nil(from[n])
          heard, from[n] = heard + 1, true
        end
      end
    end
    for i = 1, 60 do members[i]:close() end
  end)

  it("ends with members in rooms and strangers at the door", function()
    local ann, other = member("ann"), stranger()
    expect(other, "? ")
    child:kill("INT")
    assert.equal("* the server ends\r\n", ann:read("a", LIMIT))
    other:read("a", LIMIT)
    assert.same({ code = 0 }, child:wait(LIMIT))
    ann:close()
    other:close()
  end)
end)
