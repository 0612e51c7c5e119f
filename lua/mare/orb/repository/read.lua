--[[
mare.orb.repository.read: definitions out of somebody else's Interface Repository.

  local reader = read.new(broker, { known = function(id) … end, definitions =, bytes =, depth =, time =, whole = bool })
  local model = reader:interface(object)         what an InterfaceDef describes, and all it needs
  reader:everything(repository)                  all that a Repository has
  reader.units                                   definitions that stand in modules or at the top, for idl/write.lua

What comes is a stranger's word. It becomes *models*: tables such as ../idl makes, by their ids, of which each is asked for once. A model is made
when its id is first met and filled later, from a queue, so neither circles nor long chains cost a stack. Names and ids are checked before they are
kept; that all of it is correct IDL the compiler says, which reads what idl/write.lua makes of the models. Nothing here is ever run.

Bounded are: models and members, bytes of their names, levels of types in each other, seconds of the whole. What is beyond, and what contradicts
itself, is INTF_REPOS; a server that dies or is silent raises what any call of it raises.

An interface that a type only refers to is declared, not read, unless `whole`: whoever gets such an object asks for it then.
]]
local mare = require "mare"
local idl = require "mare.orb.idl"
local basic = require "mare.orb.idl.basic"
local exception = require "mare.orb.exception"
local interface = require "mare.orb.interface"
local invoke = require "mare.orb.invoke"
local kinds = require "mare.orb.repository.kinds"
local proxy = require "mare.orb.proxy"
local sound = require "mare.orb.repository.sound"
local write = require "mare.orb.idl.write"

local read = { limits = { definitions = 10000, bytes = 4 << 20, depth = 50, time = 30 } }

local reader = {}
reader.__index = reader

local NAME, ID = 1000, 2000                       -- most bytes of one
local MEMBERS = 10                               -- so many per definition that the limit allows, on average

local function lie(format, ...)
  error(exception.system("INTF_REPOS", 0, "COMPLETED_NO", "the interface repository " .. format:format(...)), 0)
end

------------------------------------------------------------------------------------------------------------------ asking

local function remaining(self)
  local left = self.deadline - mare.clock()
  if left <= 0 then error(exception.system("TIMEOUT", 0, "COMPLETED_NO", "the interface repository took too long"), 0) end
  return left
end

-- Calls an operation of one of the repository's interfaces, whatever the reference says of itself.
local function ask(self, object, name, operation, ...)
  if self.answers then return self.answers(object, name, operation, ...) end   -- spec/support/repository_worlds.lua
  if not proxy.is(object) then lie("gave no object where it owes a %s", name) end
  local ready, key = self.broker.operations, "CORBA::" .. name .. "::" .. operation
  if not ready[key] then ready[key] = interface.operation(self.broker.env, "CORBA::" .. name, kinds.operations(name)[operation]) end
  return invoke.run({ broker = self.broker, target = proxy.state(object).target, timeout = remaining(self) }, ready[key], ...)
end

---------------------------------------------------------------------------------------------------------------- checking

local function count(self, bytes)
  self.nbytes = self.nbytes + bytes
  if self.nbytes > self.limits.bytes then lie("says more than %d bytes of names", self.limits.bytes) end
end

local function shown(value) return (tostring(value):sub(1, 100):gsub("[^%g ]", "?")) end

