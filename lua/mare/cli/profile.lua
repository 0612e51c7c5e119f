-- mare profile: what a profile says, as a table in the terminal.
local json = require "mare.base.json"
local pprof = require "mare.cli.pprof"
local unknown = require "mare.cli.unknown"

local usage = [==[
  mare profile show work.pb.gz    the functions that cost most

usage: mare profile show [options] FILE

FILE is what 'mare run --profile' or 'mare run --heap-profile' has written. For each function: what was spent in it ("self"), and in it
and everything that it has called ("total"). Samples are estimates: what was seen once or twice says little.

Options are:
  -n N           shows N functions (default 20)
  --lines        one row for each line that ran, not for each function
  --value NAME   for a heap profile: alloc_objects, alloc_space (default), inuse_objects, inuse_space
  --process      one row for each process
  --json         prints one JSON object per row
  --help         shows this

Exit codes: 0, 1 if FILE can't be read, 2 for a mistake on the command line.
]==]

-- ---- numbers for people ----

local scales = {
  nanoseconds = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" }, { 1, "ns" } },
  bytes = { { 1 << 30, "GiB" }, { 1 << 20, "MiB" }, { 1 << 10, "KiB" }, { 1, "B" } },
}

local function amount(value, unit)
  for _, scale in ipairs(scales[unit] or {}) do
    if value >= scale[1] then return (scale[1] == 1 and "%.0f %s" or "%.1f %s"):format(value / scale[1], scale[2]) end
  end
  return ("%d%s"):format(value, value == 0 and scales[unit] and " " .. scales[unit][#scales[unit]][2] or "")
end

local function percent(value, all) return ("%.1f"):format(all > 0 and 100 * value / all or 0) end

-- ---- adding up ----

local function key_of(call, options)
  if options.lines and call.line > 0 then return ("%s, line %d"):format(call.name, call.line) end
  return call.name
end

-- Rows { name, self, total }, the most expensive first; and the sum of all.
local function rows_of(profile, which, options)
  local rows, by_name, all = {}, {}, 0
  local function row(name)
    if not by_name[name] then
      by_name[name] = { name = name, self = 0, total = 0 }
      rows[#rows + 1] = by_name[name]
    end
    return by_name[name]
  end
  for _, s in ipairs(profile.samples) do
    local value, seen = s.values[which] or 0, {}
    all = all + value
    for i = options.process and #s.calls or 1, #s.calls do
      local r = row(key_of(s.calls[i], options))
      if i == 1 or options.process then r.self = r.self + value end
      if not seen[r] then r.total, seen[r] = r.total + value, true end
    end
  end
  table.sort(rows, function(a, b)
    if a.self ~= b.self then return a.self > b.self end
    if a.total ~= b.total then return a.total > b.total end
    return a.name < b.name
  end)
  return rows, all
end

-- ---- showing ----

local function as_json(rows, all, what)
  for _, r in ipairs(rows) do
    io.stdout:write(json.text { name = r.name, self = r.self, total = r.total, all = all, type = what.type, unit = what.unit }, "\n")
  end
end

local function as_table(rows, all, what, profile)
  local took = profile.duration > 0 and (" in %.1f s"):format(profile.duration / 1e9) or ""
  io.stdout:write(("%s: %s%s\n"):format(what.type, amount(all, what.unit), took))
  io.stdout:write(("%12s %6s %12s %6s  %s\n"):format("self", "%", "total", "%", "function"))
  for _, r in ipairs(rows) do
    io.stdout:write(("%12s %6s %12s %6s  %s\n"):format(amount(r.self, what.unit), percent(r.self, all), amount(r.total, what.unit),
      percent(r.total, all), r.name))
  end
end

local function which_value(profile, name)
  if not name then return profile.default end
  local names = {}
  for i, t in ipairs(profile.types) do
    if t.type == name then return i end
    names[i] = t.type
  end
  return nil, ("there is no value '%s' in it; there are %s"):format(name, table.concat(names, ", "))
end

local function read(name)
  local file, err = io.open(name, "rb")
  if not file then return nil, err end
  local bytes
  bytes, err = file:read("a")
  file:close()
  if not bytes then return nil, ("%s: %s"):format(name, err) end
  if bytes == "" then return nil, ("%s: empty: its program still runs, or was killed"):format(name) end
  local profile
  profile, err = pprof.decode(bytes)
  if not profile then return nil, ("%s: %s"):format(name, err) end
  return profile
end

local function show(name, options)
  local profile, err = read(name)
  local which
  if profile then which, err = which_value(profile, options.value) end
  if not which then
    io.stderr:write("mare profile: ", err, "\n")
    return 1
  end
  local rows, all = rows_of(profile, which, options)
  for i = #rows, options.n + 1, -1 do rows[i] = nil end
  if options.json then as_json(rows, all, profile.types[which]) else as_table(rows, all, profile.types[which], profile) end
  return 0
end

-- ---- the command line ----

local long = { "--lines", "--value", "--process", "--json", "--help" }

local function options_of(words)
  local options, list, i = { n = 20 }, {}, 1
  while words[i] do
    local word = words[i]
    if word:sub(1, 1) ~= "-" then list[#list + 1] = word
    elseif word == "--lines" or word == "--process" or word == "--json" or word == "--help" then options[word:sub(3)] = true
    elseif word == "-h" then options.help = true
    elseif word == "--value" or word == "-n" then
      i = i + 1
      if not words[i] then return nil, ("'%s' needs argument"):format(word) end
      options[word:match("%a+")] = words[i]
    else
      return nil, unknown.option(word, long)
    end
    i = i + 1
  end
  if options.help then return options, list end
  if not list[1] then return nil, "no command" end
  if list[1] ~= "show" then return nil, unknown.command(list[1], { "show" }) end
  if #list ~= 2 then return nil, #list < 2 and "no file" or "one file only" end
  options.n = math.tointeger(tonumber(options.n))
  if not options.n or options.n < 1 then return nil, "-n needs a number of at least 1" end
  return options, list
end

return function(...)
  local options, list = options_of { ... }
  if not options then return unknown.mistake("profile", usage, list) end
  if options.help then
    io.stdout:write(usage)
    return 0
  end
  return show(list[2], options)
end
