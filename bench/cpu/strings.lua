-- Strings: building lines, taking them apart, counting words.
local timed = require "timed"

local words = {}
for word in ("the quick brown fox jumps over the lazy dog and runs away from the slow tide"):gmatch("%a+") do
  words[#words + 1] = word
end

timed(function()
  local lines = {}
  for i = 1, 400 do
    lines[i] = ("%05d %s=%s;"):format(i, words[i % #words + 1], words[i * 7 % #words + 1]:upper())
  end
  local text = table.concat(lines, "\n")
  local seen, total = {}, 0
  for key, value in text:gmatch("(%a+)=(%a+);") do
    seen[key] = (seen[key] or 0) + #value
    total = total + 1
  end
  text = text:gsub("%d+", function(digits) return #digits .. digits:reverse() end)
  assert(total == 400 and #text > 400 and seen.fox)
end)
