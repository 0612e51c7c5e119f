-- channels(prefix) -> fresh(async), which makes a channel of luaproc with a name of its own, as names are known in the whole program.
local luaproc = require "luaproc"

return function(prefix)
  local serial = 0
  return function(async)
    serial = serial + 1
    local name = prefix .. serial
    assert(luaproc.newchannel(name, async))
    return name
  end
end
