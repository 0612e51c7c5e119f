-- mare top: looks at a running program of this user.
local mare = require "mare"
local connect = require "mare.observe.client"
local json = require "mare.base.json"
local terminal = require "mare.cli.terminal"
local unknown = require "mare.cli.unknown"
local view = require "mare.observe.view"

local usage = [==[
  mare top 4711                   shows what the processes of program 4711 do, live
  mare top --web 4711             serves a page that shows it, with charts and profiles, to your browser

usage: mare top [options] [PID]

Any program of yours that runs mare can be looked at, without preparation: bin/mare, plain Lua, a C program. Without PID: the only one that
is running, or a list to choose from. In the table, ? shows the keys: to sort, to look into a process, to cancel or kill it.

--web prints the address of the page and serves it until the program ends, or Ctrl-C. Only this machine can reach it, and only who has the
address, which is another one each time.

Options are:
  --once         prints one table and ends; also the default if stdout is not a terminal
  --json         prints one JSON object and ends
  --web          serves a page for a browser, and prints its address
  --open         with --web: opens the page, by $BROWSER or xdg-open
  --port N       with --web: the port (any that is free)
  --interval S   seconds between two looks (1)
  --sort KEY     cpu, heap, messages or id (cpu)
  --limit N      how many processes --once and --json show (20; 0 to 10000), and --web (60; up to 1000)
  --help         shows this

NO_COLOR is respected. Exit codes: 0, 1 if the program can't be looked at or ends meanwhile, 2 for a mistake on the command line.
]==]

local function say(text) io.stderr:write("mare top: ", text, "\n") end

local function mistake(text) return unknown.mistake("top", usage, text) end

-- ---- the command line ----

local keys = { cpu = true, heap = true, messages = true, id = true }

local with_argument = {
  ["--interval"] = function(o, text)
    o.interval = tonumber(text)
    if not o.interval or not (o.interval >= 0.05 and o.interval <= 3600) then return "--interval needs seconds, from 0.05 to 3600" end
    o.given = true
  end,
  ["--sort"] = function(o, text)
    o.sort = text
    if not keys[text] then return "--sort needs cpu, heap, messages or id" end
  end,
  ["--limit"] = function(o, text)
    o.limit = math.tointeger(tonumber(text))
    if not o.limit or o.limit < 0 or o.limit > 10000 then return "--limit needs a number from 0 to 10000" end
  end,
  ["--port"] = function(o, text)
    o.port = math.tointeger(tonumber(text))
    if not o.port or o.port < 0 or o.port > 65535 then return "--port needs a number from 0 to 65535" end
  end,
}

local alone = { ["--once"] = "once", ["--json"] = "json", ["--web"] = "web", ["--open"] = "open", ["--help"] = "help", ["-h"] = "help" }
local all = { "--once", "--json", "--web", "--open", "--port", "--interval", "--sort", "--limit", "--help" }

local function read_word(o, words, i)
  local word, text = words[i]:match "^(%-%-?%a+)=?(.*)$"
  if alone[word] then
    if #words[i] > #word then return nil, ("'%s' takes no argument"):format(word) end
    o[alone[word]] = true
  elseif with_argument[word] then
    if #words[i] == #word then
      i = i + 1
      text = words[i]
    end
    if not text or text == "" then return nil, ("'%s' needs argument"):format(word) end
    local err = with_argument[word](o, text)
    if err then return nil, err end
  else
    return nil, unknown.option(words[i], all)
  end
  return i
end

-- What goes with what; nil if all does.
local function contradiction(o)
  if o.web and (o.once or o.json) then return "--web goes without --once and --json" end
  if (o.open or o.port) and not o.web then return (o.open and "--open" or "--port") .. " goes with --web" end
  if o.web and o.limit and o.limit > 1000 then return "with --web --limit is at most 1000" end
end

local function options_of(words)
  local o, i = { interval = 1, sort = "cpu" }, 1
  while words[i] do
    if words[i]:sub(1, 1) == "-" then
      local err
      i, err = read_word(o, words, i)
      if not i then return nil, err end
    else
      local pid = words[i]:match "^%d+$" and math.tointeger(tonumber(words[i]))
      if not pid or pid < 1 or pid > 0x7fffffff then return nil, ("'%s' is no number of a program"):format(words[i]) end
      if o.pid then return nil, "one program at a time" end
      o.pid = pid
    end
    i = i + 1
  end
  local err = contradiction(o)
  if err then return nil, err end
  o.limit = o.limit or o.web and 60 or 20
  return o
