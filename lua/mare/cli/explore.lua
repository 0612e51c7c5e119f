-- explore: searches for a schedule under which a test fails, and makes it short. See src/module/explore.c, which gives `native`; runs in no process.
--
--   exit code = explore(native, options)
--
-- options: runs, from (the first seed), timeout, json, script, arg, program, options: the words between "explore" and the script.
--
-- A run's *outcome* is how it ended, in a word or two ("exit code 1", "deadlock"). Seeds are tried in order, as many at a time as there are slots;
-- the first seed that fails is the smallest one, whichever run was over first. Its run has left a list of its deviations from the default schedule.
-- Those that are not needed are found by trying: halves, quarters and so on are left out as long as the outcome is the same (delta debugging).
local native, options = ...
-- What can't be loaded is no schedule's fault. Here nothing of the search runs yet, and no run sees what this does to the memory.
if options.script ~= "" then
  local loaded, problem = loadfile(options.script)
  if not loaded then
    io.stderr:write("mare: ", problem, "\n")
    return 2
  end
end
local runs, first, timeout = options.runs or 1000, math.tointeger(tonumber(options.from or "1")), options.timeout or 10
local shown = native.terminal "err" and not options.json
local colours = native.terminal "out" and not os.getenv "NO_COLOR"
local MOST_TRIES = 5000               -- runs to shorten one schedule

local function bold(text) return colours and "\27[1m" .. text .. "\27[0m" or text end

-- ---- runs ----

local running = {}                    -- slot -> { since =, … }
local slow = 20                       -- times its limit of CPU time that a run may take by the clock

local function start(slot, schedule, keep)
  running[slot] = { since = native.now() }
  native.run(slot, schedule, keep or false)
end

local function stop_late()
  for slot, r in pairs(running) do
    if not r.late and (native.cpu(slot) > timeout or native.now() - r.since > slow * timeout) then
      r.late = true
      native.kill(slot)
    end
  end
end

-- Waits for one: its slot and outcome; nil: it went well.
local function finish()
  while true do
    local slot, how, code = native.wait(50)
    if slot then
      local late = running[slot].late
      running[slot] = nil
      if late then return slot, "time limit" end
      if how == "exit" and code == 0 then return slot end
      return slot, how == "deadlock" and how or how == "exit" and "exit code " .. code or how .. " " .. code
    end
    stop_late()
  end
end

local function try(schedule, keep)
  start(1, schedule, keep)
  return select(2, finish())
end

-- ---- the search ----

local function progress(done)
  if not shown then return end
  io.stderr:write(("\r%d of %d runs"):format(done, runs))
  io.stderr:flush()
end

local function clear() if shown then io.stderr:write "\r\27[K" end end

-- The smallest seed that fails, its number, its outcome, its list (nil: too long), points; nil, how many were tried: none does.
local function search()
  local next_run, done, found, shown_at = 0, 0, nil, 0
  local of = {}                       -- slot -> number of its run
  local function more(slot)
    if next_run >= runs or found then return end
    of[slot] = next_run
    start(slot, tostring(first + next_run))
    next_run = next_run + 1
  end
  for slot = 1, native.slots do more(slot) end
  while next(running) do
    local slot, outcome = finish()
    done = done + 1
    if outcome and (not found or of[slot] < found.number) then
      found = { number = of[slot], outcome = outcome }
      found.list, found.points = native.record(slot)
    end
    if native.now() - shown_at > 0.1 then
      progress(done)
      shown_at = native.now()
    end
    more(slot)
  end
  clear()
  return found, done
end

-- ---- making it short ----

local function schedule_of(seed, list) return seed .. ":" .. table.concat(list, ",") end

