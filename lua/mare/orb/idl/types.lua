-- types: type specifications, structs, unions, enums and typedefs. Methods of the parser.
--
-- A definition is declared when its name is known, so that it can be named inside itself; `unfinished` is set until its closing brace.
local basic = require "mare.orb.idl.basic"
local constant = require "mare.orb.idl.constant"

local types = {}

local single = { float = "float", double = "double", short = "short", char = "char", wchar = "wchar", boolean = "boolean", octet = "octet",
                 any = "any", void = "void" }
local is_type = { alias = true, struct = true, union = true, enum = true, interface = true, value = true, valuebox = true, native = true,
                  TypeCode = true }

-- "unsigned" was read.
local function unsigned(self)
  if self:accept("short") then return basic.ushort end
  self:expect("long", "or 'short' after 'unsigned'")
  if self:accept("long") then return basic.ulonglong end
  return basic.ulong
end

local function text_type(self, kind)
  if self.word ~= "<" then return basic[kind] end
  self:advance()
  self.angles = self.angles + 1
  local bound = self:bound("the bound of a " .. kind)
  self.angles = self.angles - 1
  self:close_angle("after the bound")
  return { kind = kind, bound = bound }
end

local function sequence(self)
  self:expect("<", "after 'sequence'")
  self:deeper()
  self.angles = self.angles + 1
  local element = self:type_spec()
  local bound = 0
  if self:accept(",") then bound = self:bound("the bound of a sequence") end
  self.angles, self.nesting = self.angles - 1, self.nesting - 1
  self:close_angle("or ',' and a bound after the type of the elements")
  return { kind = "sequence", element = element, bound = bound }
end

local function fixed(self)
  local start = self.last
  self:expect("<", "after 'fixed'")
  self.angles = self.angles + 1
  local digits = self:value(basic.ulong)
  self:expect(",", "and the scale after the number of digits")
  local scale = self:value(basic.ulong)
  self.angles = self.angles - 1
  self:close_angle("after the scale")
  if digits < 1 or digits > 31 then self.errors:stop(start, "a fixed has 1 to 31 digits, not %d", digits) end
  if scale > digits then self.errors:stop(start, "the scale of a fixed, %d, is larger than its number of digits, %d", scale, digits) end
  return { kind = "fixed", digits = digits, scale = scale }
end

-- Names of IDL 4, which are types where nothing else has them: older files declare some of them.
local idl4 = { int8 = basic.int8, uint8 = basic.octet, int16 = basic.short, uint16 = basic.ushort, int32 = basic.long, uint32 = basic.ulong,
               int64 = basic.longlong, uint64 = basic.ulonglong }

local function sized(self)
  local type = self.token.kind == "identifier" and idl4[self.token.text]
  local following = self.tokens[self.at + 1]
  if not type or following and following.text == "::" or self.checker:knows(self.token.text) then return nil end
  self:advance()
  return type
end

-- A type that is named or built in; nil if none begins here.
local function simple_type(self)
  local word = self.word
  if not word then return sized(self) end
  if word == "::" then return nil end
  if single[word] and word ~= "void" then
    self:advance()
    return basic[word]
  elseif word == "long" then
    self:advance()
    if self:accept("long") then return basic.longlong end
    if self:accept("double") then return basic.longdouble end
    return basic.long
  elseif word == "unsigned" then
    self:advance()
    return unsigned(self)
  elseif word == "string" or word == "wstring" then
    self:advance()
    return text_type(self, word)
  elseif word == "sequence" then
    self:advance()
    return sequence(self)
  elseif word == "fixed" then
    self:advance()
    return fixed(self)
  elseif word == "Object" then
    self:advance()
    return basic.object
  elseif word == "ValueBase" then
    self:advance()
    return basic.valuebase
  end
end

-- A type as it may stand in a declaration. `what` says what is expected if there is none.
function types:type_spec(what)
  self:annotations()
  local type = simple_type(self)
  if type then return type end
  if self.word == "struct" or self.word == "union" or self.word == "enum" then
    self.errors:stop(self.token, "a %s can't be defined here: give it a definition of its own and write its name", self.word)
  end
  if self.word and self.word ~= "::" or self.token.kind ~= "identifier" and not self.word then self:expected(what or "a type") end
  local definition, token = self:resolve("a type")
  if not is_type[definition.kind] then
    self.errors:stop(token, "'%s' is no type: it is declared as %s at %s", token.name, self.checker.kind_name(definition),
      self.checker.place_of(definition))
  end
  return definition
end

-- The same where structs, unions and enums may be defined on the spot.
function types:member_type(what)
  self:annotations()
  local word = self.word
  if word == "struct" or word == "union" or word == "enum" then
    self:deeper(3)                               -- a level of these is more for Lua's C stack than others
    local definition = self[word](self, true)
    self.nesting = self.nesting - 3
    return definition
  end
  return self:type_spec(what)
