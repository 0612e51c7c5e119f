-- trace: `mare trace`, JSON of what a traced program has recorded: one that was killed, or one that still runs.
local core = require "mare.trace.core"
local unknown = require "mare.cli.unknown"

local usage = [==[
  mare trace slow.json.rings              makes the trace of a program that was killed

usage: mare trace FILE.rings|PID [-o FILE]

A program under 'mare run --trace FILE' records into FILE.rings, and makes FILE of it when it ends. One that is killed
leaves FILE.rings. This makes the trace from that file, or of a program that still runs, given by its file or its process id.

Options are:
  -o FILE    where the trace goes (default: FILE.rings without '.rings'; for a process id, trace-PID.json)
  --help     show this

Open the trace in https://ui.perfetto.dev, or in chrome://tracing. Exit codes: 0, 1 if it can't be made, 2 for a mistake
on the command line.
]==]

local function mistake(text) return unknown.mistake("trace", usage, text) end

local function read(...)
  local source, to
  local list, i = { ... }, 1
  while list[i] do
    local word = list[i]
    if word == "-o" then
      i = i + 1
      to = list[i]
      if not to then return nil, "'-o' needs argument" end
    elseif word:sub(1, 1) == "-" and #word > 1 then
      return nil, unknown.option(word, { "--help" })
    elseif source then
      return nil, "one file at a time"
    else
      source = word
    end
    i = i + 1
  end
  if not source then return nil, "which file?" end
  return source, to
end

local function failed(path, message)
  io.stderr:write("mare trace: ", path, ": ", message, "\n")
  return 1
end

return function(...)
  local first = ...
  if first == "--help" or first == "-h" then
    io.stdout:write(usage)
    return 0
  end
  local source, to = read(...)
  if not source then return mistake(to) end
  local rings, pid = source, math.tointeger(tonumber(source))
  if pid then
    local message
    rings, message = core.find(pid)
    if not rings then return failed(source, message) end
    to = to or ("trace-%d.json"):format(pid)
  end
  to = to or source:match("^(.+)%.rings$")
  if not to then return mistake("where to? -o FILE") end
  local there = io.open(to, "rb")
  if there then there:close() end
  local out, why = io.open(to, "ab")             -- so that an error says which of the two files it means
  if not out then return failed(why:match("^(.*): [^:]*$"), why:match("[^ :][^:]*$")) end
  out:close()
  local r, message = core.convert(rings, to)
  if not r then
    if not there then os.remove(to) end
    return failed(source, message)
  end
  print(("%s: %d events, %.3f s"):format(to, math.tointeger(r.events), r.covered))
  if r.missing > 0 then print(("the first %.3f s are missing: there was no room for them"):format(r.missing)) end
  if r.dropped > 0 then print(("%d records were lost: too many threads for the size of the trace"):format(math.tointeger(r.dropped))) end
  return 0
end
