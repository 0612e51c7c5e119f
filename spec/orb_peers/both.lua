-- What bidir.idl says, over mare: for spec/orb_bidir_peers_spec.lua.
--
--   both.talker(broker)                 a servant of Both::Talker
--   both.run(broker, reference, n, m)   a Listener that calls the Talker: n fibers, m callbacks each: what came of it, as the other programs print it
local mare = require "mare"
local orb = require "mare.orb"

local both = { idl = "spec/orb_peers/bidir.idl" }

function both.talker()
  local talker, kept = {}, nil
  function talker.talk(_, whom, what) return whom:heard(what) end
  function talker.keep(_, whom) kept = whom end
  function talker.chatter(_, times)
    local good = 0
    for i = 0, times - 1 do
      if kept:heard("word " .. i) == "heard word " .. i then good = good + 1 end
    end
    return good
  end
  function talker.provoke(_, milliseconds)
    local ok, e = pcall(kept.pause, kept:_with { timeout = 0.01 }, milliseconds)
    return ok and "nothing" or orb.exception.is_system(e)
  end
  return talker
end

function both.run(broker, reference, threads, times)
  local heard, good, lines = 0, 0, {}
  local me = { pause = function(_, milliseconds) mare.sleep(milliseconds / 1000) end }
  function me.heard(_, what)
    heard = heard + 1
    return "heard " .. what
  end
  local talker = broker:proxy(reference, "Both::Talker")
  lines[1] = "talk " .. talker:talk(me, "one")
  talker:keep(me)
  local all = {}
  for i = 1, threads do all[i] = talker._async:chatter(times) end
  for _, one in ipairs(all) do
    local ok, n = one:wait()
    if ok then good = good + n else lines[#lines + 1] = "chatter " .. tostring(n) end
  end
  lines[#lines + 1] = ("chatter %d of %d, heard %d"):format(good, threads * times, heard)
  lines[#lines + 1] = "provoke " .. talker:provoke(50)
  return table.concat(lines, "\n") .. "\n"
end

return both
