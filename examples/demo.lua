-- What `make demo` runs: examples/search.lua over text that every machine has, on one worker, on all, and as
-- independent OS processes for comparison; every count is compared with grep's.
--   bin/mare run examples/demo.lua [--quick]
-- Exit code: 0 when all counts are equal, else 1. --quick: half a second of work instead of 3.
local mare = require "mare"

local root = (arg[0]:match("^(.*)/examples/[^/]*$") or (arg[0]:find("/") and arg[0]:match("^(.*)/") .. "/..") or ".")
local search = (os.getenv("MARE") or root .. "/bin/mare") .. " run " .. root .. "/examples/search.lua"

local WORK = arg[1] == "--quick" and 0.5 or 3 -- seconds that one worker must need at least
local MOST = 128e6                            -- bytes of text at most

local places = {
  "/usr/share/common-licenses", "/usr/share/doc", "/usr/include", "/usr/share/perl", "/usr/share/perl5",
  "/usr/lib/python3*",
}
local kinds = {
  "*.h", "*.hpp", "*.c", "*.py", "*.pm", "*.pl", "*.pod", "*.txt", "*.md", "*.html", "*.log", "copyright", "README*",
  "GPL*", "LGPL*", "Apache*", "BSD", "Artistic",
}
local words = {
  "return", "define", "const", "include", "struct", "static", "void", "license", "copyright", "class", "self",
  "import", "error", "unsigned", "template", "namespace", "typename", "version", "Debian", "function", "string",
  "value", "default", "buffer", "thread", "process", "memory", "signal", "socket", "channel", "queue", "http",
  "file", "size_t", "uint32_t", "NULL", "TODO", "FIXME", "deprecated", "example", "while", "switch", "break",
  "continue", "inline", "operator", "private", "public", "virtual", "except", "lambda", "yield", "assert", "test",
}

local function quote(text)
  return "'" .. text:gsub("'", [['\'']]) .. "'"
end

