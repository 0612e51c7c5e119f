-- values: valuetypes, abstract and custom ones, boxes. Methods of the parser.
--
-- value definitions: { kind = "value", bases, supports, abstract, custom, truncatable, contents, members, state = { { name, type, public } … } };
-- factories are operations of kind "factory". Boxes: { kind = "valuebox", type }.
local constant = require "mare.orb.idl.constant"

local values = {}

local function check_base(self, value, base, token, first)
  if base.kind ~= "value" then
    self.errors:stop(token, "'%s' is a %s, a valuetype is expected here", token.name, self.checker.kind_name(base))
  elseif base.forward then
    self.errors:stop(token, "'%s' is only declared (%s), not yet defined", token.name, self.checker.place_of(base))
  elseif value.abstract and not base.abstract then
    self.errors:stop(token, "'%s' is not abstract: an abstract valuetype can't inherit from it", token.name)
  elseif not first and not base.abstract then
    self.errors:stop(token, "'%s' is not abstract: only the first base may be so", token.name)
  end
end

-- : truncatable A, B
local function bases(self, value)
  local start = self.token
  local seen = {}
  if self:accept("truncatable") then
    value.truncatable = true
    if value.abstract or value.custom then self.errors:add(start, "only an ordinary valuetype can be truncatable") end
  end
  repeat
    local base, token = self:resolve("the name of a valuetype")
    base = constant.resolve(base)
    check_base(self, value, base, token, #value.bases == 0)
    if seen[base] then self.errors:stop(token, "'%s' stands twice among the bases", token.name) end
    seen[base] = true
    value.bases[#value.bases + 1] = base
  until not self:accept(",")
end

local function supports(self, value)
  local concrete
  repeat
    local base, token = self:resolve("the name of an interface")
    base = constant.resolve(base)
    if base.kind ~= "interface" then
      self.errors:stop(token, "'%s' is a %s, an interface is expected here", token.name, self.checker.kind_name(base))
    elseif base.forward then
      self.errors:stop(token, "'%s' is only declared (%s), not yet defined", token.name, self.checker.place_of(base))
    elseif not base.abstract then
      if concrete then
        self.errors:stop(token, "a valuetype supports one interface that is not abstract, here are '%s' and '%s'", concrete, token.name)
      end
      concrete = token.name
    end
    value.supports[#value.supports + 1] = base
  until not self:accept(",")
end

local function state_member(self)
  local public = self:advance().text == "public"
  local type_token = self.token
  local type = self:member_type("the type of a member")
  self.checker:complete(type_token, type)
  local value = self.checker.scope.definition
  repeat
    local token, full = self:declarator(type, "the name of a member")
    local member = { kind = "statemember", type = full, public = public }
    self.checker:declare(token, member)
    self.checker:contain(member)
    self.checker:append(value.state, { name = token.name, type = full, public = public })
  until not self:accept(",")
end

local function factory(self)
  self:advance()
  local token = self:name("the name of the factory")
  local definition = { kind = "factory", params = {}, raises = {} }
  self.checker:declare(token, definition)
  self:signature(definition, token)
  for _, p in ipairs(definition.params) do
    if p.mode ~= "in" then self.errors:add(token, "the parameter '%s' of a factory must be 'in'", p.name) end
  end
  self.checker:contain(definition)
end

local function element(self)
  self:annotations()
  local word = self.word
  local abstract = self.checker.scope.definition.abstract
  if word == "public" or word == "private" then
    if abstract then self.errors:add(self.token, "an abstract valuetype has no members") end
    state_member(self)
  elseif self:at_word("factory") then
    if abstract then self.errors:add(self.token, "an abstract valuetype has no factories") end
    factory(self)
  else
    return self:export()
  end
  self:semicolon("after this element")
end

local function box(self, token)
  local type_token = self.token
  local type = self:member_type("';', ':', 'supports', '{' or the type that is boxed")
  self.checker:complete(type_token, type)
  if type.kind == "value" or type.kind == "valuebox" then self.errors:add(type_token, "a valuetype can't be boxed") end
  local definition = { kind = "valuebox", type = type }
  self.checker:declare(token, definition)
  self.checker:contain(definition)
end

-- flags: { abstract =, custom = }
function values:valuetype(flags)
  self:expect("valuetype")
  local token = self:name("the name of the valuetype")
  local fields = { bases = {}, supports = {}, contents = {}, members = {}, state = {}, abstract = flags.abstract, custom = flags.custom }
  if self.word == ";" then
    if flags.custom then self.errors:add(token, "'custom' belongs to the definition of a valuetype, not to its declaration") end
    return self:forward("value", token, fields)
  end
  local word = self.word
  if word ~= ":" and word ~= "supports" and word ~= "{" then
    if flags.abstract or flags.custom then self:expected("';', ':', 'supports' or '{'") end
    return box(self, token)
  end
  if self:accept(":") then bases(self, fields) end
  if self:accept("supports") then supports(self, fields) end
  self:expect("{", "and the valuetype's elements")
  local definition = self:begin("value", token, fields)
  local mark = self.checker:mark()
  local all = table.move(fields.supports, 1, #fields.supports, #fields.bases + 1, { table.unpack(fields.bases) })
  self:inherit(self.checker:enter(definition, token), token, all)
  self:exports(element)
  self:expect("}")
  self.checker:back(mark)
  self.checker:contain(definition)
end

return values
