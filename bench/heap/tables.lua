-- Tables above all: records, arrays that grow, trees, a graph, closures; part of them lives on, most die young.
local scale = tonumber((...)) or 1

local function records(n)
  local live = {}
  for i = 1, n do
    local r = { id = i, name = "r", x = i * 0.5, tags = { i, i + 1, i + 2 } }
    live[i % 20000 + 1] = r
  end
  local sum = 0
  for _, r in ipairs(live) do sum = sum + r.x + r.tags[2] end
  return sum
end

local function tree(depth)
  if depth == 0 then return {} end
  return { left = tree(depth - 1), right = tree(depth - 1) }
end

local function count(t) return t.left and 1 + count(t.left) + count(t.right) or 1 end

local function trees(n)
  local sum, long = 0, tree(15)
  for _ = 1, n do sum = sum + count(tree(10)) end
  return sum + count(long)
end

local function arrays(n)
  local keep = {}
  for i = 1, n do
    local a = {}
    for j = 1, i % 200 do a[j] = j end
    keep[i % 500 + 1] = a
  end
  return #keep
end

local function queue(n)
  local q, first, last, sum = {}, 1, 0, 0
  for i = 1, n do
    last = last + 1
    q[last] = { i }
    if i % 3 ~= 0 then
      sum = sum + q[first][1]
      q[first] = nil
      first = first + 1
    end
  end
  return sum
end

local function closures(n)
  local fs = {}
  for i = 1, n do
    local up = i
    fs[i % 1000 + 1] = function() up = up + 1; return up end
  end
  return fs[7]()
end

local function graph(n)
  local nodes = {}
  for i = 1, n do nodes[i] = { edges = {}, i = i } end
  for i = 1, n do
    for d = 1, 4 do nodes[i].edges[nodes[(i * d * 7) % n + 1]] = d end
  end
  local sum = 0
  for _, v in ipairs(nodes) do for to, d in pairs(v.edges) do sum = sum + to.i * d end end
  return sum
end

local total = 0
for _ = 1, math.max(1, 2 * scale // 1) do
  total = total + records(250000) + trees(120) + arrays(8000) + queue(200000) + closures(200000) + graph(20000)
end
return total
