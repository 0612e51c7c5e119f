-- Strings above all: joining, splitting, formatting, replacing, keys, buffers; lengths from 1 byte to some KiB.
local scale = tonumber((...)) or 1

local function words(n)
  local seen, list = {}, {}
  for i = 1, n do
    local w = "word" .. (i * 7919 % 30011)
    seen[w] = (seen[w] or 0) + 1
    list[i % 5000 + 1] = w .. ":" .. i
  end
  return #table.concat(list, ",") + (seen.word0 or 0)
end

local function split(n)
  local line = ("field one,2,three and more,4.5,,six"):rep(4, ";")
  local c = 0
  for _ = 1, n do
    for part in line:gmatch("[^,;]+") do c = c + #part end
  end
  return c
end

local function lines(n)
  local out = {}
  for i = 1, n do
    out[#out + 1] = string.format("%05d %-20s %8.3f %s", i, "name" .. i, i / 3, ("x"):rep(i % 90))
    if #out == 2000 then out = { #table.concat(out, "\n") .. "" } end
  end
  return #out
end

local function replace(n)
  local text = ("the quick brown fox jumps over the lazy dog. "):rep(30)
  local c = 0
  for i = 1, n do
    local s = text:gsub("%w+", { quick = "slow" .. i, fox = "cat", lazy = "eager" })
    c = c + #s + #s:upper():sub(i % 100 + 1, -i % 100 - 1)
  end
  return c
end

local function pieces(n)
  local s, keep = "", {}
  for i = 1, n do
    s = s .. string.char(i % 26 + 97)
    if #s == 300 then
      keep[i % 700 + 1] = s:reverse()
      s = ""
    end
  end
  return #keep
end

local total = 0
for _ = 1, math.max(1, 2 * scale // 1) do
  total = total + words(300000) + split(12000) + lines(60000) + replace(700) + pieces(400000)
end
return total
