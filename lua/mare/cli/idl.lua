-- mare idl: checks IDL files, and shows what they define.
local idl = require "mare.orb.idl"
local json = require "mare.base.json"
local show = require "mare.orb.idl.show"
local unknown = require "mare.cli.unknown"

local usage = [==[
  mare idl show -I /usr/share/idl hello.idl    prints what it defines, with repository ids and the values of constants

usage: mare idl check [options] FILE...        is it correct? Errors are written as file:line:column: message
       mare idl show [options] FILE...         prints its definitions
       mare idl from [options] REFERENCE       prints the IDL of a running object, see mare idl from --help

Options are:
  -I DIR           looks for included files there, too
  -D NAME[=TEXT]   defines a macro, as 1 or as TEXT
  -a, --all        show: also what is defined in included files
  --json           prints one JSON object for each file
  --help           shows this

Each file is read by itself. Exit codes: 0, 1 if a file has errors, 2 for a mistake on the command line.
]==]

-- ---- the command line ----

local function with_argument(letter, text, options)
  if letter == "I" then
    table.insert(options.include, text)
    return
  end
  local name, value = text:match("^([%a_][%w_]*)=?(.*)$")
  if not name then return ("-D needs NAME or NAME=TEXT, got '%s'"):format(text) end
  options.define[name] = text:find("=", 1, true) and value or "1"
end

local plain = {
  ["--json"] = "json", ["--help"] = "help", ["-h"] = "help", ["-a"] = "all", ["--all"] = "all",
}

local function read(words)
  local options, files, i, ended = { include = {}, define = {} }, {}, 1, false
  while words[i] do
    local word = words[i]
    local letter, text = word:match("^%-([ID])(.*)$")
    if ended or word:sub(1, 1) ~= "-" then
      files[#files + 1] = word
    elseif word == "--" then
      ended = true
    elseif plain[word] then
      options[plain[word]] = true
    elseif letter then
      if text == "" then
        i = i + 1
        text = words[i]
        if not text then return nil, ("'%s' needs an argument"):format(word) end
      end
      local err = with_argument(letter, text, options)
      if err then return nil, err end
    else
      return nil, unknown.option(word, { "--json", "--help", "--all" })
    end
    i = i + 1
  end
  return options, files
end

-- ---- the files ----

local function from_file(path)
  local shown
  function shown(definition)
    if definition.kind ~= "module" then return definition.file == path end
    for _, inner in ipairs(definition.contents) do
      if shown(inner) then return true end
    end
    return false
  end
  return shown
end

local function count(definitions)
  local n = 0
  for _, d in ipairs(definitions) do n = n + 1 + count(d.contents or {}) end
  return n
end

local function places(list)
  local out = {}
  for i, e in ipairs(list) do out[i] = { file = e.file, line = e.line, column = e.column, message = e.message } end
  return out
end

local function as_json(command, path, definitions, problems, shown)
  local t = { file = path, ok = definitions ~= nil, errors = definitions and {} or places(problems), notes = definitions and places(problems) or {} }
  if definitions and command == "show" then t.definitions = show.data(definitions, shown) end
  if definitions and command == "check" then t.definitions = count(definitions) end
  io.stdout:write(json.text(t), "\n")
end

local function one(command, path, options)
  local definitions, problems = idl.repository():loadfile(path, { include = options.include, define = options.define })
  local shown = not options.all and from_file(path) or nil
  if options.json then
    as_json(command, path, definitions, problems, shown)
    return definitions ~= nil
  end
  for _, e in ipairs(problems) do
    io.stderr:write(("%s:%d:%d: %s%s\n"):format(e.file, e.line, e.column, definitions and "note: " or "", e.message))
  end
  if definitions and command == "show" then io.stdout:write(show.text(definitions, shown)) end
  if definitions and command == "check" then io.stdout:write(("%s: correct, %d definitions\n"):format(path, count(definitions))) end
  return definitions ~= nil
end

local function mistake(text) return unknown.mistake("idl", usage, text) end

return function(command, ...)
  if command == "from" then return require "mare.cli.from" (...) end
  local options, files = read { ... }
  if command == "--help" or command == "-h" or options and options.help then
    io.stdout:write(usage)
    return 0
  end
  if command ~= "check" and command ~= "show" then
    return mistake(command and unknown.command(command, { "check", "show", "from" }) or "check, show or from?")
  end
  if not options then return mistake(files) end
  if #files == 0 then return mistake("no file") end
  local good = true
  for _, path in ipairs(files) do good = one(command, path, options) and good end
  return good and 0 or 1
end
