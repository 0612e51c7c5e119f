-- Strings of 100 KB and 1 MiB made and dropped all the time, eight of each alive; tables and buffers that grow large.
local scale = tonumber((...)) or 1
local ring, total = {}, 0
local a, b = ("a"):rep(50000), ("b"):rep(1 << 19)
for i = 1, math.max(1, 30000 * scale // 1) do
  ring[i % 8 + 1] = a .. i .. a
  if i % 10 == 0 then ring[i % 8 + 9] = b .. i .. b end
  total = total + #ring[i % 8 + 1]
end
for _ = 1, math.max(1, 30 * scale // 1) do
  local t = {}
  for i = 1, 300000 do t[i] = i end
  total = total + #t
end
return total
