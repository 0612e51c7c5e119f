-- interfaces: interfaces, operations and attributes. Methods of the parser.
local basic = require "mare.orb.idl.basic"
local constant = require "mare.orb.idl.constant"

local interfaces = {}

-- ---- operations ----

-- What is passed must be complete. That it has a name is CORBA's rule, too, but harmless to forget.
function interfaces:check_passed(token, type)
  self.checker:complete(token, type)
  if type.kind == "sequence" or type.kind == "fixed" then
    self.notes:add(token, "other IDL compilers want a typedef for this %s: what is passed must have a name", type.kind)
  end
end

local function parameter(self, operation)
  self:annotations()
  local mode = self.word
  if mode ~= "in" and mode ~= "out" and mode ~= "inout" then self:expected("'in', 'out' or 'inout'") end
  local mode_token = self:advance()
  local type_token = self.token
  local type = self:type_spec("the type of a parameter")
  self:check_passed(type_token, type)
  local token = self:name("the name of a parameter")
  if self.word == "[" then self:expected("',' or ')' (an array needs a typedef)") end
  if operation.oneway and mode ~= "in" then
    self.errors:add(mode_token, "the one-way operation '%s' can't have a parameter '%s'", operation.name, mode)
  end
  self.checker:declare_plain(token, "parameter")
  operation.params[#operation.params + 1] = { name = token.name, mode = mode, type = type }
end

-- (A, B::C): a list of exception types
function interfaces:exceptions(what)
  local list, seen = {}, {}
  self:expect("(", "after '" .. what .. "'")
  repeat
    local definition, token = self:resolve("the name of an exception")
    if definition.kind ~= "except" then
      self.errors:add(token, "'%s' is a %s (%s), an exception is expected here", token.name, self.checker.kind_name(definition),
        self.checker.place_of(definition))
    elseif seen[definition] then
      self.notes:add(token, "the exception '%s' stands here twice", token.name)
    else
      list[#list + 1] = definition
    end
    seen[definition] = true
  until not self:accept(",")
  self:expect(")", "or ',' after an exception")
  return list
end

local function contexts(self)
  local list = {}
  self:expect("(", "after 'context'")
  repeat
    local value, token = self:string("a context name between double quotes")
    if not value:find("^%a[%w%._]*%*?$") then self.errors:add(token, "'%s' is no name of a context property", value) end
    list[#list + 1] = value
  until not self:accept(",")
  self:expect(")", "or ',' after a context name")
  return list
end

-- The parameters and raises clause of an operation or a factory; its scope keeps the names of the parameters.
function interfaces:signature(operation, token)
  local mark = self.checker:mark()
  self.checker:enter(operation, token)
  self:expect("(", "after the name of the operation")
  if self.word ~= ")" then
    repeat parameter(self, operation) until not self:accept(",")
  end
  self:expect(")", "or ',' after a parameter")
  self.checker:back(mark)
  local raises = self.token
  if self:accept("raises") then
    if operation.oneway then self.errors:add(raises, "the one-way operation '%s' can't raise exceptions", operation.name) end
    operation.raises = self:exceptions("raises")
  end
end

function interfaces:operation()
  local oneway = self:accept("oneway") ~= nil
  local result, type_token = basic.void, self.token
  if not self:accept("void") then
    result = self:type_spec("the type of a result, an attribute or a definition")
    self:check_passed(type_token, result)
  end
  local token = self:name("the name of the operation")
  if oneway and result ~= basic.void then self.errors:add(type_token, "the one-way operation '%s' must have the result void", token.name) end
  local operation = { kind = "operation", oneway = oneway, result = result, params = {}, raises = {}, context = {} }
  self.checker:declare(token, operation)
  self:signature(operation, token)
  if self:accept("context") then operation.context = contexts(self) end
  self.checker:contain(operation)
end

function interfaces:attribute()
  local readonly = self:accept("readonly") ~= nil
  self:expect("attribute", "after 'readonly'")
  local type_token = self.token
  local type = self:type_spec("the type of the attribute")
  self:check_passed(type_token, type)
  local made = {}
  repeat
    local token = self:name("the name of the attribute")
    local attribute = { kind = "attribute", readonly = readonly, type = type, getraises = {}, setraises = {} }
    self.checker:declare(token, attribute)
    self.checker:contain(attribute)
    made[#made + 1] = attribute
  until not self:accept(",")
  local get, set
  if #made > 1 and (self:at_word("getraises") or self:at_word("setraises") or self.word == "raises") then
    self.errors:add(self.token, "only an attribute that stands alone can have '%s': give each its own declaration", self.token.text)
  end
  if readonly and self:accept("raises") then get = self:exceptions("raises") end
  if not readonly and self:at_word("getraises") then
    self:advance()
    get = self:exceptions("getraises")
  end
  if not readonly and self:at_word("setraises") then
    self:advance()
    set = self:exceptions("setraises")
  end
  for _, attribute in ipairs(made) do attribute.getraises, attribute.setraises = get or {}, set or {} end
end

-- What may stand in an interface or a valuetype, with its ';'.
function interfaces:export()
  self:annotations()
  local word = self.word
  if word == "exception" then self:exception()
  elseif word == "readonly" or word == "attribute" then self:attribute()
  elseif word == "typedef" or word == "struct" or word == "union" or word == "enum" or word == "const" or word == "native" then self[word](self)
  elseif not self:identity() then self:operation() end
  self:semicolon("after this definition")
end

-- Exports up to the closing brace, each in its turn.
function interfaces:exports(f)
  while true do
    self:pragmas()
    if self.word == "}" or self.token.kind == "end" then return end
    self:guarded(f)
  end
end

-- ---- inheritance ----

-- Names of operations and attributes a scope has from its bases and itself: lower-case name -> definition.
local function callable(scope, into, seen, clash)
  if seen[scope] then return into end
  seen[scope] = true
  for _, base in ipairs(scope.bases) do callable(base, into, seen, clash) end
  for lower, entry in pairs(scope.names) do
    local definition = entry.definition
    if definition.kind == "operation" or definition.kind == "attribute" then
      if into[lower] and into[lower] ~= definition then clash(into[lower], definition) end
      into[lower] = definition
    end
  end
  return into
end

-- The scopes in `definitions` become bases of the current scope; no two may bring operations of one name.
function interfaces:inherit(scope, token, definitions)
  for _, definition in ipairs(definitions) do
    local base = self.checker:scope_of(definition)
    if base then scope.bases[#scope.bases + 1] = base end
  end
  local told
  callable(scope, {}, {}, function(a, b)
    if told then return end
    told = true
    self.errors:add(token, "'%s' inherits both %s and %s", token.name, a.scoped, b.scoped)
  end)
end

local function check_base(self, interface, base, token, seen)
  if base.kind ~= "interface" then
    self.errors:stop(token, "'%s' is a %s, an interface is expected here", token.name, self.checker.kind_name(base))
  elseif base.forward then
    self.errors:stop(token, "'%s' is only declared (%s), not yet defined", token.name, self.checker.place_of(base))
  elseif seen[base] then
    self.errors:stop(token, "'%s' stands twice among the bases", token.name)
  elseif base["local"] and not interface["local"] then
    self.errors:stop(token, "'%s' is local: only a local interface can inherit from it", token.name)
  elseif interface.abstract and not base.abstract then
    self.errors:stop(token, "'%s' is not abstract: an abstract interface can't inherit from it", token.name)
  end
end

local function bases(self, interface)
  local list, seen = {}, {}
  repeat
    local base, token = self:resolve("the name of an interface")
    base = constant.resolve(base)
    check_base(self, interface, base, token, seen)
    seen[base] = true
    list[#list + 1] = base
  until not self:accept(",")
  return list
end

-- A definition and its declarations agree.
function interfaces:check_flags(token, definition, flags)
  for _, flag in ipairs { "abstract", "local" } do
    if (definition[flag] or false) ~= (flags[flag] or false) then
      self.errors:add(token, "'%s' was declared %s '%s' (%s)", token.name, definition[flag] and "as" or "without", flag,
        self.checker.place_of(definition))
    end
  end
end

-- flags: { abstract =, ["local"] = }
function interfaces:interface(flags)
  self:expect("interface")
  local token = self:name("the name of the interface")
  local fields = { bases = {}, contents = {}, members = {}, abstract = flags.abstract, ["local"] = flags["local"] }
  if self.word == ";" then
    local definition = self:forward("interface", token, fields)
    return self:check_flags(token, definition, flags)
  end
  local inherited = {}
  if self:accept(":") then inherited = bases(self, fields) end
  self:expect("{", "or ':' and bases after the name of the interface")
  local definition = self:begin("interface", token, fields)
  self.checker:put(definition, "bases", inherited)
  local mark = self.checker:mark()
  self:inherit(self.checker:enter(definition, token), token, inherited)
  self:exports(self.export)
  self:expect("}")
  self.checker:back(mark)
  self.checker:contain(definition)
end

return interfaces
