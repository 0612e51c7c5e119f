--[[
spec.support.oil.server: an ORB of OiL's in a process of its own, for specs.

  local reference <close> = server(function(oil, orb, argument) … return orb:newservant(…) end, argument, config)
  reference.text          the text of what the function gave, a servant, or whatever it has as text
]]
local mare = require "mare"

return function(f, argument, config)
  local place, done = mare.channel.new(), mare.channel.new()
  local process = mare.process.spawn(function()
    local oil = require "oil"
    oil.main(function()
      local given = { host = "127.0.0.1" }
      for name, value in pairs(config or {}) do given[name] = value end
      local orb = oil.init(given)
      local fine, object = pcall(f, oil, orb, argument)
      place:send(fine, tostring(object))
      if not orb.cooperative then
        oil.newthread(function()
          done:receive()
          orb:shutdown()
        end)
        return orb:run()
      end
      done:receive()
      if orb.serving then orb:shutdown() end
    end)
  end)
  local fine, text = place:receive(20)
  if not fine then error(text or "the server does not begin", 2) end
  return setmetatable({ text = text, process = process }, { __close = function()
    done:close()
    process:wait(10)
  end })
end
