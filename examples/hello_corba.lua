-- A CORBA object and its client, in two processes that share nothing but a reference.
--   mare run examples/hello_corba.lua                     both, each in a process of its own
--   mare run examples/hello_corba.lua serve               the object, until Ctrl-C; its reference is printed
--   mare run examples/hello_corba.lua call REFERENCE      a client, for this object or one that another ORB serves
-- Options such as -ORBendPoint giop:tcp::2809 are omniORB's. Any program that speaks IIOP can take part: see docs/orb.md.
-- test:
-- expect: hello, world
-- expect: hello, again; that was call 2
-- expect: Greeter::Rude: name = "nobody"
-- expect: 2 greetings
local mare = require "mare"
local orb = require "mare.orb"

local idl = [[
  module Greeter {
    exception Rude { string name; };
    interface Hello {
      readonly attribute long count;
      string say(in string who) raises (Rude);
      string repeat_to(in string who, out long calls) raises (Rude);
    };
  };
]]

-- A servant is a table: its functions are the operations, its fields the attributes.
local function new_hello(broker)
  local hello = { count = 0 }
  function hello:say(who)
    if who == "nobody" then error(broker.types.Greeter.Rude { name = who }) end
    self.count = self.count + 1
    return "hello, " .. who
  end
  function hello:repeat_to(who)
    return self:say(who), self.count
  end
  return hello
end

local function serve(options)
  local broker = orb.init(options)
  broker:load(idl)
  return broker, broker:serve(new_hello(broker), "Greeter::Hello", { key = "hello" })
end

-- `reference`: a text, or a proxy that came through a channel.
local function call(reference, options)
  local broker <close> = orb.init(options)
  broker:load(idl)
  local hello = broker:proxy(reference, "Greeter::Hello")
  print(hello:say("world"))
  local text, calls = hello:repeat_to("again")
  print(text .. "; that was call " .. calls)
  local ok, e = pcall(hello.say, hello, "nobody")
  print(ok or e)
  print(hello.count .. " greetings")
end

local options = { args = arg, timeout = 30 }
if arg[1] == "serve" then
  local _, reference = serve(options)
  print(reference)
elseif arg[1] == "call" then
  if not arg[2] then error("call what? Give the reference that `serve` printed, or a corbaloc", 0) end
  call(arg[2], options)
else
  local place, done = mare.channel.new(), mare.channel.new()
  local server = mare.process.spawn(function()
    local broker, reference = serve { host = "127.0.0.1" }
    place:send(reference)
    done:receive()
    broker:shutdown()
  end)
  call(place:receive(), options)
  done:close()
  assert(server:wait())
end
