-- A word index that all workers search: frozen once, in memory once.
--   mare run examples/wordindex.lua [MIB] [WORKERS]     how large the index is to be; how many processes search
--
-- Texts are made up. For each word the index has the documents that contain it, as numbers, and how often it occurs in all. The table is frozen; what
-- travels to the workers is a reference to it. Each worker looks up words and holds what it touched, no more.
-- test: 3 4
-- expect: 4 workers found the same
-- expect: each holds less than a tenth of the index
-- expect: a word that nobody wrote: nil
local mare = require "mare"
local freeze, process = mare.freeze, mare.process

local mib, workers = tonumber(arg[1]) or 100, tonumber(arg[2]) or 8
local talkative = not arg[1] or mib > 10
local function say(...) if talkative then print(string.format(...)) end end

-- Word number i; frequent ones are short.
local function word(i)
  local letters = {}
  repeat
    letters[#letters + 1] = string.char(97 + i % 26)
    i = i // 26
  until i == 0
  return table.concat(letters)
end

-- An index of about that many bytes once it is frozen.
local function build(bytes)
  local index, state, document = {}, 42, 0
  local function random(n)
    state = (state * 6364136223846793005 + 1442695040888963407) & math.maxinteger
    return (state >> 20) % n
  end
  local entries, most = 0, bytes // 9
  while entries < most do
    document = document + 1
    for _ = 1, 100 do
      local w = word(random(1 << (1 + random(20))))
      local found = index[w]
      if not found then
        found = { count = 0, documents = {} }
        index[w] = found
        entries = entries + 20
      end
      found.count = found.count + 1
      if found.documents[#found.documents] ~= document then
        found.documents[#found.documents + 1] = document
        entries = entries + 1
      end
    end
  end
  return index
end

local start = mare.clock()
local index = build(mib << 20)
local built = mare.clock()
local plain = process.memory()
local frozen = freeze(index)
local done = mare.clock()
index = nil                                    -- luacheck: ignore 311
collectgarbage()
local size = freeze.size(frozen)
say("built in %.1f s: %.1f MiB as a table; frozen in %.2f s: %.1f MiB", built - start, plain / 2 ^ 20, done - built, size / 2 ^ 20)

-- Looks up so many words, and says how often they occur, in how many documents at most, and what this process holds.
local function search(index, n)                -- luacheck: ignore 431
  local sum, most = 0, 0
  for i = 1, n do
    local found = index[word(i)]
    if found then
      sum = sum + found.count
      most = math.max(most, #found.documents)
    end
  end
  collectgarbage()
  return sum, most, require("mare.process").memory()
end

local searching = {}
for i = 1, workers do searching[i] = process.spawn(search, frozen, 20000) end
local first, same, held = nil, 0, 0
for i = 1, workers do
  local _, sum, most, memory = assert(searching[i]:wait())
  first = first or sum
  if sum == first and most > 0 then same = same + 1 end
  held = math.max(held, memory)
  say("worker %d: %d occurrences, %.2f MiB of its own", i, sum, memory / 2 ^ 20)
end
if not talkative then
  print(("%d workers found the same"):format(same))
  print(held < size / 10 and "each holds less than a tenth of the index" or "one holds " .. held .. " of " .. size)
  print("a word that nobody wrote: " .. tostring(frozen["not a word"]))
end