end

-- name [n]… : the name's token and the type with its dimensions
function types:declarator(type, what)
  self:annotations()
  local token = self:name(what or "a name")
  local dimensions = {}
  while self:accept("[") do
    dimensions[#dimensions + 1] = self:bound("the length of an array")
    self:expect("]", "after the length")
    if #dimensions > self.limits.nesting then self.errors:stop(self.token, "an array has at most %d dimensions", self.limits.nesting) end
  end
  for i = #dimensions, 1, -1 do type = { kind = "array", element = type, length = dimensions[i] } end
  return token, type
end

-- ---- struct, exception ----

-- The definition a forward declaration made, to be filled now; or a new one.
function types:begin(kind, token, fields)
  local checker = self.checker
  local entry = checker.scope.names[token.name:lower()]
  local old = entry and entry.name == token.name and entry.definition
  if old and old.kind == kind and old.forward then
    checker:adopt(token, old)
    if entry.load == checker.load then self:check_prefix(token, old) end
    self:check_flags(token, old, fields)
    fields.file, fields.line, fields.column = token.file, token.line, token.column
    checker:put(old, "forward", nil)
    checker:put(entry, "load", checker.load)
    for k, v in pairs(fields) do checker:put(old, k, v) end
    return old
  end
  fields.kind = kind
  checker:declare(token, fields)
  return fields
end

-- What a forward declaration names: declared now, or before.
function types:forward(kind, token, fields)
  local checker = self.checker
  local entry = checker.scope.names[token.name:lower()]
  local old = entry and entry.name == token.name and entry.definition
  if old and old.kind == kind and (entry.load == checker.load or old.forward) then
    checker:adopt(token, old)
    if entry.load == checker.load then self:check_prefix(token, old) end
    return old
  end
  fields.kind, fields.forward = kind, true
  checker:declare(token, fields)
  checker.forwards[#checker.forwards + 1] = { definition = fields, token = token }
  return fields
end

function types:check_prefix(token, definition)
  local made = self.checker.made[definition]
  if made and made.prefix ~= self.checker.prefix then
    self.errors:add(token, "'%s' was declared at %s:%d with the prefix '%s' of repository ids, now it is '%s'", token.name,
      definition.file, definition.line, made.prefix, self.checker.prefix)
  end
end

-- Members up to the closing brace, put into definition.members.
local function members(self, definition)
  repeat
    self:guarded(function()
      local type_token = self.token
      local type = self:member_type("the type of a member")
      self.checker:complete(type_token, type)
      repeat
        local token, full = self:declarator(type, "the name of a member")
        self.checker:declare_plain(token, "member")
        self.checker:append(definition.members, { name = token.name, type = full })
      until not self:accept(",")
      self:semicolon("after a member")
    end)
    self:annotations()
  until self.word == "}" or self.token.kind == "end"
end

-- struct and exception: `kind` was announced by the current keyword. inside: it stands where a type is used, so it is no declaration.
function types:structure(kind, inside)
  local word = self:advance().text
  local token = self:name("the name of the " .. word)
  if kind == "struct" and self.word == ";" and not inside then return self:forward("struct", token, { unfinished = true, members = {} }) end
  self:expect("{", "after the name of the " .. word)
  local definition = self:begin(kind, token, { unfinished = true, members = {} })
  local mark = self.checker:mark()
  self.checker:enter(definition, token)
  self:annotations()
  if self.word ~= "}" then members(self, definition)
  elseif kind == "struct" then self.errors:add(self.token, "a struct needs at least one member") end
  self:expect("}", "or a member")
  self.checker:back(mark)
  definition.unfinished = nil
  self.checker:contain(definition)
  return definition
end

function types:struct(inside) return self:structure("struct", inside) end
function types:exception() return self:structure("except") end

-- ---- enum ----

function types:enum()
  self:advance()
  local token = self:name("the name of the enum")
  self:expect("{", "after the name of the enum")
  local definition = { kind = "enum", labels = {} }
  self.checker:declare(token, definition)
  repeat
    self:annotations()
    local label = self:name("the name of an enumerator")
    self.checker:enumerator(label, definition)
    definition.labels[#definition.labels + 1] = label.name
  until not self:accept(",")
  self:expect("}", "or ',' after an enumerator")
  self.checker:contain(definition)
  return definition
end

-- ---- union ----

local discriminators = { short = 16, long = 32, longlong = 64, ushort = 16, ulong = 32, ulonglong = 64, octet = 8, boolean = 1, char = 8,
                         wchar = 16, enum = 0 }

local function discriminator(self)
  self:expect("switch", "after the name of the union")
  self:expect("(", "after 'switch'")
  local token = self.token
  local type
  if self.word == "enum" then type = self:enum() else type = self:type_spec("the type of the discriminator") end
  local kind = constant.resolve(type).kind
  if not discriminators[kind] then
    self.errors:stop(token, "a union is switched by an integer, char, boolean or enum, not by %s", constant.names[kind] or kind)
  end
  self:expect(")", "after the type of the discriminator")
  return type
end

-- The labels before one member: a list of { token, value, default = }.
local function labels(self, definition)
  local list = {}
  while true do
    self:annotations()
    local token = self.token
    if self:accept("case") then
      local start = self.token
      list[#list + 1] = { token = start, value = self:value(definition.discriminator) }
      self:expect(":", "after a label")
    elseif self:accept("default") then
      list[#list + 1] = { token = token, default = true }
      self:expect(":", "after 'default'")
    else
      return list
    end
  end
end

local function add_label(self, definition, seen, label, name, type)
  if label.default then
    if definition.default then return self.errors:add(label.token, "a union has one default, this is the second") end
    definition.default = #definition.members + 1
    definition.default_token = label.token
  else
    if seen[label.value] then return self.errors:add(label.token, "the label '%s' stands here twice", label.token.text) end
    seen[label.value] = true
    seen.count = (seen.count or 0) + 1
  end
  self.checker:append(definition.members, { name = name, type = type, label = label.value })
end

local function case(self, definition, seen)
  local list = labels(self, definition)
  if #list == 0 then self:expected("'case' or 'default'") end
  local type_token = self.token
  local type = self:member_type("the type of a member")
  self.checker:complete(type_token, type)
  local token, full = self:declarator(type, "the name of a member")
  self.checker:declare_plain(token, "member")
  for _, label in ipairs(list) do add_label(self, definition, seen, label, token.name, full) end
  self:semicolon("after a member")
end

-- A default must have something left to stand for.
local function check_default(self, definition, seen)
  local type = constant.resolve(definition.discriminator)
  local all = type.kind == "enum" and #type.labels or discriminators[type.kind] <= 16 and 1 << discriminators[type.kind]
  if definition.default and all and (seen.count or 0) >= all then
    self.errors:add(definition.default_token, "the labels leave nothing to the default of '%s'", definition.name)
  end
  definition.default_token = nil
end

function types:union(inside)
  self:advance()
  local token = self:name("the name of the union")
  if self.word == ";" and not inside then return self:forward("union", token, { unfinished = true, members = {} }) end
  local definition = self:begin("union", token, { unfinished = true, members = {} })
  local mark = self.checker:mark()
  self.checker:enter(definition, token)
  self.checker:put(definition, "discriminator", discriminator(self))
  self:expect("{", "after the discriminator")
  local seen = {}
  repeat self:guarded(case, definition, seen) until self.word == "}" or self.token.kind == "end"
  check_default(self, definition, seen)
  self:expect("}", "or 'case'")
  self.checker:back(mark)
  definition.unfinished = nil
  self.checker:contain(definition)
  return definition
end

-- ---- typedef, const, native ----

function types:typedef()
  self:advance()
  local type_token = self.token
  local type = self:member_type("a type")
  repeat
    local token, full = self:declarator(type, "the name of the new type")
    local missing = self.checker.incomplete(full, true)
    if missing then self.checker:complete(type_token, full) end
    local definition = { kind = "alias", type = full }
    self.checker:declare(token, definition)
    self.checker:contain(definition)
  until not self:accept(",")
end

-- A fixed constant has as many digits as its value.
local function size_fixed(definition)
  local whole, part = definition.value:match("^-?(%d+)%.?(%d*)$")
  local digits = #whole:gsub("^0+", "") + #part
  definition.type = { kind = "fixed", digits = math.max(digits, 1), scale = #part }
end

function types:const()
  self:advance()
  local type_token = self.token
  local type
  if self.word == "fixed" then
    self:advance()
    if self.word == "<" then self.errors:stop(self.token, "a constant has the type 'fixed', without digits and scale") end
    type = { kind = "fixed", digits = 31, scale = 0 }
  else
    type = self:type_spec("the type of the constant")
  end
  if not constant.allowed(type) then
    self.errors:stop(type_token, "a constant can't have the type '%s': only numbers, characters, strings, boolean and enums", type.name or type.kind)
  end
  local token = self:name("the name of the constant")
  self:expect("=", "after the name of the constant")
  local definition = { kind = "const", type = type, value = self:value(type) }
  if type.kind == "fixed" then size_fixed(definition) end
  self.checker:declare(token, definition)
  self.checker:contain(definition)
end

function types:native()
  self:advance()
  local token = self:name("the name of the native type")
  local definition = { kind = "native" }
  self.checker:declare(token, definition)
  self.checker:contain(definition)
end

return types
