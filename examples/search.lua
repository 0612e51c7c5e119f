-- Parallel text search: a master hands out pieces of files, one worker process per CPU counts, the master gathers.
-- test: -w 2 --top 1 plugh-xyzzy examples/search.lua
-- expect:            2  plugh-xyzzy
-- expect:
-- expect: most matches in:
-- expect:            2  examples/search.lua
local mare = require "mare"

local help = [[
mare run examples/search.lua malloc free /usr/include     counts both words in all files below /usr/include

usage: search.lua [OPTION…] PATTERN… PATH…
       search.lua [OPTION…] PATTERN… -- PATH…
       search.lua [OPTION…] -e PATTERN | -f FILE … PATH…

Counts how often each PATTERN, a fixed string, occurs in the files named and in all files below the directories
named: what LC_ALL=C grep -a -F -o PATTERN | wc -l counts, in one go for all patterns and on all CPUs.
Without "--", the last arguments that exist as files or directories are the PATHs; the first is always a PATTERN.

  -e PATTERN          a pattern (again for more); then all other arguments are PATHs
  -f FILE             patterns, one a line
  -w N                worker processes (default: one per CPU allowed)
  --include GLOB      only files whose name matches (again for more): --include '*.h'
  --files0-from FILE  the names of files to search, each ended by a NUL, besides the PATHs
  --top N             also the N files with most matches
  --json              one JSON object
  --help              this text

Exit code: 0 something was found, 1 nothing, 2 an error; files that can't be read are named, skipped and make it 2.
Colour and a progress bar only on a terminal; NO_COLOR turns colour off.]]

local PIECE = 512 * 1024 -- bytes of one task: small enough for balance, large against a message
local MOST_FILES = 256   -- in one task

---------------------------------------------------------------------------------------------------------- the worker

-- How often a pattern occurs, matches not overlapping, from the left. A pattern holds no newline: lines don't matter.
local function count(text, pattern)
  local find, n, stop = string.find, 0, 0
  while true do
    local _, last = find(text, pattern, stop + 1, true)
    if not last then return n end
    n, stop = n + 1, last
  end
end