-- JacORB's escapes names as IDL does, with an underscore.
local function name_of(self, value)
  local name = type(value) == "string" and #value <= NAME and value:match "^_?(%a[%w_]*)$"
  if not name then lie("says '%s' where a name is wanted", shown(value)) end
  count(self, #name)
  return name
end

local function id_of(self, value)
  if type(value) ~= "string" or value == "" or #value > ID or value:find '[^!-~]' or value:find '["\\]' then
    lie("says '%s' where a repository id is wanted", shown(value))
  end
  count(self, #value)
  return value
end

local function scoped_name(self, value, name)
  local scoped = type(value) == "string" and #value <= 50 * NAME and value:gsub("^::", "") or lie("gives no absolute name of '%s'", name)
  local words = {}
  for word in (scoped .. "::"):gmatch "(.-)::" do words[#words + 1] = name_of(self, word) end
  scoped = table.concat(words, "::")
  if scoped:match "[^:]*$" ~= name then lie("calls '%s' also '%s'", name, shown(scoped)) end
  return scoped
end

-- A list of at most as many elements as there may be members at all.
local function list_of(self, value, what)
  if type(value) ~= "table" then lie("gives no list of %s", what) end
  self.nmembers = self.nmembers + #value
  if self.nmembers > MEMBERS * self.limits.definitions then lie("gives too many %s", what) end
  return value
end

-- f of each element, which is a table, or a text if `texts`.
local function map(self, value, what, f, texts)
  local out = {}
  for i, v in ipairs(list_of(self, value, what)) do
    if type(v) ~= (texts and "string" or "table") then lie("has '%s' among the %s", shown(v), what) end
    out[i] = f(self, v)
  end
  return out
end

-- Repositories that can't describe all at once, as JacORB's, raise these.
local unable = { UNKNOWN = true, NO_IMPLEMENT = true, INTF_REPOS = true, BAD_OPERATION = true }

-- What a container holds itself: descriptions as describe_contents gives them.
local function described(self, object)
  if not self.one_by_one then
    local fine, list = pcall(ask, self, object, "Container", "describe_contents", "dk_all", true, -1)
    if fine then return list_of(self, list, "definitions") end
    if not unable[exception.is_system(list)] then error(list, 0) end
    self.one_by_one = true
  end
  local out = {}
  for i, o in ipairs(list_of(self, ask(self, object, "Container", "contents", "dk_all", true), "definitions")) do
    local d = ask(self, o, "Contained", "describe")
    out[i] = { contained_object = o, kind = d.kind, value = d.value }
  end
  return out
end

------------------------------------------------------------------------------------------------------------------ models

-- DefinitionKind -> what a model has from the start.
local fresh = {
  dk_Module = function() return { kind = "module", contents = {} } end,
  dk_Interface = function() return { kind = "interface", bases = {}, contents = {}, members = {} } end,
  dk_AbstractInterface = function() return { kind = "interface", abstract = true, bases = {}, contents = {}, members = {} } end,
  dk_LocalInterface = function() return { kind = "interface", ["local"] = true, bases = {}, contents = {}, members = {} } end,
  dk_Value = function() return { kind = "value", bases = {}, supports = {}, contents = {}, members = {}, state = {} } end,
  dk_Struct = function() return { kind = "struct", members = {} } end,
  dk_Union = function() return { kind = "union", members = {} } end,
  dk_Exception = function() return { kind = "except", members = {} } end,
  dk_Enum = function() return { kind = "enum", labels = {} } end,
  dk_Alias = function() return { kind = "alias" } end,
  dk_Constant = function() return { kind = "const" } end,
  dk_ValueBox = function() return { kind = "valuebox" } end,
  dk_Native = function() return { kind = "native" } end,
  dk_Operation = function() return { kind = "operation", params = {}, raises = {}, context = {} } end,
  dk_Attribute = function() return { kind = "attribute", getraises = {}, setraises = {} } end,
  dk_ValueMember = function() return { kind = "statemember" } end,
}

local want

-- kind -> the kinds it stands in, of those that stand in no module.
local inside = { operation = { interface = true, value = true }, attribute = { interface = true, value = true }, statemember = { value = true } }

-- A new model. `holder`: the model it stands in, or nil.
local function make(self, kind, id, name, holder, object, about)
  local model = (fresh[kind] or lie("has a '%s' among definitions", shown(kind)))()
  local holders = inside[model.kind]
  if holders and not (holder and holders[holder.kind]) then lie("has the %s '%s' in nothing that holds such", model.kind, name) end
  self.n = self.n + 1
  if self.n > self.limits.definitions then lie("has more than %d definitions", self.limits.definitions) end
  model.id, model.name, model.holder, model.object, model.about = id, name, holder, object, about
  model.scoped = holder and holder.scoped .. "::" .. name or name
  model.file, model.line, model.column = "interface repository", self.n, 1
  self.models[id] = model
  return model
end

-- It stands in a module or at the top: it is written, and filled when its turn comes.
local function take(self, model)
  model.taken = true
  self.units[#self.units + 1] = model
  self.queue[#self.queue + 1] = model
end

-- The any in a description: a table that says at least name and id.
local function description(self, any, id)
  local about = type(any) == "table" and any._anyval
  if type(about) ~= "table" then lie("describes '%s' by nothing", shown(id)) end
  if id and about.id ~= id then lie("gives '%s' where '%s' was asked for", shown(about.id), shown(id)) end
  return about, id_of(self, about.id), name_of(self, about.name)
end

-- What a definition stands in, which the repository knows by this id.
local function holder_of(self, about, scoped, level)
  local outer = scoped:match "^(.*)::[^:]*$"
  if not outer then return nil end
  if level > self.limits.depth then lie("has scopes in each other more than %d deep", self.limits.depth) end
  local holder = want(self, about.defined_in, true, level + 1)
  if holder.scoped ~= outer then lie("has '%s' in '%s'", shown(scoped), shown(holder.scoped)) end
  return holder
end

local function is_interface(model) return model.kind == "interface" end

-- Whether a definition that is in `holder` is filled by itself: not what an interface or a value holds, which comes with that.
local function comes_with(holder)
  return holder and (holder.kind == "interface" or holder.kind == "value")
end

local function begin(self, model)
  if model.kind == "module" or model.taken then return end
  local holder = model.holder
  if not holder or holder.kind == "module" then return take(self, model) end
  begin(self, holder)
  if not comes_with(holder) then
    model.taken = true
    self.queue[#self.queue + 1] = model
  end
end

-- The model of an id. `soft`: its name is enough.
function want(self, id, soft, level)
  local model = self.models[id_of(self, id)] or self.known(id, soft)
  if not model then
    local object = ask(self, self.repository, "Repository", "lookup_id", id)
    if object == nil then lie("does not know '%s'", shown(id)) end
    local d = ask(self, object, "Contained", "describe")
    local about, _, name = description(self, d.value, id)
    local scoped = scoped_name(self, ask(self, object, "Contained", "_get_absolute_name"), name)
    local holder = holder_of(self, about, scoped, level or 0)
    model = self.models[id] or make(self, d.kind, id, name, holder, object, about)
  end
  if model.object and not soft then begin(self, model) end
  return model
end

------------------------------------------------------------------------------------------------------------------- types

local named = { struct = true, union = true, enum = true, alias = true, except = true, interface = true, value = true, valuebox = true,
                native = true }

local function bound(value) return math.type(value) == "integer" and value >= 0 and value or lie("gives '%s' as a bound", shown(value)) end

-- What is known already holds, also of its TypeCode: by another one its values would be read wrong.
local function agreed(self, model, T)
  if model.kind ~= T.kind then lie("says that '%s' is a %s, and that it is a %s", T.id, T.kind, model.kind) end
  if not self.models[model.id] and not sound.agree(T, model, self.limits.depth) then
    lie("says something else of '%s' than is known of it", T.id)
  end
  return model
end

-- A type as a TypeCode tells it; what has an id is the model of that id.
local function type_of(self, T, level)
  level = level or 0
  if type(T) ~= "table" or type(T.kind) ~= "string" then lie("gives no type where one is wanted") end
  if level > self.limits.depth then lie("has types in each other more than %d deep", self.limits.depth) end
  local kind = T.kind
  if kind == "string" or kind == "wstring" then return bound(T.bound) == 0 and basic[kind] or { kind = kind, bound = T.bound } end
  if basic[kind] then return basic[kind] end
  if kind == "fixed" then return { kind = kind, digits = bound(T.digits), scale = bound(T.scale) } end
  if kind == "sequence" then return { kind = kind, element = type_of(self, T.element, level + 1), bound = bound(T.bound) } end
  if kind == "array" then return { kind = kind, element = type_of(self, T.element, level + 1), length = bound(T.length) } end
  if not named[kind] then lie("has a type of kind '%s'", shown(kind)) end
  if kind == "interface" and (T.id == basic.object.id or T.id == "") then return basic.object end
  if kind == "value" and T.id == basic.valuebase.id then return basic.valuebase end
  return agreed(self, want(self, T.id, kind == "interface" and not self.whole), T)
end

local function member(self, m) return { name = name_of(self, m.name), type = type_of(self, m.type) } end

local function exception_of(self, e)
  local model = want(self, e.id)
  if type(e.type) == "table" then agreed(self, model, e.type) end
  return model
end

local modes = { PARAM_IN = "in", PARAM_OUT = "out", PARAM_INOUT = "inout" }

local function parameter(self, p)
  return { name = name_of(self, p.name), mode = modes[p.mode] or lie("has a parameter of mode '%s'", shown(p.mode)), type = type_of(self, p.type) }
end

local function base(self, id) return want(self, id) end

-- A description's own TypeCode, which is of that kind.
local function own_type(model, about)
  local T = about.type
  if type(T) ~= "table" or T.kind ~= model.kind then lie("gives '%s' the TypeCode of something else", model.id) end
  return T
end

local function plain(value)
  local t = type(value)
  if t == "number" or t == "boolean" then return value end
  return t == "string" and value or lie("has a constant or a label that is none")
end

----------------------------------------------------------------------------------------------------------------- filling

local fill = {}

local function contents(self, model)
  for _, d in ipairs(described(self, model.object)) do
    local about, id, name = description(self, d.value)
    local inner = self.models[id]
    if inner and inner.holder ~= model then lie("has '%s' in two places", shown(id)) end
    if self.known(id, true) then lie("has '%s' in '%s'", shown(id), shown(model.scoped)) end
    inner = inner or make(self, d.kind, id, name, model, d.contained_object, about)
    inner.about, inner.object = about, d.contained_object
    if not inner.listed then
      inner.listed = true
      table.insert(model.contents, inner)
      self.queue[#self.queue + 1] = inner
    end
  end
end

-- The ids of an interface's bases. JacORB's describes them by names of Java, and has their objects.
local function base_ids(self, model, about)
  local given = about.base_interfaces
  if type(given) ~= "table" or type(given[1]) ~= "string" or given[1]:find(":", 1, true) then return given end
  local ids = {}
  for i, object in ipairs(list_of(self, ask(self, model.object, "InterfaceDef", "_get_base_interfaces"), "bases")) do
    ids[i] = ask(self, object, "Contained", "_get_id")
  end
  return ids
end

function fill.interface(self, model, about)
  model.bases = map(self, base_ids(self, model, about), "bases", base, true)
  contents(self, model)
end

local function factories(self, model)
  local extended = require "mare.orb.giop.ior".parse(rawget(model.object, "_ior")).type_id == "IDL:omg.org/CORBA/ExtValueDef:1.0"
  local list = ask(self, model.object, extended and "ExtValueDef" or "ValueDef", extended and "_get_ext_initializers" or "_get_initializers")
  for i, f in ipairs(list_of(self, list, "initializers")) do
    local params = map(self, f.members, "parameters", member)
    for _, p in ipairs(params) do p.mode = "in" end
    local name = name_of(self, f.name)
    table.insert(model.contents, { kind = "factory", name = name, params = params, scoped = model.scoped .. "::" .. name, holder = model, line = i,
                                   raises = f.exceptions and map(self, f.exceptions, "exceptions", exception_of) or {}, file = model.file })
  end
end

function fill.value(self, model, about)
  model.abstract, model.custom = about.is_abstract == true or nil, about.is_custom == true or nil
  model.truncatable = about.is_truncatable == true or nil
  if about.base_value ~= "" and about.base_value ~= basic.valuebase.id then model.bases[1] = want(self, about.base_value) end
  for _, b in ipairs(map(self, about.abstract_base_values, "bases", base, true)) do table.insert(model.bases, b) end
  model.supports = map(self, about.supported_interfaces, "supported interfaces", base, true)
  contents(self, model)
  if not model.abstract then factories(self, model) end
end

function fill.struct(self, model, about) model.members = map(self, own_type(model, about).members, "members", member) end
fill.except = fill.struct

function fill.union(self, model, about)
  local T = own_type(model, about)
  model.discriminator = type_of(self, T.discriminator)
  for i, m in ipairs(list_of(self, T.members, "members")) do
    local t = member(self, m)
    if i ~= T.default then t.label = plain(m.label) else model.default = i end
    model.members[i] = t
  end
end

function fill.enum(self, model, about) model.labels = map(self, own_type(model, about).labels, "labels", name_of, true) end
function fill.alias(self, model, about) model.type = type_of(self, own_type(model, about).type) end
fill.valuebox = fill.alias
function fill.native() end

-- In IDL strings are ISO 8859-1, in Lua UTF-8. What can be no string of IDL's stays as it is.
local function to_idl(self, value)
  if self.broker.native or type(value) ~= "string" or not utf8.len(value) then return value end
  local bytes = {}
  for _, c in utf8.codes(value) do
    if c > 255 then return value end
    bytes[#bytes + 1] = string.char(c)
  end
  return table.concat(bytes)
end

function fill.const(self, model, about)
  model.type = type_of(self, about.type)
  if type(about.value) ~= "table" then lie("gives no value of '%s'", model.id) end
  model.value = plain(about.value._anyval)
  local T = sound.behind(about.type, self.limits.depth) or lie("gives '%s' a type in a circle", model.id)
  if T.kind == "string" then model.value = to_idl(self, model.value) end
end

function fill.operation(self, model, about)
  model.oneway, model.result = about.mode == "OP_ONEWAY", type_of(self, about.result)
  model.params, model.raises = map(self, about.parameters, "parameters", parameter), map(self, about.exceptions, "exceptions", exception_of)
  for i, name in ipairs(list_of(self, about.contexts, "contexts")) do
    model.context[i] = type(name) == "string" and name:find "^%a[%w%._]*%*?$" and name or lie("has '%s' as a context", shown(name))
  end
end

function fill.attribute(self, model, about)
  model.readonly, model.type = about.mode == "ATTR_READONLY", type_of(self, about.type)
  if about.get_exceptions then model.getraises = map(self, about.get_exceptions, "exceptions", exception_of) end
  if about.put_exceptions and not model.readonly then model.setraises = map(self, about.put_exceptions, "exceptions", exception_of) end
end

function fill.statemember(self, model, about)
  model.type, model.public = type_of(self, about.type), about.access == 1
  table.insert(model.holder.state, model)
end

-- Fills all that is waiting, and what that needs in its turn.
local function settle(self)
  local queue, i = self.queue, 1
  while queue[i] do
    local model = queue[i]
    if not model.filled then
      model.filled, model.forward = true, nil
      fill[model.kind](self, model, model.about)
    end
    queue[i] = false
    i = i + 1
  end
  self.queue = {}
  for id, model in pairs(self.models) do
    if model.filled then model.object, model.about = nil, nil
    elseif is_interface(model) then model.forward = true end
    if not model.filled and comes_with(model.holder) then lie("says that '%s' is in '%s', which has no such", shown(id), model.holder.scoped) end
  end
  local wrong = sound.check(self.models)
  if wrong then lie("contradicts itself: %s", wrong) end
end

------------------------------------------------------------------------------------------------------------------ asking

--- Reads what an InterfaceDef describes. -> the model, or the definition that is known already
function reader:interface(object)
  self.repository = ask(self, object, "Contained", "_get_containing_repository")
  local id = id_of(self, ask(self, object, "Contained", "_get_id"))
  return self:id(id)
end

--- The same for an id of the repository that was given or found.
function reader:id(id)
  local model = want(self, id)
  settle(self)
  return model
end

--- The id of a name, "Mod::Name"; nil: the repository has no such.
function reader:lookup(name)
  local object = ask(self, self.repository, "Container", "lookup", "::" .. name)
  return object and id_of(self, ask(self, object, "Contained", "_get_id"))
end

--- Reads all that a repository has.
function reader:everything(repository)
  local first = list_of(self, ask(self, repository, "Container", "contents", "dk_all", true), "definitions")[1]
  if first then                                  -- its own reference says which character sets there are; a corbaloc doesn't
    repository = ask(self, first, "Contained", "_get_containing_repository") or repository
  end
  self.repository = repository
  local containers, at = { { object = repository } }, 1
  while containers[at] do
    local holder = containers[at]
    for _, d in ipairs(described(self, holder.object)) do
      local about, id, name = description(self, d.value)
      if not self.known(id) then
        local model = self.models[id] or make(self, d.kind, id, name, holder.scoped and holder, d.contained_object, about)
        if model.kind == "module" then containers[#containers + 1] = model else begin(self, model) end
      end
    end
    containers[at] = false
    at = at + 1
  end
  settle(self)
end

-- known -> the file of CORBA's own that has what it gave: "orb.idl" or "ir.idl".
local including = setmetatable({}, { __mode = "k" })

--- What was read as IDL, that needs no more than orb.idl or ir.idl.
function reader:text()
  local text = write.text(self.units, function(d) return self.models[d.id] == d end)
  return write.including(text, including[self.known])
end

local standard

-- Definitions of CORBA's own.
local function standard_of(id)
  if not id:find "^IDL:omg%.org/CORBA/" then return nil end
  if not standard then
    standard = idl.repository()
    assert(standard:load "#include <ir.idl>")
  end
  return standard.ids[id]
end

--- `known` for what a repository of IDL has; CORBA's own interfaces are known where they are only declared (they have no file).
function read.known(repository)
  local known
  function known(id, soft)
    local d = repository.ids[id]
    if not d or d.forward and not d.file and not soft then
      d = standard_of(id) or d
      if d and d.file then including[known] = including[known] == "ir.idl" and "ir.idl" or d.file end
    end
    return d and (soft or not d.forward) and d or nil
  end
  return known
end

---@param broker table
---@param options table
function read.new(broker, options)
  local limits = {}
  for name, value in pairs(read.limits) do limits[name] = options[name] or value end
  return setmetatable({ broker = broker, limits = limits, known = options.known, whole = options.whole or false,
                        repository = options.repository, answers = options.answers,
                        deadline = mare.clock() + limits.time, models = {}, units = {}, queue = {}, n = 0, nbytes = 0, nmembers = 0 }, reader)
end

return read