local function capture(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("a")
  local fine, _, code = pipe:close()
  return text, fine and 0 or code
end

local tmp = capture("mktemp -d"):match("^(.-)\n$")
if not tmp then
  io.stderr:write("demo: no temporary directory\n")
  os.exit(1)
end

local function finish(code)
  os.execute("rm -rf " .. quote(tmp))
  os.exit(code)
end

local function write(name, list, ending)
  local file = assert(io.open(tmp .. "/" .. name, "wb"))
  for _, entry in ipairs(list) do file:write(entry, ending) end
  file:close()
  return tmp .. "/" .. name
end

local function thousands(n)
  local text = ("%d"):format(n)
  repeat
    local before = text
    text = text:gsub("^(%d+)(%d%d%d)", "%1,%2")
  until text == before
  return text
end

-- Regular text files of the places that exist, up to MOST bytes. Logs are copied first: they grow while we count.
local function choose_text()
  os.execute("mkdir " .. tmp .. "/log && find /var/log -type f -name '*.log' -size -20000k -readable " ..
    "-exec cp {} " .. tmp .. "/log/ ';' 2>/dev/null")
  local names = {}
  for i, kind in ipairs(kinds) do names[i] = "-name " .. quote(kind) end
  local found = capture(([[find %s %s/log -type f -readable -size +0 '(' %s ')' -printf '%%s %%p\0' 2>/dev/null]])
    :format(table.concat(places, " "), tmp, table.concat(names, " -o ")))
  local files, seen, bytes = {}, {}, 0
  for size, path in found:gmatch("(%d+) ([^\0]*)\0") do
    if bytes + tonumber(size) <= MOST and not seen[path] then
      seen[path] = true
      files[#files + 1] = { path = path, size = tonumber(size) }
      bytes = bytes + tonumber(size)
    end
  end
  return files, bytes
end

local function paths_of(files)
  local paths = {}
  for i, file in ipairs(files) do paths[i] = file.path end
  return paths
end

-- One search, timed from outside as any command is. Returns seconds and the counts by pattern.
local function run(patterns, list, workers)
  local command = ("%s -w %d -f %s --files0-from %s"):format(search, workers, patterns, list)
  local start = mare.clock()
  local text, code = capture(command)
  local seconds = mare.clock() - start
  if code > 1 then
    io.stderr:write("demo: failed: ", command, "\n")
    finish(1)
  end
  local counts = {}
  for count in text:gmatch("%s*(%d+)  [^\n]*\n") do counts[#counts + 1] = tonumber(count) end
  return seconds, counts
end

-- How many words, and how often the list, keep one worker busy for WORK seconds. Returns what `run` takes.
local function calibrate(files)
  local n, times = 4, 1
  local list = write("list", paths_of(files), "\0")
  while true do
    local patterns = write("patterns", { table.unpack(words, 1, n) }, "\n")
    local seconds = run(patterns, list, 1)
    if seconds >= WORK then return patterns, list, n, times, seconds end
    local factor = math.min(10, 1.25 * WORK / math.max(seconds, 0.01))
    if n < #words then
      n = math.min(#words, math.max(n + 1, math.ceil(n * factor)))
    else -- little text: the same files again
      times = math.max(times + 1, math.ceil(times * factor))
      local all = {}
      for _ = 1, times do table.move(files, 1, #files, #all + 1, all) end
      list = write("list", paths_of(all), "\0")
    end
  end
end

-- The same files dealt out to independent OS processes with one worker each, the largest first to the least loaded.
local function apart(files, patterns, times, parts)
  local sorted = table.move(files, 1, #files, 1, {})
  table.sort(sorted, function(a, b) return a.size > b.size end)
  local lists, loads, names = {}, {}, {}
  for p = 1, parts do lists[p], loads[p] = {}, 0 end
  for _, file in ipairs(sorted) do
    local least = 1
    for p = 2, parts do
      if loads[p] < loads[least] then least = p end
    end
    for _ = 1, times do table.insert(lists[least], file.path) end
    loads[least] = loads[least] + file.size
  end
  for p = 1, parts do names[p] = write("part" .. p, lists[p], "\0") end
  local handles = {}
  local start = mare.clock()
  for p = 1, parts do
    handles[p] = mare.process.spawn(function()
      local command = ("%s -w 1 -f %s --files0-from %s >/dev/null 2>&1"):format(search, patterns, names[p])
      local _, _, code = os.execute(command)
      return code
    end)
  end
  for p = 1, parts do
    local ok, code = handles[p]:wait()
    if not ok or code > 1 then
      io.stderr:write("demo: a comparison process failed\n")
      finish(1)
    end
  end
  return mare.clock() - start
end

-- Each count beside grep's over the same list; returns whether all are equal.
local function compare(n, counts, list, workers)
  local equal = true
  print("\n     matches  pattern        LC_ALL=C grep -F -o")
  for i = 1, n do
    local text = capture(("LC_ALL=C xargs -0 -P %d grep -a -F -o -h -e %s <%s | wc -l"):format(workers,
      quote(words[i]), list))
    local theirs = tonumber(text)
    local same = theirs == counts[i]
    equal = equal and same
    print(("%12s  %-14s %s"):format(thousands(counts[i] or -1), words[i],
      same and "same" or "differs: " .. thousands(theirs)))
  end
  return equal
end

local files, bytes = choose_text()
if #files == 0 then
  io.stderr:write("demo: no text found below ", table.concat(places, ", "), "\n")
  finish(1)
end
local warm = write("warm", paths_of(files), "\0")
os.execute("xargs -0 cat <" .. warm .. " >/dev/null")
print(("searching %s text files, %.0f MB, in the page cache; looking for enough words for %g s of work"):format(
  thousands(#files), bytes / 1e6, WORK))

local patterns, list, n, times, one = calibrate(files)
local workers = mare.process.workers()
print(("%d words%s"):format(n, times > 1 and (", each file %d times"):format(times) or ""))
local all, counts = run(patterns, list, workers)
local apart_seconds = apart(files, patterns, times, workers)
print(("\n%-28s %6.2f s"):format("1 worker", one))
if workers > 1 then
  print(("%-28s %6.2f s   %.2f times as fast"):format(workers .. " workers", all, one / all))
  print(("%-28s %6.2f s   %.2f times as fast"):format(workers .. " independent OS processes", apart_seconds,
    one / apart_seconds))
  print(("mare reaches %.0f %% of what independent OS processes reach"):format(100 * apart_seconds / all))
else
  print("only one CPU is allowed here: nothing to gain from more workers")
end

local equal = compare(n, counts, list, workers)
print(equal and "\nall counts are those of grep" or "\nCOUNTS DIFFER from grep's")
finish(equal and 0 or 1)