-- The lines that begin in bytes [from, to) of an open file. Who owns a line is decided by its first byte.
local function read_piece(file, from, to)
  if from > 0 then
    -- skip the rest of a line that began before; a line longer than the piece leaves nothing
    file:seek("set", from - 1)
    local at = from - 1
    while true do
      local block = file:read(math.min(to - at, 65536))
      if not block then return "" end
      local newline = block:find("\n", 1, true)
      at = at + (newline or #block)
      if newline then break end
      if at >= to then return "" end
    end
    if at >= to then return "" end
    file:seek("set", at)
    from = at
  end
  local text = file:read(to - from) or ""
  if text:byte(-1) ~= 10 then text = text .. (file:read("L") or "") end
  return text
end

-- One entry of a task: path, and from, to for a piece of a large file (to = false: the whole file).
local function read(path, from, to)
  local file, message = io.open(path, "rb")
  if not file then return nil, message end
  local text
  if to then text = read_piece(file, from, to) else text, message = file:read("a") end
  file:close()
  return text, message and path .. ": " .. message
end

local function search(task, patterns)
  local answer = { bytes = 0, counts = {}, hits = {}, errors = {} }
  for p = 1, #patterns do answer.counts[p] = 0 end
  for i = 1, #task, 3 do
    local path = task[i]
    local text, message = read(path, task[i + 1], task[i + 2])
    if text then
      local hits = 0
      for p = 1, #patterns do
        local n = count(text, patterns[p])
        answer.counts[p] = answer.counts[p] + n
        hits = hits + n
      end
      answer.bytes = answer.bytes + #text
      if hits > 0 then answer.hits[path] = (answer.hits[path] or 0) + hits end
    else
      answer.errors[path] = message
    end
  end
  return answer
end

local function worker(tasks, answers, patterns)
  for task in tasks:each() do
    local ok, answer = pcall(search, task, patterns)
    answers:send(ok and answer or { failure = tostring(answer) })
  end
end

----------------------------------------------------------------------------------------------------------- arguments

local function fail(message)
  io.stderr:write("search: ", message, "\n")
  os.exit(2)
end

-- ENOENT and ENOTDIR say that there is no such path; one that may not be opened does exist.
local function exists(path)
  local file, _, code = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil or (code ~= 2 and code ~= 20)
end

local function read_lines(name, into)
  local file, message = io.open(name, "rb")
  if not file then fail(message) end
  for line in file:lines() do
    if line ~= "" then into[#into + 1] = line end
  end
  file:close()
end

local function integer(option, text)
  local n = math.tointeger(tonumber(text))
  if not n or n < 1 then fail(option .. " needs a number of 1 or more") end
  return n
end

local take = {} -- options with a value
take["-e"] = function(o, value) o.explicit, o.patterns[#o.patterns + 1] = true, value end
take["-f"] = function(o, value) o.explicit = true read_lines(value, o.patterns) end
take["-w"] = function(o, value) o.workers = integer("-w", value) end
take["--top"] = function(o, value) o.top = integer("--top", value) end
take["--include"] = function(o, value) o.include[#o.include + 1] = value end
take["--files0-from"] = function(o, value) o.list = value end

local function parse(args)
  local o, plain, split = { patterns = {}, paths = {}, include = {} }, {}, nil
  local i = 1
  while i <= #args do
    local word = args[i]
    if split or word:sub(1, 1) ~= "-" or word == "-" then
      plain[#plain + 1] = word
    elseif word == "--" then
      split = #plain
    elseif word == "--help" or word == "-h" then
      print(help)
      os.exit(0)
    elseif word == "--json" then
      o.json = true
    elseif take[word] then
      i = i + 1
      if not args[i] then fail(word .. " needs a value") end
      take[word](o, args[i])
    else
      fail("unknown option " .. word .. "; --help shows them, -e PATTERN takes a pattern that begins with -")
    end
    i = i + 1
  end
  if o.explicit then
    split = 0
  elseif not split then
    split = #plain
    while split > 1 and exists(plain[split]) do split = split - 1 end
  end
  table.move(plain, 1, split, #o.patterns + 1, o.patterns)
  table.move(plain, split + 1, #plain, 1, o.paths)
  for _, pattern in ipairs(o.patterns) do
    if pattern == "" or pattern:find("\n", 1, true) then fail("a pattern can't be empty or hold a newline") end
  end
  if #o.patterns == 0 then fail("no PATTERN; --help shows an example") end
  if #o.paths == 0 and not o.list then
    fail("no PATH: " .. (split > 0 and "“" .. plain[split] .. "” is no file or directory" or "name one after --"))
  end
  return o
end

-------------------------------------------------------------------------------------------------------------- files

local function quote(text)
  return "'" .. text:gsub("'", [['\'']]) .. "'"
end

-- Calls each(path, size) for the regular files below paths. Names end with NUL, so they may hold anything.
-- Returns false if find complained (it names the place on stderr).
local function find_files(paths, include, each)
  local gnu = os.execute("find /dev/null -printf '' >/dev/null 2>&1")
  local names = {}
  for i, glob in ipairs(include) do names[i] = "-name " .. quote(glob) end
  local tests = "-type f " .. (#names > 0 and "'(' " .. table.concat(names, " -o ") .. " ')' " or "") ..
    (gnu and [[-printf '%s %p\0']] or "-print0")
  local fine, at = true, 1
  while at <= #paths do
    local words, length = {}, 0
    while at <= #paths and length < 60000 do -- a shell command has a limit
      local path = paths[at]
      words[#words + 1] = quote(path:sub(1, 1) == "-" and "./" .. path or path)
      length, at = length + #words[#words], at + 1
    end
    local pipe = assert(io.popen(("find -H %s %s"):format(table.concat(words, " "), tests)))
    local rest = ""
    for block in pipe:lines(65536) do
      local text, from = rest .. block, 1
      for entry, stop in text:gmatch("([^\0]*)\0()") do
        local size, path = 0, entry
        if gnu then size, path = entry:match("^(%d+) (.*)$") end
        each(path, gnu and tonumber(size))
        from = stop
      end
      rest = text:sub(from)
    end
    fine = pipe:close() and fine
  end
  return fine
end

local function listed_files(name, each)
  local file, message = io.open(name, "rb")
  if not file then fail(message) end
  for path in file:read("a"):gmatch("[^\0]+") do each(path) end
  file:close()
end

local function size_of(path)
  local file = io.open(path, "rb")
  local size = file and file:seek("end") or 0
  if file then file:close() end
  return size
end

-- Cuts large files into pieces, gathers small ones, sends the tasks. Returns what was listed.
local function hand_out(options, tasks)
  local total = { tasks = 0, files = 0, bytes = 0 }
  local batch, bytes = {}, 0
  local function flush()
    if #batch > 0 then
      tasks:send(batch)
      total.tasks = total.tasks + 1
      batch, bytes = {}, 0
    end
  end
  local function add(path, from, to, size)
    local n = #batch
    batch[n + 1], batch[n + 2], batch[n + 3] = path, from, to
    bytes = bytes + size
    if bytes >= PIECE or #batch >= 3 * MOST_FILES then flush() end
  end
  local function each(path, size)
    size = size or size_of(path)
    total.files, total.bytes = total.files + 1, total.bytes + size
    if size <= PIECE then return add(path, 0, false, size) end
    for from = 0, size - 1, PIECE do
      add(path, from, math.min(from + PIECE, size), math.min(PIECE, size - from))
    end
  end
  total.fine = find_files(options.paths, options.include, each)
  if options.list then listed_files(options.list, each) end
  flush()
  tasks:close()
  return total
end

------------------------------------------------------------------------------------------------------------- answers

local function terminal(descriptor)
  return os.execute("test -t " .. descriptor) == true
end

local function progress(total, start)
  if not terminal(2) then return function() end end
  local shown = 0
  return function(bytes, over)
    local now = mare.clock()
    if over then return io.stderr:write("\r\27[K") end
    if now - shown < 0.1 or now - start < 0.3 then return end
    shown = now
    local part = math.min(1, bytes / math.max(1, total.bytes))
    local full = math.floor(30 * part)
    io.stderr:write(("\r\27[K[%s%s] %3d %%  %.0f of %.0f MB"):format(("█"):rep(full), ("░"):rep(30 - full),
      math.floor(100 * part), bytes / 1e6, total.bytes / 1e6))
  end
end

local function gather(total, answers, patterns, start)
  local sum = { bytes = 0, counts = {}, hits = {}, skipped = {}, matches = 0 }
  for p = 1, #patterns do sum.counts[p] = 0 end
  local show = progress(total, start)
  for _ = 1, total.tasks do
    local answer = answers:receive()
    if answer.failure then fail(answer.failure) end
    sum.bytes = sum.bytes + answer.bytes
    for p = 1, #patterns do
      sum.counts[p] = sum.counts[p] + answer.counts[p]
      sum.matches = sum.matches + answer.counts[p]
    end
    for path, n in pairs(answer.hits) do sum.hits[path] = (sum.hits[path] or 0) + n end
    for path, message in pairs(answer.errors) do
      if not sum.skipped[path] then
        sum.skipped[path] = message
        sum.skipped[#sum.skipped + 1] = path
      end
    end
    show(sum.bytes)
  end
  show(sum.bytes, true)
  return sum
end

-- The files with most matches, by name where equal.
local function top_files(hits, limit)
  local paths = {}
  for path in pairs(hits) do paths[#paths + 1] = path end
  table.sort(paths, function(a, b)
    if hits[a] ~= hits[b] then return hits[a] > hits[b] end
    return a < b
  end)
  return table.move(paths, 1, math.min(limit, #paths), 1, {})
end

local function json_string(text)
  return '"' .. text:gsub('[%c"\\\127]', function(c)
    return (c == '"' or c == "\\") and "\\" .. c or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

local function json_list(list, item)
  local parts = {}
  for i, v in ipairs(list) do parts[i] = item(v, i) end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function print_json(o, total, sum, top, seconds)
  print(('{"patterns":%s,"files":%d,"bytes":%d,"skipped":%s,"top":%s,"workers":%d,"seconds":%.3f}'):format(
    json_list(o.patterns, function(pattern, i)
      return ('{"pattern":%s,"matches":%d}'):format(json_string(pattern), sum.counts[i])
    end),
    total.files - #sum.skipped, sum.bytes, json_list(sum.skipped, json_string),
    json_list(top, function(path) return ('{"file":%s,"matches":%d}'):format(json_string(path), sum.hits[path]) end),
    o.workers, seconds))
end

local function print_text(o, total, sum, top, seconds)
  local bold, plain = "", ""
  if not os.getenv("NO_COLOR") and terminal(1) then bold, plain = "\27[1m", "\27[0m" end
  for p, pattern in ipairs(o.patterns) do
    print(("%s%12d%s  %s"):format(sum.counts[p] > 0 and bold or "", sum.counts[p], plain, pattern))
  end
  if #top > 0 then print("\nmost matches in:") end
  for _, path in ipairs(top) do print(("%12d  %s"):format(sum.hits[path], path)) end
  if terminal(2) then
    io.stderr:write(("%d files, %.1f MB in %.2f s with %d worker%s\n"):format(total.files - #sum.skipped,
      sum.bytes / 1e6, seconds, o.workers, o.workers == 1 and "" or "s"))
  end
end

local options = parse(arg)
if options.workers then mare.process.workers(options.workers) else options.workers = mare.process.workers() end
local start = mare.clock()
local tasks, answers = mare.channel.new(math.huge), mare.channel.new(math.huge)
for w = 1, options.workers do
  mare.process.spawn { main = worker, args = { tasks, answers, options.patterns }, name = "searcher " .. w }
end
local total = hand_out(options, tasks)
local sum = gather(total, answers, options.patterns, start)
local seconds = mare.clock() - start
for _, path in ipairs(sum.skipped) do io.stderr:write("search: ", sum.skipped[path], "\n") end
local top = options.top and top_files(sum.hits, options.top) or {}
local show = options.json and print_json or print_text
show(options, total, sum, top, seconds)
if #sum.skipped > 0 or not total.fine then os.exit(2) end
os.exit(sum.matches > 0 and 0 or 1)
