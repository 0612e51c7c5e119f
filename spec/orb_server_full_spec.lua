-- A server whose process has no descriptors left.
-- runs under: mare
-- needs: plain
local mare = require "mare"
local orb = require "mare.orb"
local proc = require "spec.support.proc"

local IDL = "interface Hello { string say(in string name); };"
local SERVER = [[
  local broker = require "mare.orb".init { host = "127.0.0.1", log = function(level, text) if level == 1 then io.stderr:write(text, "\n") end end }
  broker:load "interface Hello { string say(in string name); };"
  print(tostring(broker:serve({ say = function(_, name) return "hello, " .. name end }, "Hello")))
  io.stdout:flush()
  broker:run()
]]

describe("a server without descriptors", function()
  it("asks idle clients to leave, says so once, and serves who comes back", function()
    local script = os.tmpname()
    local file = assert(io.open(script, "w"))
    file:write(SERVER)
    file:close()
    local child = assert(mare.subprocess.spawn { "sh", "-c", 'ulimit -n 32; exec "$0" run "$1"', proc.bin, script })
    local reference = assert(child.stdout:read("l", 30))
    local clients = {}
    for i = 1, 40 do                                       -- more than it has descriptors; each keeps its connection
      local broker = orb.init { timeout = 20 }
      broker:load(IDL)
      clients[i] = { broker = broker, object = broker:proxy(reference, "Hello") }
      assert.equal("hello, " .. i, clients[i].object:say(tostring(i)))
    end
    for i = 1, 40, 13 do assert.equal("hello, again", clients[i].object:say "again") end
    for _, client in ipairs(clients) do client.broker:close() end
    child:kill "TERM"
    local log = child.stderr:read "a"
    child:wait()
    os.remove(script)
    assert.matches("^new clients wait for those that are idle: [^\n]*Too many open files %(%d+ connections%)\n$", log)
  end)
end)
