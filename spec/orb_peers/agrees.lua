-- agrees(concerns): tests that pairs of ORBs (spec/orb_peers/pairs.lua) do what the published page says of them; of those that concerns(pair) names.
local foreign = require "spec.support.foreign"
local matrix = require "spec.orb_peers.matrix"
local runner = require "spec.orb_peers.pairs"

local marks = { ok = "yes", FAIL = "no", skip = "–" }

local function name_of(pair)
  return pair.id .. (pair.serve and ", closing idle connections" or "") .. (pair.options and " " .. table.concat(pair.options, " ") or "")
end

-- The rows in which a pair that has run differs from the page.
local function differences(pair, cells)
  local wrong = {}
  for _, row in ipairs(runner.run(pair)) do
    local published = cells[row[1]] and cells[row[1]][pair.id]
    if published ~= marks[row[2]] then
      wrong[#wrong + 1] = ("%s: %s, published: %s. %s"):format(row[1], marks[row[2]], tostring(published), row[3] or "")
    end
    wrong.seen = true
  end
  assert.is_true(wrong.seen)
  return table.concat(wrong, "\n")
end

return function(concerns)
  describe("the published matrix agrees with", function()
    local page = matrix.read()
    for _, pair in ipairs(runner.list) do
      if concerns(pair) then
        it(name_of(pair), function()
          local missing = runner.missing(pair.client) or runner.missing(pair.server)
          if missing then return foreign.skip(missing) end
          assert.equal("", differences(pair, page[pair.table]))
        end)
      end
    end
  end)
end
