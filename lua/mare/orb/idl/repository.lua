-- repository: what has been loaded; see docs/idl.md.
--
-- A load either adds all of its text or changes nothing (checker.lua keeps the journal). Definitions are plain tables; scopes, which hold the
-- names inside them, are kept apart in `scopes`. root is the scope of the top level, contents its definitions in order, ids: id -> definition.
local basic = require "mare.orb.idl.basic"
local checker = require "mare.orb.idl.checker"
local errors = require "mare.orb.idl.errors"
local lexer = require "mare.orb.idl.lexer"
local parser = require "mare.orb.idl.parser"
local preprocessor = require "mare.orb.idl.preprocessor"
local same = require "mare.orb.idl.same"

preprocessor.builtin["orb.idl"] = require "mare.orb.idl.builtin"
preprocessor.builtin["CosNaming.idl"] = require "mare.orb.services.cosnaming"
-- Those of events are many, and read when one is included.
setmetatable(preprocessor.builtin, { __index = function(_, name)
  return (name:find "^Cos" or name:find "Events%.idl$") and require "mare.orb.services.events.idl"[name] or nil
end })
preprocessor.builtin["ir.idl"] = require "mare.orb.repository.definitions"

local repository = {}
repository.__index = repository

-- The interfaces of the Interface Repository. Files name them (CORBA::InterfaceDef), who wants to call them loads their IDL: here they are declared,
-- which any definition of them completes.
local interface_repository = [[IRObject Contained Container IDLType Repository ModuleDef ConstantDef TypedefDef StructDef UnionDef EnumDef AliasDef
  NativeDef PrimitiveDef StringDef WstringDef FixedDef SequenceDef ArrayDef ExceptionDef AttributeDef ExtAttributeDef OperationDef InterfaceDef
  InterfaceAttrExtension ExtInterfaceDef AbstractInterfaceDef ExtAbstractInterfaceDef LocalInterfaceDef ExtLocalInterfaceDef ValueMemberDef ValueDef
  ExtValueDef ValueBoxDef]]

-- CORBA's own names, which every file may use.
local function add_corba(repo)
  local corba = { kind = "module", id = "IDL:omg.org/CORBA:1.0", name = "CORBA", scoped = "CORBA", contents = {} }
  local scope = { definition = corba, parent = repo.root, names = {}, used = {}, bases = {} }
  for name, definition in pairs { TypeCode = basic.TypeCode, Object = basic.object, ValueBase = basic.valuebase } do
    scope.names[name:lower()] = { name = name, definition = definition }
    if definition.id then repo.ids[definition.id] = definition end
  end
  for name in interface_repository:gmatch("%a+") do
    local definition = { kind = "interface", name = name, scoped = "CORBA::" .. name, id = "IDL:omg.org/CORBA/" .. name .. ":1.0", forward = true,
                         bases = {}, contents = {}, members = {} }
    scope.names[name:lower()] = { name = name, definition = definition }
    repo.ids[definition.id] = definition
  end
  repo.ids[corba.id] = corba
  repo.root.names.corba = { name = "CORBA", definition = corba }
  repo.scopes[corba] = scope
end

function repository.new()
  local repo = setmetatable({ root = { names = {}, used = {}, bases = {} }, contents = {}, ids = {}, scopes = {}, types = {},
                              flattened = setmetatable({}, { __mode = "k" }) }, repository)
  add_corba(repo)
  return repo
end

-- options.replace: what is defined differently takes the place of what there was. options.lenient: `in Info info` is allowed, as old compilers do.
local function parse(c, text, options)
  local tokens = preprocessor.run(text, options, c.errors)
  if #c.errors > 0 then return end
  parser.new(tokens, c):specification()
  c:finish()
  if #c.errors > 0 then return end
  if #c.again > 0 then
    if options.replace then c.again = same.replace(c, c.again) end
    local map = same.compare(c.again, c.errors)
    if #c.errors == 0 then same.unify(c, map) end
  end
end

function repository:load(text, options)
  local list, notes = errors.new(), errors.notes()
  local c = checker.new(self, list, notes)
  local given = { name = "idl" }
  for k, v in pairs(options or {}) do given[k] = v end
  c.lenient = given.lenient
  local ok, err = pcall(parse, c, text, given)
  if ok and #list == 0 then
    self.types = {}
    return c.top, notes
  end
  c:undo()
  if not ok and err ~= errors.full and err ~= errors.halt then error(err, 0) end
  return nil, list
end

function repository:loadfile(path, options)
  local given = { name = path }
  for k, v in pairs(options or {}) do given[k] = v end
  local text, why = (given.read or preprocessor.read)(path)
  if text then return self:load(text, given) end
  local list = errors.new()
  list:add({ file = path, line = 1, column = 1 }, "can't read this file: %s", why or "unknown error")
  return nil, list
end

function repository:lookup(name)
  if self.ids[name] then return self.ids[name] end
  local scope, definition = self.root, nil
  for word in name:gsub("^::", ""):gsub("::", "."):gmatch("[^.]+") do
    local entry = scope and checker.find(scope, word)
    if not entry or entry.name ~= word then return nil end
    definition = entry.definition
    scope = self.scopes[definition]
  end
  return definition
end

local function parse_type(c, text)
  local tokens = lexer.tokens(text, "type", c.errors)
  local p = parser.new(tokens, c)
  local type = p:type_spec("a type")
  if p.token.kind ~= "end" then p:expected("the end of the type") end
  return type
end

function repository:type(text)
  if self.types[text] then return self.types[text] end
  local list = errors.new()
  local c = checker.new(self, list, errors.notes())
  local ok, result = pcall(parse_type, c, text:find("^[%w_%.]+$") and text:gsub("%.", "::") or text)
  c:undo()
  if not ok and result ~= errors.halt and result ~= errors.full then error(result, 0) end
  if not ok or #list > 0 then return nil, list end
  self.types[text] = result
  return result
end

-- ---- interfaces ----

local function accessor(attribute, prefix, result, params, raises)
  return { kind = "operation", name = prefix .. attribute.name, oneway = false, result = result, params = params, raises = raises, context = {},
           id = attribute.id, scoped = attribute.scoped, file = attribute.file, line = attribute.line, attribute = attribute }
end

local function flatten(interface, into, seen)
  if seen[interface] then return into end
  seen[interface] = true
  for _, base in ipairs(interface.bases) do flatten(base, into, seen) end
  for _, definition in ipairs(interface.contents) do
    if definition.kind == "operation" then
      into[definition.name] = definition
    elseif definition.kind == "attribute" then
      into["_get_" .. definition.name] = accessor(definition, "_get_", definition.type, {}, definition.getraises)
      if not definition.readonly then
        local value = { { name = "value", mode = "in", type = definition.type } }
        into["_set_" .. definition.name] = accessor(definition, "_set_", basic.void, value, definition.setraises)
      end
    end
  end
  return into
end

-- Its operations and those of its bases by name; attributes as _get_x and _set_x. The same table each time: not to be changed.
function repository:operations(interface)
  local all = self.flattened[interface]
  if not all then
    all = flatten(interface, {}, {})
    if not interface.forward then self.flattened[interface] = all end
  end
  return all
end

-- Whether an object of the interface is one of `id`: its own, a base's or CORBA::Object's.
function repository.is_a(_, interface, id)
  if id == basic.object.id then return true end
  local seen = {}
  local function search(i)
    if i.id == id then return true end
    if seen[i] then return false end
    seen[i] = true
    for _, base in ipairs(i.bases) do
      if search(base) then return true end
    end
    return false
  end
  return search(interface)
end

return repository
