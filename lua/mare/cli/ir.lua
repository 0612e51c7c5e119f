-- mare ir: an interface repository of IDL files.
local folder = require "mare.cli.folder"
local json = require "mare.base.json"
local serving = require "mare.cli.serving"
local words = require "mare.cli.words"

local usage = [==[
  mare ir --port 2810 idl/                    serves the IDL of a folder; clients ask corbaloc::1.2@host:2810/InterfaceRepository

usage: mare ir [options] FILE|DIR...          serves until it is interrupted or terminated

From a folder all *.idl files are loaded, also from folders in it; one that has mistakes, or contradicts an earlier one, is reported and left out. A
file that you name yourself must be correct.

Options are:
  --port N           serves there (2810), 0: at any free port
  --host NAME        serves only at this address
  -I DIR             looks for included files there, too; can be repeated
  -D NAME[=VALUE]    defines a macro of the preprocessor
  --json             prints JSON
  -ORBname VALUE     any option of the broker
  --help             shows this

Exit codes: 0, 1 if it failed, 2 for a mistake on the command line.
]==]

local PORT = 2810

local mistake, fail = words.told("ir", usage)

local takes = {
  ["--port"] = words.port, ["--host"] = words.text "host", ["-I"] = words.list "include",
  ["-D"] = function(o, v)
    local name, value = v:match "^([%a_][%w_]*)=?(.*)$"
    if not name then return ("-D needs NAME or NAME=VALUE, got '%s'"):format(v) end
    o.define = o.define or {}
    o.define[name] = v:find("=", 1, true) and value or "1"
  end,
}
local flags = { ["--json"] = "json", ["--help"] = "help", ["-h"] = "help" }
local long = { "--port", "--host", "--json", "--help" }

-- -> how many files were loaded | nil, what is wrong
local function load(o, broker)
  local n = 0
  for _, path in ipairs(o.words) do
    local files, err = folder.files(path)
    if not files then return nil, err end
    local include = table.move(o.include or {}, 1, #(o.include or {}), 1, {})
    include[#include + 1] = path
    for _, file in ipairs(files) do
      local fine, why = pcall(broker.loadfile, broker, file, { include = include, define = o.define })
      if fine then n = n + 1
      elseif file == path then return nil, why
      else io.stderr:write("mare ir: left out: ", (tostring(why):gsub("^IDL:\n", "")), "\n") end
    end
  end
  return n
end

local function count(definitions)
  local n = 0
  for _, d in ipairs(definitions) do n = n + 1 + count(d.contents or {}) end
  return n
end

local function announce(o, broker, files)
  local repository = broker.server:definitions()
  local address = serving.corbaloc(broker, "InterfaceRepository", "1.2@")
  local n = count(broker.repository.contents)
  if o.json then
    io.stdout:write(json.text { corbaloc = address, reference = tostring(repository:root()), definitions = n, files = files }, "\n")
  else
    io.stdout:write(("serving %d definitions of %d file%s at %s\n"):format(n, files, files == 1 and "" or "s", address))
  end
  io.stdout:flush()
end

return words.command(usage, mistake, { takes = takes, flags = flags, long = long }, function(o)
  if #o.words == 0 then return mistake "no file and no folder" end
  local broker, wrong = serving.broker(o, PORT)
  if not broker then return mistake(wrong) end
  local files, why = load(o, broker)
  if not files then
    broker:close()
    return fail(why)
  end
  local opened
  opened, why = pcall(broker.address, broker)
  if not opened then
    broker:close()
    return fail(why)
  end
  announce(o, broker, files)
  serving.wait(broker)
  return 0
end)
