-- Counts the words of a file on all cores: workers read pieces of it, cut at line ends; what they have counted is added up.
--   mare run examples/wordcount.lua [FILE [HOW MANY]]
-- test: LICENSE 3
-- expect: the	8
-- expect: OR	7
-- expect: to	7
local parallel = require "mare".parallel

local path, wanted = arg[1] or arg[0], tonumber(arg[2] or 10)

local counts = parallel.reduce(parallel.lines(path), {
  start = function() return {} end,
  step = function(sum, line)
    for word in line:gmatch "%a+" do sum[word] = (sum[word] or 0) + 1 end
    return sum
  end,
  merge = function(a, b)
    for word, n in pairs(b) do a[word] = (a[word] or 0) + n end
    return a
  end,
})

local words = {}
for word in pairs(counts) do words[#words + 1] = word end
table.sort(words, function(a, b) return counts[a] > counts[b] or counts[a] == counts[b] and a < b end)
for i = 1, math.min(wanted, #words) do print(words[i], counts[words[i]]) end
