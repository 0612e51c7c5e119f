-- mare with omniORB and JacORB over TLS, as client and as server, with certificates on both sides: what passes without TLS passes with it.
-- runs under: mare
-- runs alone
-- needs: plain
local foreign = require "spec.support.foreign"
local matrix = require "spec.orb_peers.matrix"
local runner = require "spec.orb_peers.pairs"

local marks = { ok = "yes", FAIL = "no", skip = "–" }
local tls
setup(function() tls = require "spec.orb_peers.tls".new() end)
teardown(function() tls:remove() end)

local function concerns(pair) return pair.table == 1 and not pair.control and not pair.id:find "GlassFish" end

local page = matrix.read()[1]

-- A pair that has run: what differs from the published page.
local function differences(pair, rows)
  local wrong = {}
  for _, row in ipairs(rows) do
    local published = page[row[1]] and page[row[1]][pair.id]
    if published ~= marks[row[2]] then wrong[#wrong + 1] = ("%s: %s. %s"):format(row[1], marks[row[2]], row[3] or "") end
  end
  return table.concat(wrong, "\n")
end

describe("over TLS passes what passes without it:", function()
  for _, pair in ipairs(runner.list) do
    if concerns(pair) then
      it(pair.id, function()
        local missing = runner.missing(pair.client) or runner.missing(pair.server)
        if missing then return foreign.skip(missing) end
        local rows = runner.run { id = pair.id, client = pair.client, server = pair.server, tls = tls }
        assert.is_true(#rows > 100)
        assert.equal("", differences(pair, rows))
      end)
    end
  end
end)

describe("a name and a password", function()
  it("let JacORB in, which says them once a connection", function()
    local missing = runner.missing "JacORB"
    if missing then return foreign.skip(missing) end
    local pair = { id = "JacORB → mare", client = "JacORB", server = "mare", tls = tls, serve = { "user=ann" }, options = { "user=ann" } }
    local rows = runner.run(pair)
    assert.is_true(#rows > 100)
    assert.equal("", differences(pair, rows))
    pair.options = { "user=bob", "only=void" }
    for _, row in ipairs(runner.run(pair)) do assert.is_not.equal("ok", row[2], row[1]) end
  end)
end)
