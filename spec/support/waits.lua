-- luacheck: ignore 211 411
-- Waits in all sorts of places; each never ends by itself. Functions for processes.
return {
  sleep = function() require "mare".sleep(math.huge) end,
  ["sleep with a time"] = function() require "mare".sleep(3600) end,
  receive = function() require "mare".channel.new():receive() end,
  send = function() require "mare".channel.new():send(1) end,
  ["send of a long string"] = function() require "mare".channel.new():send(("x"):rep(100000)) end,
  ["select"] = function()
    local mare = require "mare"
    mare.select { mare.channel.new(), mare.channel.new():sending({}), mare.timer.after(3600) }
  end,
  selector = function()
    local mare = require "mare"
    mare.selector { mare.channel.new(), mare.timer.after(3600) }:wait()
  end,
  timer = function() require "mare".timer.after(3600):wait() end,
  ["end of a process"] = function()
    local mare = require "mare"
    mare.process.spawn { main = mare.sleep, args = { 3600 }, owned = true }:wait()
  end,
  ["end of a fiber"] = function() require "mare".fiber.spawn(require "mare".sleep, 3600):wait() end,
  accept = function() assert(require "mare.net".listen "127.0.0.1:0"):accept() end,
  read = function()
    local net = require "mare.net"
    local server = assert(net.listen "127.0.0.1:0")
    local a, b = assert(net.connect(server:address())), assert(server:accept(20))
    b:read(1)
  end,
  write = function()
    local net = require "mare.net"
    local server = assert(net.listen "127.0.0.1:0")
    local a, b = assert(net.connect(server:address())), assert(server:accept(20))
    while b:write(("x"):rep(100000)) do end
  end,
  subprocess = function() require "mare.subprocess".run { "sleep", "3600" } end,
  ["in a coroutine"] = function() coroutine.wrap(function() require "mare".sleep(3600) end)() end,
  ["in a coroutine in a comparator"] = function()
    table.sort({ 3, 2, 1 }, function() coroutine.wrap(function() require "mare".sleep(3600) end)() end)
  end,
}
