-- serving: what specs of the server share: an interface, a servant, and a broker that serves for as long as a function runs.
--
--   local serving = require "spec.support.serving"
--   serving.with(servant | nil, options | nil, function(broker, port, log) … end)      the servant is the object "echo" at that port
--   serving.echo                                                a servant of serving.IDL's Spec::Echo
--   serving.system(c, "say", "echo", body)                      what an IIOP client (iiop.lua) gets: { "NAME", minor, completed }
--   serving.eventually(function() return … end, "what")         waits until it is true
local mare = require "mare"
local orb = require "mare.orb"
local giop = require "spec.support.iiop"
local proc = require "spec.support.proc"

local serving = {}

serving.IDL = [[
  module Spec {
    exception Refused { string why; long code; };
    exception Other {};
    interface Echo {
      string say(in string who);
      void nothing();
      long add(in long a, in long b);
      void refuse(in string why) raises (Refused);
      long wait(in long n);
      oneway void note(in string text);
    };
  };
]]

serving.echo = {
  say = function(_, who) return "hello, " .. who end,
  nothing = function() end,
  add = function(_, a, b) return a + b end,
}

-- What it has logged is printed if f fails.
function serving.with(servant, options, f)
  local log = {}
  options = options or {}
  options.host, options.log = options.host or "127.0.0.1", function(level, text) log[#log + 1] = level .. ": " .. text end
  local broker = orb.init(options)
  broker:load(serving.IDL)
  broker:serve(servant or {}, "Spec::Echo", { key = "echo" })
  local results = table.pack(pcall(f, broker, broker.server.opened[1].port, log))
  broker:shutdown(10 * proc.slow)
  if not results[1] then
    if #log > 0 then print(table.concat(log, "\n")) end
    error(results[2], 0)
  end
  return table.unpack(results, 2, results.n)
end

function serving.system(c, ...) return { giop.system(c:call(...)) } end

-- It fails after a time that only a defect needs.
function serving.eventually(f, what)
  local deadline = mare.clock() + 30 * proc.slow
  while not f() do
    assert(mare.clock() < deadline, "it never came to be: " .. what)
    mare.sleep(0.002)
  end
end

return serving