local function without(list, from, to)
  local rest = table.move(list, 1, from - 1, 1, {})
  return table.move(list, to + 1, #list, #rest + 1, rest)
end

-- Without those by which reads and writes are cut: a switch is easier to follow.
local function uncut(list)
  local rest = {}
  for _, choice in ipairs(list) do
    if not choice:find("~", 1, true) then rest[#rest + 1] = choice end
  end
  return rest
end

-- As few of list's as give the same outcome, as far as leaving out neighbours finds it; and how many runs that took.
local function shorten(seed, list, outcome)
  local tries = 0
  local function fails(l)
    tries = tries + 1
    if tries % 20 == 0 and shown then io.stderr:write(("\rshortening: %d choices left"):format(#list)) end
    return try(schedule_of(seed, l)) == outcome
  end
  if not fails(list) then return nil, tries end
  if fails {} then return {}, tries end
  local whole = uncut(list)
  if #whole < #list and fails(whole) then list = whole end
  local size = #list // 2
  while size >= 1 and tries < MOST_TRIES do
    local at, shorter = 1, false
    while at <= #list and tries < MOST_TRIES do
      local rest = without(list, at, math.min(at + size - 1, #list))
      if #rest < #list and fails(rest) then
        list, shorter = rest, true
      else
        at = at + size
      end
    end
    -- at the end once more, until nothing alone can be left out
    if size > 1 then size = math.min(size // 2, math.max(1, #list // 2)) elseif not shorter then break end
  end
  clear()
  return list, tries
end

-- One choice instead of several: who was interrupted once may as well have been interrupted a little earlier or later.
local function by_one(seed, list, outcome)
  local units, last, tries = {}, 0, 0
  for _, choice in ipairs(list) do
    local unit, point, value = choice:match "^(%d+)%.(%d+)=(%d+)$"
    if unit then
      units[#units + 1], units[#units + 2] = unit, value
      last = math.max(last, tonumber(point))
    end
  end
  local seen = {}
  for point = 1, math.min(last + 3, 40) do
    for _, unit in ipairs(units) do
      for _, value in ipairs(units) do
        local choice = ("%s.%d=%s"):format(unit, point, value)
        if unit ~= value and not seen[choice] and tries < 400 then
          seen[choice], tries = true, tries + 1
          if try(schedule_of(seed, { choice })) == outcome then return { choice }, tries end
        end
      end
    end
  end
  return list, tries
end

-- ---- what is printed ----

local function quote(word)
  if word:find "^[%w_./:=,+@%%-][%w_./:=,+@%%~-]*$" then return word end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

-- Options of explore alone, which are not mare run's.
local own = { ["--runs"] = true, ["--seed"] = true, ["--timeout"] = true, ["--jobs"] = true }

local function command_for(schedule)
  local words = { options.program, "run", "--strict", "--seed", schedule }
  local skip = false
  for _, word in ipairs(options.options) do
    local name = word:match "^[^=]*"
    if skip then
      skip = false
    elseif own[name] then
      skip = #name == #word
    elseif word ~= "--json" then
      words[#words + 1] = word
    end
  end
  words[#words + 1] = options.script == "" and "-" or options.script
  table.move(options.arg, 1, #options.arg, #words + 1, words)
  for i, word in ipairs(words) do words[i] = quote(word) end
  return table.concat(words, " ")
end

-- place: "receive at file:line", or ""
local function explained(choice, place)
  local unit, point, kind, value = choice:match "^(%d+)%.(%d+)(.)(%d+)$"
  if unit == "0" then return ("  %-10s at first process %s goes on"):format(choice, value) end
  local after = ("point %s of process %s%s"):format(point, unit, place and place ~= "" and " (" .. place .. ")" or "")
  if kind == "~" then
    return ("  %-10s at %s, %s through, the rest later"):format(choice, after, value == "1" and "1 byte goes" or value .. " bytes go")
  end
  if kind == "+" then return ("  %-10s at %s, select begins with case %d"):format(choice, after, value + 1) end
  return ("  %-10s after %s, process %s goes on"):format(choice, after, value)
end

local function json_text(text)
  return '"' .. text:gsub('[%c"\\\127-\255]', function(c)
    if c:byte() > 126 then return nil end
    return ("\\u%04x"):format(c:byte())
  end) .. '"'
end

local function print_json(fields)
  local parts = {}
  for i = 1, #fields, 2 do
    local value = fields[i + 1]
    if type(value) == "string" then value = json_text(utf8.len(value) and value or value:gsub("[\128-\255]", "?")) end
    parts[#parts + 1] = json_text(fields[i]) .. ":" .. tostring(value)
  end
  print("{" .. table.concat(parts, ",") .. "}")
end

local function indented(text)
  if text == "" then return "  (nothing)\n" end
  if text:sub(-1) ~= "\n" then text = text .. "\n" end
  return (text:gsub("[^\n]*\n", "  %0"))
end

local begun = native.now()
local found, done = search()
local seconds = native.now() - begun
if not found then
  if options.json then
    print_json { "failed", false, "runs", done, "seconds", math.floor(seconds * 1000 + 0.5) / 1000 }
  else
    print(("%d runs, none failed (%.0f a second)"):format(done, done / math.max(seconds, 1e-9)))
  end
  return 0
end

local seed = tostring(first + found.number)
local list, tries = found.list, 0
if list then list, tries = shorten(seed, list, found.outcome) end
if list and #list > 1 and #list < 5 then
  local more
  list, more = by_one(seed, list, found.outcome)
  tries = tries + more
end
local schedule = list and schedule_of(seed, list) or seed
local outcome = try(schedule, true)
local output = native.output(1)
local command = command_for(schedule)

if options.json then
  print_json { "failed", true, "runs", done,
               "seconds", math.floor(seconds * 1000 + 0.5) / 1000, "seed", first + found.number, "outcome", outcome or "exit code 0",
               "schedule", schedule, "choices", list and #list or -1, "made", found.list and #found.list or -1, "tries", tries, "output", output,
               "command", command }
  return 1
end
print(bold(("seed %s failed: %s"):format(seed, found.outcome)) .. (" (run %d of %d)"):format(found.number + 1, runs))
if not list then
  print "its choices could not be shortened"
else
  print(("choices that differ from the default: %d, shortened to %d in %d runs%s"):format(#found.list, #list, tries, #list > 0 and ":" or ""))
  -- as they came; what it did not come to (a list may name more than there is) stays out
  local made, places = native.record(1), native.places(1)
  for i, choice in ipairs(made) do print(explained(choice, places[i])) end
end
print(bold "what it writes:")
io.write(indented(output))
print(bold "once more: " .. command)
return 1
