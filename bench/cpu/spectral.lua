-- Float arithmetic on arrays: the largest singular value of an infinite matrix, cut to 60 × 60.
local timed = require "timed"

local function entry(i, j)
  local k = i + j - 1
  return 1.0 / (k * (k - 1) * 0.5 + i)
end

local function times(n, from, to, transposed)
  for i = 1, n do
    local sum = 0
    for j = 1, n do
      sum = sum + (transposed and entry(j, i) or entry(i, j)) * from[j]
    end
    to[i] = sum
  end
end

timed(function()
  local n, u, v, w = 60, {}, {}, {}
  for i = 1, n do u[i] = 1 end
  for _ = 1, 4 do
    times(n, u, w) times(n, w, v, true)
    times(n, v, w) times(n, w, u, true)
  end
  local uv, vv = 0, 0
  for i = 1, n do
    uv, vv = uv + u[i] * v[i], vv + v[i] * v[i]
  end
  assert(math.abs(math.sqrt(uv / vv) - 1.2742) < 0.001)
end)
