--[[
mare.cli.words: reads the command lines of tools for CORBA objects. Of services (mare names, mare events) read takes all: options anywhere, words in
order, any option of the broker; who has another order (mare call) takes the options by words.option.

  takes = { ["--port"] = function(o, value) … return nil | what is wrong with it end }       flags = { ["--json"] = "json" }: o.json = true
]]
local unknown = require "mare.cli.unknown"

local words = {}

--- How a command says what is wrong with its words, and what went wrong otherwise: mistake(text), fail(text), each gives the exit code. With `usage`
--- a mistake shows its lines, too.
function words.told(command, usage)
  local function mistake(text) return unknown.mistake(command, usage, text) end
  local function fail(text)
    io.stderr:write("mare ", command, ": ", tostring(text), "\n")
    return 1
  end
  return mistake, fail
end

--- A number that is not below `least`, or nil.
function words.number(text, least)
  local n = tonumber(text)
  return n and n >= least and n or nil
end

--- What `--port` takes.
function words.port(o, v)
  o.port = math.tointeger(words.number(v, 0))
  if not o.port or o.port > 65535 then return ("--port takes a number from 0 to 65535, not '%s'"):format(v) end
end

--- What `--timeout` takes.
function words.timeout(o, v)
  o.timeout = words.number(v, 0)
  if not o.timeout then return ("--timeout takes a number of seconds, not '%s'"):format(v) end
end

--- What an option takes that is any text, or that can be repeated.
function words.text(name)
  return function(o, v) o[name] = v end
end

function words.list(name)
  return function(o, v)
    o[name] = o[name] or {}
    table.insert(o[name], v)
  end
end

--- The option at i, with its value. -> where the next word is | nil, what is wrong
function words.option(o, argv, i, takes, flags, long)
  local word = argv[i]
  local name, value = word:match "^(%-%-%a+)=(.*)$"
  name = name or word
  if flags[word] then
    o[flags[word]] = true
    return i + 1
  end
  if word:find "^%-ORB%a" then
    if not argv[i + 1] then return nil, ("option '%s' needs a value"):format(word) end
    table.move(argv, i, i + 1, #o.orb + 1, o.orb)
    return i + 2
  end
  if not takes[name] then return nil, unknown.option(word, long) end
  if not value then
    i = i + 1
    value = argv[i]
    if not value then return nil, ("option '%s' needs a value"):format(name) end
  end
  local err = takes[name](o, value)
  if err then return nil, err end
  return i + 1
end

--- -> { words = { … }, orb = options of the broker, … } | nil, what is wrong. `long`: options that a misspelt one may have meant.
function words.read(argv, takes, flags, long)
  local o, i = { orb = {}, words = {} }, 1
  while argv[i] do
    if argv[i]:sub(1, 1) ~= "-" or o.plain then
      table.insert(o.words, argv[i])
      i = i + 1
    elseif argv[i] == "--" then
      o.plain, i = true, i + 1
    else
      local after, err = words.option(o, argv, i, takes, flags, long)
      if not after then return nil, err end
      i = after
    end
  end
  return o
end

--- A command of such a line: --help, or what run(o) does, which gives the exit code.
function words.command(usage, mistake, line, run)
  return function(...)
    local o, err = words.read({ ... }, line.takes, line.flags, line.long)
    if not o then return mistake(err) end
    if not o.help then return run(o) end
    io.stdout:write(usage)
    return 0
  end
end

return words
