-- mare with omniORB and JacORB over TLS, as client and as server, with certificates on both sides: what passes without TLS passes with it.
-- runs under: mare
-- runs alone
local matrix = require "spec.orb_peers.matrix"
local proc = require "spec.support.proc"
local runner = require "spec.orb_peers.pairs"

local marks = { ok = "yes", FAIL = "no", skip = "–" }
local tls
setup(function() tls = require "spec.orb_peers.tls".new() end)
teardown(function() tls:remove() end)

-- Under sanitizers only what concerns them: mare's own halves with the nearest peer.
local function concerns(pair)
  return pair.table == 1 and not pair.control and (proc.config == "plain" or not pair.id:find "JacORB")
end

describe("over TLS passes what passes without it:", function()
  local page = matrix.read()[1]
  for _, pair in ipairs(runner.list) do
    if concerns(pair) then
      it(pair.id, function()
        local missing = runner.missing(pair.client) or runner.missing(pair.server)
        if missing then return pending(missing) end
        local rows = runner.run { id = pair.id, client = pair.client, server = pair.server, tls = tls }
        assert.is_true(#rows > 100)
        local wrong = {}
        for _, row in ipairs(rows) do
          local published = page[row[1]] and page[row[1]][pair.id]
          if published ~= marks[row[2]] then wrong[#wrong + 1] = ("%s: %s. %s"):format(row[1], marks[row[2]], row[3] or "") end
        end
        assert.equal("", table.concat(wrong, "\n"))
      end)
    end
  end
end)