end

-- ---- which program ----

local function candidates()
  local list = {}
  for _, p in ipairs(terminal.programs()) do
    if not p.command:find "^%S*mare top" then list[#list + 1] = p end
  end
  table.sort(list, function(a, b) return a.pid < b.pid end)
  return list
end

local function show_candidates(file, list)
  for _, p in ipairs(list) do file:write(("%9d  %s\n"):format(p.pid, (view.cut(view.clean(p.command), 120)))) end
end

-- A number of a program, or nil and an exit code.
local function choose(o)
  local list = candidates()
  if #list == 0 then
    say "no program of yours runs mare"
    return nil, 1
  end
  if #list == 1 then return list[1].pid end
  if o.once or o.json or not (terminal.is(0) and terminal.is(1)) then
    say "several programs run mare; which one?"
    show_candidates(io.stderr, list)
    return nil, 2
  end
  show_candidates(io.stdout, list)
  io.stdout:write "which one? "
  io.stdout:flush()
  local word = io.read()
  for _, p in ipairs(list) do
    if word and word:match "^%s*(%d+)%s*$" == tostring(p.pid) then return p.pid end
  end
  if word then say "that is none of them" end
  return nil, 2
end

-- ---- one look ----

-- The answer; its error is told to the user as it is, so it has no place in this file.
local function need(answer, why) return answer or error(why, 0) end

-- Two looks, as rates are differences; what they need is asked for in the second one alone.
local function look(client, o)
  local before = need(client:ask "totals")
  need(client:ask(("list %s 0"):format(o.sort)))
  mare.sleep(o.given and o.interval or 0.5)
  local s = { program = client.program, now = os.time(), list = need(client:ask(("list %s %d"):format(o.sort, o.limit))) }
  s.totals = need(client:ask "totals")
  s.failures = need(client:ask "failures").failures
  s.channels = need(client:ask "channels").channels
  return s, before
end

local function plain(line)
  local parts = {}
  for i, piece in ipairs(line) do parts[i] = piece[1] end
  return (table.concat(parts):gsub("%s+$", "")) .. "\n"
end

local WIDTH = 120

local function print_once(s, before, sort)
  for _, line in ipairs(view.head(s, before, WIDTH)) do io.stdout:write(plain(line)) end
  io.stdout:write("\n", plain(view.titles(WIDTH, sort)))
  for _, p in ipairs(s.list.processes) do io.stdout:write(plain(view.row(p, WIDTH))) end
  if s.list.count > #s.list.processes then io.stdout:write(("… %d more\n"):format(s.list.count - #s.list.processes)) end
end

local function print_json(s)
  s.list.ok, s.totals.ok = nil, nil
  io.stdout:write(json.text { program = s.program, totals = s.totals, processes = s.list.processes, count = s.list.count, states = s.list.states,
    failures = s.failures, channels = s.channels }, "\n")
end

local function once(client, o)
  local ok, s, before = pcall(look, client, o)
  client:close()
  if not ok then
    say(("process %d: %s"):format(client.pid, s))
    return 1
  end
  if o.json then print_json(s) else print_once(s, before, o.sort) end
  return 0
end

local function web(client, o)
  client:close()                -- who serves the page has a connection of its own
  local code, text = require "mare.observe.web"(client.pid, o)
  if text then say(text) end
  return code
end

local function live(client, o)
  o.colour = (os.getenv "NO_COLOR" or "") == ""
  local code, text = require "mare.observe.screen"(client, o)
  client:close()
  if text then say(text) end
  return code
end

return function(...)
  local o, err = options_of { ... }
  if not o then return mistake(err) end
  if o.help then
    io.stdout:write(usage)
    return 0
  end
  if not o.pid then
    local code
    o.pid, code = choose(o)
    if not o.pid then return code end
  end
  local client
  client, err = connect(o.pid)
  if not client then
    say(err)
    return 1
  end
  if o.web then return web(client, o) end
  local table_live = not o.once and not o.json and terminal.is(0) and terminal.is(1) and os.getenv "TERM" ~= "dumb"
  return (table_live and live or once)(client, o)
end
