-- mare idl from: the IDL of a running object, from its server's interface repository, or out of a folder of IDL by its repository id.
local orb = require "mare.orb"
local idl = require "mare.orb.idl"
local exception = require "mare.orb.exception"
local file = require "mare.file"
local folder = require "mare.cli.folder"
local ior = require "mare.orb.giop.ior"
local json = require "mare.base.json"
local learn = require "mare.orb.repository.learn"
local naming = require "mare.cli.naming"
local read = require "mare.orb.repository.read"
local words = require "mare.cli.words"
local write = require "mare.orb.idl.write"

local usage = [==[
  mare idl from corbaname::host#trains/red.engine > train.idl       the IDL of a running object

usage: mare idl from [options] REF

REF is IOR:..., corbaloc:..., corbaname:... or file:///path: an object, whose server is asked for its interface, or an interface repository, all of
which is printed. What the interface needs is printed, too, in an order that other IDL compilers take.

Options are:
  --idl DIR          searches this folder, or file, by the interface's repository id, where the server has no interface repository; can be repeated
  -I DIR             looks for files that those include there, too; can be repeated
  --repository REF   asks this interface repository instead of the object's server
  --timeout SECONDS  how long asking may take (30)
  --json             prints one JSON object: id, from, idl
  -ORBname VALUE     any option of the broker
  --help             shows this

Exit codes: 0, 1 if it failed, 2 for a mistake on the command line.
]==]

local mistake, fail = words.told("idl from", usage)

local takes = {
  ["--idl"] = words.list "idl", ["-I"] = words.list "include", ["--repository"] = words.text "repository", ["--timeout"] = words.timeout,
}
local flags = { ["--json"] = "json", ["--help"] = "help", ["-h"] = "help" }
local long = { "--idl", "--repository", "--timeout", "--json", "--help" }

-- ---- by the repository ----

-- Everything is said once: what is known is orb.idl alone.
local function reader(broker, o, repository)
  local known = idl.repository()
  assert(known:load "#include <orb.idl>")
  return read.new(broker, { known = read.known(known), whole = true, time = o.timeout, repository = repository })
end

local function is_a(object, name)
  local fine, is = pcall(object._is_a, object, "IDL:omg.org/CORBA/" .. name .. ":1.0")
  if not fine and exception.is_system(is) ~= "BAD_OPERATION" then error(is, 0) end
  return fine and is
end

-- What is printed and its id | nil, why there is no repository to ask
local function from_repository(broker, o, object)
  if is_a(object, "Repository") then
    local r = reader(broker, o)
    r:everything(object)
    return r:text(), "IDL:omg.org/CORBA/Repository:1.0"
  end
  if o.repository then
    local r = reader(broker, o, broker:proxy(o.repository, "Object"))
    local id = ior.parse(rawget(object, "_ior")).type_id
    if id == "" then return nil, "the reference has no repository id to ask for" end
    r:id(id)
    return r:text(), id
  end
  local description, why = object, nil
  if not is_a(object, "InterfaceDef") then description, why = learn.ask(broker, object, o.timeout) end
  if not description then return nil, why end
  local r = reader(broker, o)
  local model = r:interface(description)
  return r:text(), model.id
end

-- ---- by the folder ----

-- The ids under which an object is to be found: its reference's, or what its server calls it.
local function id_of(object)
  local id = ior.parse(rawget(object, "_ior")).type_id
  return id ~= "" and id ~= "IDL:omg.org/CORBA/Object:1.0" and id or nil
end

-- What a file defines with this id, and its repository.
local function look(path, id, include)
  local repository = idl.repository()
  local fine = repository:loadfile(path, { include = include })
  local found = fine and repository.ids[id]
  return found and not found.forward and found.file and found or nil, repository
end

-- -> text, path | nil, what is wrong
local function from_folder(o, id)
  for _, dir in ipairs(o.idl) do
    local files, err = folder.files(dir)
    if not files then return nil, err end
    local include = { table.unpack(o.include or {}) }
    include[#include + 1] = dir
    for _, path in ipairs(files) do
      local found, repository = look(path, id, include)
      if found then
        return write.including(write.text(write.needed(repository, found))), path
      end
    end
  end
  return nil, ("no IDL in %s defines '%s'"):format(table.concat(o.idl, ", "), id)
end

-- ---- both ----

-- Raises what failed. -> text, id, where from
local function find(broker, o, object)
  local text, id = from_repository(broker, o, object)
  if text then return text, id, "interface repository" end
  local why = id
  id = id_of(object)
  if not id then error({ text = why .. "; and the reference has no repository id to search a folder by" }, 0) end
  if not o.idl then error({ text = ("%s; --idl DIR searches a folder of IDL for '%s'"):format(why, id) }, 0) end
  io.stderr:write("mare idl from: ", why, "; searching for '", id, "'\n")
  local from
  text, from = from_folder(o, id)
  if not text then error({ text = from }, 0) end
  return text, id, from
end

local function reach(broker, ref)
  local fine, object = pcall(broker.proxy, broker, ref, "Object")
  if fine and object then return object end
  if fine then error({ text = "the reference is nil" }, 0) end
  if naming.is_mistake(object) then error({ mistake = tostring(object) }, 0) end
  error({ text = naming.words(object, ref) }, 0)
end

return words.command(usage, mistake, { takes = takes, flags = flags, long = long }, function(o)
  o.timeout = o.timeout or 30
  if #o.words ~= 1 then return mistake(#o.words == 0 and "no reference" or ("one reference, not '%s', too"):format(o.words[2])) end
  for _, path in ipairs(o.idl or {}) do
    local stat, why = file.stat(path)
    if not stat then return mistake(("--idl %s: %s"):format(path, why)) end
  end
  local made, broker = pcall(orb.init, { args = o.orb, timeout = o.timeout })
  if not made then return mistake(broker) end
  local guard <close> = broker                   -- luacheck: ignore guard
  local fine, text, id, from = pcall(function() return find(broker, o, reach(broker, o.words[1])) end)
  if fine then
    if o.json then io.stdout:write(json.text { id = id, from = from, idl = text }, "\n") else io.stdout:write(text) end
    return 0
  end
  if type(text) == "table" and text.mistake then return mistake(text.mistake) end
  return fail(type(text) == "table" and not text._repid and text.text or text)
end)
