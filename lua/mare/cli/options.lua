-- options: reads the command line into a plan; runs before anything else and starts nothing.
--
--   plan = options(argv, "mare 0.2.0", Lua's copyright line, is stdin a terminal?)
--
-- The plan holds only strings, booleans and numbers, because it is sent to the main process:
--   exit, out, err   the program ends here, having written these
--   workers, noenv, warn, strict, observe
--   metrics          an address
--   profile, heap_profile, profile_rate, heap_profile_rate   files, samples a second, bytes between two samples
--   steps            { { "run", code } | { "require", global, module } | { "warn" } … } in their order
--   init             { "run", code, chunk name } | { "file", name }: LUA_INIT
--   trace, trace_size   a file and bytes
--   script           file name, "" for stdin; nil: none
--   command          { name, argument… }: a subcommand that is a module, mare.cli.<name>
--   repl, banner     interactive mode, and the line it greets with
--   arg              the script's `arg`
--   replay           { seed = text | explore = { … }, strict, workers }: a run that can be repeated, or the search for one that fails (explore.lua).
--                    The main process does not see it: what it gets is the same for all such runs of a program
local argv, version, copyright, terminal = ...
local near = require "mare.near".near

local usage = {}
usage.mare = [==[
  mare run search.lua pattern file      runs a script, its processes on all CPUs

usage: mare run [-w N] script.lua [args]     runs a script, see mare run --help
       mare top [PID]                        what a running program does, see mare top --help
       mare explore [options] test.lua       searches for a schedule that fails, see mare explore --help
       mare call REFERENCE OPERATION...      calls a CORBA object, see mare call --help
       mare idl check|show FILE...           IDL files, see mare idl --help
       mare idl from REFERENCE               the IDL of a running CORBA object, see mare idl from --help
       mare ir FILE|DIR...                   an interface repository of IDL files, see mare ir --help
       mare ior REFERENCE...                 what a CORBA reference says, see mare ior --help
       mare names [ls|resolve|bind...]       a naming service, and looking into one, see mare names --help
       mare events [ls|push|listen...]       event channels, and publishing and listening, see mare events --help
       mare profile show FILE                where a program's time or memory went, see mare profile --help
       mare trace FILE.rings|PID [-o FILE]   the trace of a program that was killed or still runs, see mare trace --help
       mare lab COMMAND [args]               the memory laboratory, see mare lab --help
       mare completion bash|zsh|fish         completion of all this for your shell, see mare completion --help
       mare help [COMMAND], mare version
       mare [options] [script.lua [args]]    as lua does

Options are:
  -e stat    execute string 'stat'
  -i         enter interactive mode after executing 'script'
  -l mod     require library 'mod' into global 'mod'
  -l g=mod   require library 'mod' into global 'g'
  -v         show version information
  -w N       use N workers (default: the CPUs this program may use)
  -E         ignore environment variables
  -W         turn warnings on
  --strict   end with 1 if a process or fiber failed and nobody waited for it
  --observe  let mare top look into the program from its start (mare top PID does so, too)
  --metrics ADDRESS   serve numbers for Prometheus at host:port, :port or unix:/path
  --profile, --heap-profile, --trace, --seed   as for mare run; see mare run --help
  --         stop handling options
  -          stop handling options and execute stdin
  --help     show this
  --version  show the version

Exit codes: 0, 1 after an error, 2 for a mistake on the command line.
]==]
usage.run = [==[
  mare run -w 4 search.lua pattern file    runs a script with 4 workers

usage: mare run [options] script.lua [args]

Runs the script as the main process and ends when every process has ended. 'script.lua' may be '-': stdin.

Options are:
  -w N       use N workers (default: the CPUs this program may use)
  --strict   end with 1 if a process or fiber failed and nobody waited for it
  --observe  let mare top look into the program from its start (mare top PID does so, too)
  --metrics ADDRESS   serve numbers for Prometheus at host:port, :port (every interface) or unix:/path
  --profile FILE            writes where all processes' CPU time went, at the end, however the program ends
  --profile-rate HZ         samples per second (default 200)
  --heap-profile FILE       writes which functions allocated memory, and what of that was in use at the end
  --heap-profile-rate N     one sample about every N bytes (default 65536; 1: every allocation)
             FILE.pb.gz, FILE.pb and FILE.pprof are for pprof; any other name: folded stacks (flamegraph.pl, speedscope)
  --trace FILE       records what runs where and when, for ui.perfetto.dev and chrome://tracing
  --trace-size SIZE  keeps the newest records that fit into SIZE, such as 64M (default 256M)
  --seed N   a run that can be repeated: one worker, a virtual clock, all choices drawn from N; see docs/replay.md
  --seed N:LIST   with these choices, as mare explore prints them
  -e stat, -i, -l mod, -l g=mod, -E, -W, --    as for mare; see mare --help
  --help     show this

Exit codes: what the script gives os.exit, else 0, 1 after an error in the script or a deadlock, 2 for a mistake on the
command line. Ctrl-C raises the error "interrupted!" in the main process; a second one ends the program with 130.
]==]

usage.explore = [==[
  mare explore --runs 1000 test.lua    runs a test under many schedules, until one fails

usage: mare explore [options] test.lua [args]

Runs the test as mare run --seed does, with one seed after the other. A run fails if its exit code is not 0, because of an error, a failed
assertion, a failure that nobody waited for, or a deadlock; or if it takes too long. The first schedule that fails is shortened as far as
possible and shown, with the command that runs it again.

Options are:
  --runs N         how many schedules are tried (1000)
  --seed S         the first seed (1); the others follow
  --timeout T      seconds of CPU time after which a run counts as failed (10)
  --jobs N         how many runs at a time (the CPUs this program may use)
  --json           prints one JSON object instead of text
  -w N             what process.workers() says (4)
  -e stat, -l mod, -l g=mod, -E, -W, --    as for mare; see mare --help
  --help           show this

Exit codes: 0 if no run failed, 1 if one did, 2 for a mistake on the command line.
]==]

-- Subcommands that are modules: mare.cli.<name> gives a function that takes the arguments and returns the exit code.
local commands = { call = true, idl = true, ir = true, ior = true, names = true, events = true, top = true, profile = true, trace = true,
  completion = true }

local words = { "run", "explore", "call", "idl", "ir", "ior", "names", "events", "lab", "top", "profile", "trace", "completion", "help", "version" }
local long = { "--help", "--version", "--strict", "--observe", "--metrics", "--workers", "--execute", "--interactive", "--require", "--warnings",
  "--profile", "--profile-rate", "--heap-profile", "--heap-profile-rate", "--trace", "--trace-size",
  "--seed", "--runs", "--timeout", "--jobs", "--json" }
-- What some of those are called here.
local short = { ["--workers"] = "-w", ["--execute"] = "-e", ["--interactive"] = "-i", ["--require"] = "-l", ["--warnings"] = "-W" }

local function meant(word, names)
  local found = near(word, names)
  return found and "; did you mean " .. found:gsub("%-%-%a+", short) .. "?" or ""
end

local function mistake(command, text)
  return { exit = 2, err = ("mare: %s\n%s"):format(text, usage[command]:match("\n(usage:.-\n)\n")) ..
    ("Try 'mare%s --help'.\n"):format(command ~= "mare" and " " .. command or "") }
end

local function init()
  for _, name in ipairs { "LUA_INIT_5_4", "LUA_INIT" } do
    local text = os.getenv(name)
    if text then
      if text:sub(1, 1) == "@" then return { "file", text:sub(2) } end
      return { "run", text, "=" .. name }
    end
  end
end

-- Options that stand alone, and what they do to the plan.
local plain = {
  ["-E"] = function(plan) plan.noenv = true end,
  ["--strict"] = function(plan) plan.strict = true end,
  ["--observe"] = function(plan) plan.observe = true end,
  ["-W"] = function(plan) plan.warn = true table.insert(plan.steps, { "warn" }) end,
  ["-v"] = function(plan) plan.out = copyright .. "\n" end,
  ["-i"] = function(plan) plan.out = copyright .. "\n" plan.repl = true end,
}

-- Options with an argument, which may follow directly.
local with_argument = {
  e = function(plan, text) table.insert(plan.steps, { "run", text, "=(command line)" }) end,
  l = function(plan, text)
    local global, module = text:match("^(.-)=(.*)$")
    table.insert(plan.steps, { "require", global or text, module or text })
  end,
  w = function(plan, text)
    local n = math.tointeger(tonumber(text))
    if not n or n < 1 or n > 256 then return ("-w needs a number of workers between 1 and 256, got '%s'"):format(text) end
    plan.workers = n
  end,
}

-- "64M" as bytes; nil: that is no size of a trace.
local function bytes(text)
  local number, unit = text:match("^(%d+)([kKmMgG]?)$")
  local shift = ({ [""] = 0, k = 10, m = 20, g = 30 })[unit and unit:lower()]
  local n = shift and #number < 12 and math.tointeger(number) << shift
  return n and n >= 1 << 20 and n <= 1 << 36 and n or nil
end

local function rate(name, field, most)
  return function(plan, text)
    local n = math.tointeger(tonumber(text))
    if not n or n < 1 or n > most then return ("%s needs a number between 1 and %d, got '%s'"):format(name, most, text) end
    plan[field] = n
  end
end

-- Words with an argument, behind a space or '=': the plan's field, or a function as above. What the field holds is checked by who reads it.
local worded = {
  ["--metrics"] = function(plan, text)
    local port = text:match "^(%d+)$" or text:match "^[^:]*:(%d+)$" or text:match "^%[.*%]:(%d+)$"
    local right = text:find "^unix:." or (port and tonumber(port) <= 65535)
    if not right then return ("--metrics needs an address, 'host:port', '[ipv6]:port', ':port' or 'unix:/path', got '%s'"):format(text) end
    plan.metrics = text
  end,
  ["--profile"] = "profile",
  ["--heap-profile"] = "heap_profile",
  ["--profile-rate"] = rate("--profile-rate", "profile_rate", 1000),
  ["--heap-profile-rate"] = rate("--heap-profile-rate", "heap_profile_rate", 1 << 30),
  ["--trace"] = "trace",
  ["--trace-size"] = function(plan, text)
    plan.trace_size = bytes(text)
    if not plan.trace_size then return ("--trace-size needs a size between 1M and 64G, as 256M, got '%s'"):format(text) end
  end,
  ["--seed"] = function(plan, text)
    if not text:find("^%d+$") and not text:find("^%d+:[%d.,=+~]*$") then
      return ("--seed needs a seed: a whole number from 0 on, as 17, or one with choices behind it, as 17:1.4=2,3.7+1; got '%s'"):format(text)
    end
    plan.seed = text
  end,
}

-- Those of `mare explore` alone; what they are when they are absent stands in explore.lua.
local exploring = {}
local function counting(word, field, least)
  exploring[word] = function(plan, text)
    local n = tonumber(text)
    if field ~= "timeout" then n = math.tointeger(n) end
    if not n or n < least or n ~= n then return ("%s needs a number from %d on, got '%s'"):format(word, least, text) end
    plan.explore[field] = n
  end
end
counting("--runs", "runs", 1)
counting("--jobs", "jobs", 1)
counting("--timeout", "timeout", 0)

-- The argument of a word of these, and where it stood; nil: there is none. A negative number is one, that it may be told what is wrong with it.
local function argument_of(i)
  local word, text = argv[i]:match("^(%-%-%a[%a-]*)=?(.*)$")
  if #argv[i] > #word then return word, text, i end
  text = argv[i + 1]
  if text and (text == "-" or text:find "^%-%d" or text:sub(1, 1) ~= "-") then return word, text, i + 1 end
  return word
end

local function read_worded(plan, i)
  local word, text, last = argument_of(i)
  if not text or text == "" then return nil, ("'%s' needs argument"):format(word) end
  local field = worded[word]
  local err
  if type(field) == "string" then plan[field] = text else err = field(plan, text) end
  if err then return nil, err end
  return last
end

-- Reads options from argv[i] on: the index after them, or nil and a mistake.
local function read(plan, i)
  while argv[i] and argv[i]:sub(1, 1) == "-" and argv[i] ~= "-" do
    local word = argv[i]
    if word == "--" then return i + 1, true end
    local letter, text = word:match("^%-([elw])(.*)$")
    if plain[word] then
      plain[word](plan)
    elseif letter then
      if text == "" then
        i = i + 1
        text = argv[i]
        if not text or text:sub(1, 1) == "-" then return nil, ("'%s' needs argument"):format(word) end
      end
      local err = with_argument[letter](plan, text)
      if err then return nil, err end
    elseif worded[word:match("^[^=]*")] then
      local last, err = read_worded(plan, i)
      if not last then return nil, err end
      i = last
    else
      return nil, ("unrecognized option '%s'%s"):format(word, #word > 2 and meant(word:match("^[^=]*"), long) or "")
    end
    i = i + 1
  end
  return i
end

-- `arg` with the script at 0 and what stood before it at negative indices.
local function arguments(script)
  local t = {}
  for i = 0, #argv do t[i - script] = argv[i] end
  return t
end

-- Who slipped needs the hint, not the whole usage.
local function no_command(word)
  return { exit = 2, err = ("mare: there is no command '%s'%s\nTry 'mare --help'.\n"):format(word, meant(word, words)) }
end

-- `mare help lab` is the laboratory's own business, and main.c's.
local function help(about)
  if about == nil or about == "help" or about == "version" then return { exit = 0, out = usage.mare } end
  if about == "run" or about == "explore" then return { exit = 0, out = usage[about] } end
  if commands[about] then return { command = { about, "--help" }, steps = {} } end
  return no_command(about)
end

-- A script's name that is no file's, but nearly a command's: it was one.
local function is_slip(word)
  if word == "run" or word == "explore" or not word:find("^%a+$") or not near(word, words) then return false end
  local file = io.open(word)
  if file then file:close() end
  return not file
end

if commands[argv[1]] then return { command = table.move(argv, 1, #argv, 1, {}), steps = {} } end
if argv[1] == "help" then return help(argv[2]) end
if argv[1] == "version" then return { exit = 0, out = version .. "\n" } end
if argv[1] and is_slip(argv[1]) then return no_command(argv[1]) end

local command, start = "mare", 1
if argv[1] == "run" or argv[1] == "explore" then command, start = argv[1], 2 end
for i = start, #argv do
  if argv[i]:sub(1, 1) ~= "-" then break end
  if argv[i] == "--help" or argv[i] == "-h" then
    if command == "mare" and argv[i + 1] then return help(argv[i + 1]) end
    return { exit = 0, out = usage[command] }
  end
  if argv[i] == "--version" then return { exit = 0, out = version .. "\n" } end
end

-- What a run that can be repeated gets: the same fields in the same order, whatever else the command line says, as a program can see where its
-- tables are.
local function replayed(plan)
  local seed, explore = plan.seed, plan.explore
  local arg = { [-1] = argv[0] }
  for i = 0, #plan.arg do arg[i] = plan.arg[i] end
  if explore then
    explore.from, explore.script, explore.arg = seed, plan.script, table.move(arg, 1, #arg, 1, {})
    explore.program, explore.options = argv[0], explore.options
  end
  return {
    steps = plan.steps, noenv = plan.noenv, warn = plan.warn, script = plan.script, init = plan.init, repl = plan.repl, arg = arg,
    replay = { seed = seed, explore = explore, strict = plan.strict or explore ~= nil, workers = plan.workers },
  }
end

local plan = { steps = {} }
if command == "explore" then
  plan.explore = {}
  for word, set in pairs(exploring) do worded[word] = set end
  plain["--json"] = function(p) p.explore.json = true end
  plain["--strict"], plain["-i"], plain["-v"] = nil, nil, nil
end
local index, detail = read(plan, start)
if not index then return mistake(command, detail) end
for _, word in ipairs { "observe", "metrics", "profile", "heap_profile", "trace" } do
  if (plan.seed or plan.explore) and plan[word] then
    return mistake(command, ("a run that can be repeated has no --%s"):format((word:gsub("_", "-"))))
  end
end
for _, word in ipairs { "profile", "heap_profile" } do
  local option = "--" .. word:gsub("_", "-")
  if plan[word .. "_rate"] and not plan[word] then return mistake(command, ("%s-rate needs %s FILE"):format(option, option)) end
end
if plan.trace_size and not plan.trace then return mistake(command, "--trace-size needs --trace FILE") end
if plan.trace then plan.trace_size = plan.trace_size or 256 << 20 end
local file = argv[index]
if command == "explore" then
  if plan.seed and plan.seed:find ":" then
    return mistake(command, "--seed needs the first seed, a whole number from 0 on, as 17; mare run --seed takes a list of choices")
  end
  if plan.seed and not math.tointeger(tonumber(plan.seed)) then return mistake(command, "a first seed is below 2^63, not " .. plan.seed) end
  if not file then return mistake(command, "no test") end
  plan.explore.options = table.move(argv, start, index - 1, 1, {})
end
if file then
  plan.script = (file == "-" and not detail) and "" or file
  plan.arg = arguments(index)
else
  plan.arg = arguments(0)
  local idle = plan.out == nil
  for _, step in ipairs(plan.steps) do idle = idle and step[1] ~= "run" end
  if command == "run" and idle then return mistake(command, "no script") end
  if idle and terminal then
    plan.out, plan.repl = copyright .. "\n", true
  elseif idle then
    plan.script = ""
  end
end
if not plan.noenv then plan.init = init() end
if plan.repl and plan.seed then return mistake(command, "what is typed can't be repeated: --seed and -i don't go together") end
return (plan.seed or plan.explore) and replayed(plan) or plan
