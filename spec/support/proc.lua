-- proc: OS processes for specs. Nothing started here outlives its time limit, and no text goes to the spec's own output.
--
--   local proc = require "spec.support.proc"
--   local r = proc.run({ "ls", "-l" }, { timeout = 5 })       an argument list: run as it is
--   local r = proc.run("ls | wc -l")                          a string: run by sh (a signal then shows as code 128 + n)
--   local r = proc.mare("print(...)", { "a", "b" }, options)  a script's text under `mare run`
--   local r = proc.lua("print(...)", { "a", "b" }, options)   the same under plain lua with mare.so on its path
--   local r = proc.mare_command({ "-e", "print(1)" }, options)  bin/mare with these arguments
--   local r = proc.terminal({ "lua5.4", "-i" }, { { "> ", "40 + 2\r" }, { "42\r\n> ", "\4" } }, options)
--                                                             at a terminal: types the second text of each pair (or nothing) once the first
--                                                             has been shown; the last line of `out` says how it ended, see terminal.c
--
-- The result:
--   code     exit code, nil if a signal or the limit ended it
--   signal   number of the signal that ended it, else nil
--   timeout  true if the limit came first (its whole process group was killed)
--   out err  what it wrote
--   seconds user system   wall and CPU time;  kib  greatest resident size
--   left     true if processes it had started outlived it (they were killed)
--
-- Options:
--   timeout  seconds (default 60), multiplied by the factor of a sanitizer's configuration
--   stdin    text (default: empty)
--   env      { NAME = "value" }, NAME = false removes it
--   dir      working directory
--   workers  n: `mare run -w n` (proc.mare)
--   signals  list of { after = "text in stdout" | seconds, name = "INT" | number }, done in turn: a number counts from the
--            previous one. Only with an argument list, proc.mare and proc.lua. The program must flush its output.
--
-- proc.with_file(text, f)   f(path) with a temporary file of that text
--
-- From CTest: MARE_BIN, MARE_CPATH, MARE_LUA (the interpreter that can load mare.so), MARE_SUPERVISE, MARE_CONFIG.
-- Without CTest the plain build is used: build/plain.
local temporary = require "spec.support.temporary"
local proc = {}

local root = os.getenv("MARE_ROOT") or "."
local build = root .. "/build/plain"
proc.bin = os.getenv("MARE_BIN") or build .. "/bin/mare"
proc.cpath = os.getenv("MARE_CPATH") or build .. "/lib/?.so"
proc.interpreter = os.getenv("MARE_LUA") or "lua5.4"
proc.config = os.getenv("MARE_CONFIG") or "plain"          -- "plain", "asan" or "tsan"
proc.slow = tonumber(os.getenv("MARE_TIME_FACTOR") or 1)   -- how much longer things may take in this configuration
local supervise = os.getenv("MARE_SUPERVISE") or build .. "/support/supervise"

local signals = { HUP = 1, INT = 2, QUIT = 3, ABRT = 6, KILL = 9, USR1 = 10, SEGV = 11, USR2 = 12, PIPE = 13, ALRM = 14, TERM = 15 }

local function quote(text) return "'" .. tostring(text):gsub("'", "'\\''") .. "'" end

local function slurp(path)
  local file = io.open(path, "rb")
  if not file then return "" end
  local text = file:read("a")
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  file:close()
end

-- f(base) with a base for names of temporary files, which are removed afterwards.
local function with_files(f)
  local base = temporary()
  local results = table.pack(pcall(f, base))
  for _, suffix in ipairs { "", ".in", ".out", ".err", ".result", ".lua" } do os.remove(base .. suffix) end
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

function proc.with_file(text, f)
  return with_files(function(base)
    write(base, text)
    return f(base)
  end)
end

local function environment(env)
  local words = {}
  for name, value in pairs(env or {}) do
    words[#words + 1] = value and quote(name .. "=" .. value) or "-u " .. quote(name)
  end
  if #words == 0 then return "" end
  table.sort(words, function(a, b) return (a:sub(1, 2) == "-u") and b:sub(1, 2) ~= "-u" end)
  return "env " .. table.concat(words, " ") .. " "
end

local function command_line(cmd, options, base)
  local words = {}
  if options.dir then words[1] = "cd " .. quote(options.dir) .. " &&" end
  words[#words + 1] = environment(options.env) .. "exec " .. quote(supervise)
  if options.env and next(options.env) then
    words[#words] = "exec " .. environment(options.env) .. quote(supervise)
  end
  words[#words + 1] = ("-t %g -r %s -i %s -o %s -e %s"):format((options.timeout or 60) * proc.slow, quote(base .. ".result"),
    quote(base .. ".in"), quote(base .. ".out"), quote(base .. ".err"))
  for _, s in ipairs(options.signals or {}) do
    local when = type(s.after) == "number" and "+" .. s.after or assert(s.after, "signals: after is missing")
    words[#words + 1] = "-s " .. quote(when .. ":" .. (signals[s.name] or math.tointeger(s.name) or error("signals: unknown " .. tostring(s.name))))
  end
  words[#words + 1] = "--"
  if type(cmd) == "string" then cmd = { "sh", "-c", cmd } end
  for _, word in ipairs(cmd) do words[#words + 1] = quote(word) end
  return table.concat(words, " ")
end

function proc.run(cmd, options)
  options = options or {}
  return with_files(function(base)
    write(base .. ".in", options.stdin or "")
    os.execute(command_line(cmd, options, base))
    local kind, number, wall, user, system, kib, left =
      slurp(base .. ".result"):match("^(%a+) (%d+) (%S+) (%S+) (%S+) (%d+) (%d)")
    if not kind then error("supervise did not run: " .. supervise .. ": " .. slurp(base .. ".err"), 0) end
    return {
      code = kind == "exit" and tonumber(number) or nil,
      signal = kind == "signal" and tonumber(number) or nil,
      timeout = kind == "timeout",
      out = slurp(base .. ".out"),
      err = slurp(base .. ".err"):gsub("^MARE_CHAOS=%d+\n", "", 1),   -- the seed that ThreadSanitizer's builds print
      seconds = tonumber(wall), user = tonumber(user), system = tonumber(system),
      kib = tonumber(kib), left = left == "1",
    }
  end)
end

local function run_script(words, text, args, options)
  return with_files(function(base)
    local path = base .. ".lua"
    write(path, text)
    words[#words + 1] = path
    for _, a in ipairs(args or {}) do words[#words + 1] = a end
    return proc.run(words, options)
  end)
end

function proc.mare(text, args, options)
  local words = { proc.bin, "run" }
  if options and options.workers then words[3], words[4] = "-w", tostring(options.workers) end
  return run_script(words, text, args, options)
end

function proc.lua(text, args, options)
  local copy = {}
  for k, v in pairs(options or {}) do copy[k] = v end
  copy.env = { LUA_CPATH = proc.cpath .. ";;" }
  for k, v in pairs(options and options.env or {}) do copy.env[k] = v end
  return run_script({ proc.interpreter }, text, args, copy)
end

function proc.terminal(cmd, talk, options)
  local words = { (supervise:gsub("supervise$", "terminal")) }
  for _, pair in ipairs(talk) do
    table.move({ "-x", pair[1] }, 1, 2, #words + 1, words)
    if pair[2] then table.move({ "-k", pair[2] }, 1, 2, #words + 1, words) end
  end
  words[#words + 1] = "--"
  return proc.run(table.move(cmd, 1, #cmd, #words + 1, words), options)
end

function proc.mare_command(args, options)
  return proc.run({ proc.bin, table.unpack(args) }, options)
end

return proc
