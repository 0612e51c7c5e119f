-- mare.orb.near: which of these names was meant? For messages only.

-- Edits between two short words, of which exchanging two neighbours is one; beyond `most` it doesn't matter how many.
local function distance(a, b, most)
  if math.abs(#a - #b) > most then return most + 1 end
  local before, above
  local row = {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    before, above, row = above, row, { [0] = i }
    for j = 1, #b do
      local d = a:byte(i) == b:byte(j) and above[j - 1] or above[j - 1] + 1
      if before and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then d = math.min(d, before[j - 2] + 1) end
      row[j] = math.min(d, above[j] + 1, row[j - 1] + 1)
    end
  end
  return row[#b]
end

--- near(name, names) -> "'say', 'stay'" or nil: at most three of the list, the nearest first. Case doesn't count.
return function(name, names)
  local found, low = {}, name:lower()
  local most = #name <= 3 and 1 or math.max(2, #name // 4)
  for _, candidate in ipairs(names) do
    local other = candidate:lower()
    local d = distance(low, other, most)
    if d > most and #low >= 4 and (other:find(low, 1, true) or low:find(other, 1, true)) then d = most end
    if d <= most then found[#found + 1] = { name = candidate, distance = d } end
  end
  table.sort(found, function(a, b)
    if a.distance ~= b.distance then return a.distance < b.distance end
    return a.name < b.name
  end)
  local words = {}
  for i = 1, math.min(3, #found) do words[i] = "'" .. found[i].name .. "'" end
  return #words > 0 and table.concat(words, ", ") or nil
end
