-- show: definitions as IDL again, each with its repository id in a comment, constants computed.
--
--   text = show.text(definitions, filter)       filter: f(definition) -> shown? (a module is, if something inside it is)
--   list = show.data(definitions, filter)       the same as plain tables, types as text: for JSON
local constant = require "mare.orb.idl.constant"
local keywords = require("mare.orb.idl.tokens").keywords

local show = {}

local basic_names = { longlong = "long long", ushort = "unsigned short", ulong = "unsigned long", ulonglong = "unsigned long long",
                      longdouble = "long double", TypeCode = "CORBA::TypeCode" }
local column = 52

local escaped = {}
for word in pairs(keywords) do escaped[word:lower()] = true end

local function name_text(name) return escaped[name:lower()] and "_" .. name or name end

--- A name as IDL writes it: with an underscore where it is a keyword.
show.name = name_text

-- While show.lines runs: which first words of names mean several things.
local ambiguous

-- A definition's name as seen from the scope `from`.
local function scoped_text(definition, from)
  if definition.scoped == "CORBA::Object" then return "Object" end
  if definition.scoped == "CORBA::ValueBase" then return "ValueBase" end
  local scoped = definition.scoped or definition.name
  while from ~= "" do
    if scoped:sub(1, #from + 2) == from .. "::" then
      scoped = scoped:sub(#from + 3)
      break
    end
    from = from:match("^(.*)::[^:]*$") or ""
  end
  if ambiguous and ambiguous(scoped:match "^[^:]+") then scoped = "::" .. definition.scoped end
  return (scoped:gsub("[^:]+", name_text))
end

-- The type's text, and what follows the declared name: the dimensions of an array.
local function type_text(t, from)
  local sizes = ""
  while t.kind == "array" do sizes, t = sizes .. ("[%d]"):format(t.length), t.element end
  local text
  if t.kind == "sequence" then
    local element, inner = type_text(t.element, from)
    local bound = t.bound > 0 and (", %d"):format(t.bound) or ""
    text = ("sequence<%s%s%s>"):format(element, inner, bound):gsub(">>$", "> >"):gsub("<::", "< ::")
  elseif t.kind == "string" or t.kind == "wstring" then
    text = t.kind .. (t.bound > 0 and ("<%d>"):format(t.bound) or "")
  elseif t.kind == "fixed" then
    text = ("fixed<%d, %d>"):format(t.digits, t.scale)
  else
    text = basic_names[t.kind] or t.name and scoped_text(t, from) or t.kind
  end
  return text, sizes
end

local function quoted(value, quote, wide)
  local function escape(c)
    if c == "\n" then return "\\n" end
    if c == "\\" or c == quote then return "\\" .. c end
    return ("\\%03o"):format(c:byte())
  end
  if not wide then return quote .. value:gsub("[%c\127-\255\\" .. quote .. "]", escape) .. quote end
  local parts = {}
  for _, c in utf8.codes(value) do
    if c > 0xFFFF then
      parts[#parts + 1] = ("\\u%04x\\u%04x"):format(0xD800 + ((c - 0x10000) >> 10), 0xDC00 + (c & 0x3FF))
    elseif c > 126 then
      parts[#parts + 1] = ("\\u%04x"):format(c)
    else
      parts[#parts + 1] = string.char(c):gsub("[%c\\" .. quote .. "]", escape)
    end
  end
  return "L" .. quote .. table.concat(parts) .. quote
end

-- `from`: the scope in which a label must be found.
local function value_text(type, value, from)
  local T = constant.resolve(type)
  local kind = T.kind
  if kind == "enum" and from then return scoped_text({ scoped = (T.scoped:match "^.*::" or "") .. value }, from) end
  if kind == "boolean" then return value and "TRUE" or "FALSE" end
  if kind == "string" or kind == "wstring" then return quoted(value, '"', kind == "wstring") end
  if kind == "char" or kind == "wchar" then return quoted(value, "'", kind == "wchar") end
  if kind == "fixed" then return value .. "d" end
  if kind == "ulonglong" then return constant.unsigned(value) end
  if kind == "float" or kind == "double" or kind == "longdouble" then
    for digits = kind == "float" and 6 or 15, 17 do
      local text = ("%." .. digits .. "g"):format(value)
      local back = tonumber(text)
      if kind == "float" then back = string.unpack("f", string.pack("f", back)) end
      if back == value then return text:find("[%.e]") and text or text .. ".0" end
    end
  end
  return tostring(value)
end

local function names(list, from)
  local parts = {}
  for i, d in ipairs(list) do parts[i] = scoped_text(d, from) end
  return table.concat(parts, ", ")
end

-- ---- text ----

local writer = {}
writer.__index = writer

function writer:line(text, definition)
  local line = self.indent .. text
  if definition and definition.id then
    line = line .. (" "):rep(math.max(column - (utf8.len(line) or #line), 2)) .. "// " .. definition.id
  end
  self.lines[#self.lines + 1] = line
end

function writer:inside(f, from)
  local indent, old = self.indent, self.from
  self.indent, self.from = indent .. "  ", from or old
  f()
  self.indent, self.from = indent, old
  self:line("};")
end

local function declared(self, type, name)
  local text, sizes = type_text(type, self.from)
  return ("%s %s%s"):format(text, name_text(name), sizes)
end

local write = {}

-- What can be declared before it is defined, and its keywords.
local function forward_text(d)
  if d.kind ~= "interface" and d.kind ~= "value" then return d.kind end
  return (d.abstract and "abstract " or d["local"] and "local " or "") .. (d.kind == "value" and "valuetype" or "interface")
end
local can_forward = { interface = true, value = true, struct = true, union = true }

-- Calls f with every definition that t, or what is inside it, refers to.
local function references(t, f, seen)
  if seen[t] then return end
  seen[t] = true
  for _, v in pairs(t) do
    if type(v) == "table" then
      if v.scoped and v.kind ~= "operation" and v.kind ~= "attribute" then f(v) end
      if not v.scoped or v.scoped:sub(1, #seen.scoped + 2) == seen.scoped .. "::" then references(v, f, seen) end
    end
  end
end

-- Declares what `d` refers to in this scope and what comes only later.
function writer:forwards(d)
  references(d, function(other)
    local here = self.from == "" and other.scoped == other.name or other.scoped == self.from .. "::" .. other.name
    if here and other.file and can_forward[other.kind] and not self.begun[other] and other ~= d and self.shown(other) then
      self.begun[other] = true
      self:line(("%s %s;"):format(forward_text(other), name_text(other.name)), other.forward and other or nil)
    end
  end, { scoped = d.scoped })
end

function writer:all(definitions)
  for _, d in ipairs(definitions) do
    if write[d.kind] and self.shown(d) then
      self:forwards(d)
      self.begun[d] = true
      write[d.kind](self, d)
    end
  end
end

function write.module(self, d)
  self:line(("module %s {"):format(name_text(d.name)), d)
  self:inside(function() self:all(d.contents) end, d.scoped)
end

local function callable_text(self, d)
  local params = {}
  for i, p in ipairs(d.params) do params[i] = ("%s %s"):format(p.mode, declared(self, p.type, p.name)) end
  local raises = #d.raises > 0 and (" raises (%s)"):format(names(d.raises, self.from)) or ""
  return ("%s(%s)%s"):format(name_text(d.name), table.concat(params, ", "), raises)
end

function write.operation(self, d)
  local context = {}
  for i, name in ipairs(d.context) do context[i] = quoted(name, '"') end
  self:line(("%s%s %s%s;"):format(d.oneway and "oneway " or "", (type_text(d.result, self.from)), callable_text(self, d),
    #context > 0 and (" context (%s)"):format(table.concat(context, ", ")) or ""), d)
end

function write.factory(self, d) self:line(("factory %s;"):format(callable_text(self, d)), d) end

function write.attribute(self, d)
  local raises = ""
  if #d.getraises > 0 then raises = (" %s (%s)"):format(d.readonly and "raises" or "getraises", names(d.getraises, self.from)) end
  if #d.setraises > 0 then raises = raises .. (" setraises (%s)"):format(names(d.setraises, self.from)) end
  self:line(("%sattribute %s%s;"):format(d.readonly and "readonly " or "", declared(self, d.type, d.name), raises), d)
end

function write.interface(self, d)
  local start = (d.abstract and "abstract " or d["local"] and "local " or "") .. "interface " .. name_text(d.name)
  if d.forward then return self:line(start .. ";", d) end
  self:line(start .. (#d.bases > 0 and " : " .. names(d.bases, self.from) or "") .. " {", d)
  self:inside(function() self:all(d.contents) end, d.scoped)
end

function write.value(self, d)
  local start = (d.abstract and "abstract " or d.custom and "custom " or "") .. "valuetype " .. name_text(d.name)
  if d.forward then return self:line(start .. ";", d) end
  if #d.bases > 0 then start = start .. " : " .. (d.truncatable and "truncatable " or "") .. names(d.bases, self.from) end
  if #d.supports > 0 then start = start .. " supports " .. names(d.supports, self.from) end
  self:line(start .. " {", d)
  self:inside(function() self:all(d.contents) end, d.scoped)
end

function write.statemember(self, d) self:line(("%s %s;"):format(d.public and "public" or "private", declared(self, d.type, d.name)), d) end
function write.valuebox(self, d) self:line(("valuetype %s %s;"):format(name_text(d.name), (type_text(d.type, self.from))), d) end
function write.native(self, d) self:line(("native %s;"):format(name_text(d.name)), d) end
function write.alias(self, d) self:line(("typedef %s;"):format(declared(self, d.type, d.name)), d) end

function write.const(self, d)
  local type = d.type.kind == "fixed" and "fixed" or type_text(d.type, self.from)
  self:line(("const %s %s = %s;"):format(type, name_text(d.name), value_text(d.type, d.value, self.from)), d)
end

local function labels_text(d)
  local labels = {}
  for i, label in ipairs(d.labels) do labels[i] = name_text(label) end
  return table.concat(labels, ", ")
end

function write.enum(self, d) self:line(("enum %s { %s };"):format(name_text(d.name), labels_text(d)), d) end

-- ---- what has members ----

local inline

-- The type and name of a member of `holder`; a type defined inside it is written out, then the second result is its definition.
local function member_text(self, m, holder)
  local type = m.type
  while type.kind == "array" or type.kind == "sequence" do type = type.element end
  if not (type.file and type.scoped == holder.scoped .. "::" .. type.name) or self.written[type] then return declared(self, m.type, m.name) end
  self.written[type] = true
  local _, sizes = type_text(m.type, self.from)
  return ("%s %s%s"):format(inline(self, type), name_text(m.name), sizes), type
end

local function discriminator_text(self, d)
  local type = d.discriminator
  if type.file and type.scoped == d.scoped .. "::" .. type.name then return inline(self, type), type end
  return (type_text(type, self.from))
end

-- The members of a struct or union as lines: { text, definition or nil }.
local function member_lines(self, d)
  local list = {}
  for i, m in ipairs(d.members) do
    local following = d.members[i + 1]
    local label = d.kind ~= "union" and "" or i == d.default and "default: " or ("case %s: "):format(value_text(d.discriminator, m.label, d.scoped))
    if d.kind == "union" and following and following.name == m.name then
      list[i] = { label:sub(1, -2) }
    else
      local text, type = member_text(self, m, d)
      list[i] = { label .. text .. ";", type }
    end
  end
  return list
end

local keyword = { struct = "struct", except = "exception", union = "union", enum = "enum" }

function inline(self, d)
  if d.kind == "enum" then return ("enum %s { %s }"):format(name_text(d.name), labels_text(d)) end
  local parts = {}
  for i, line in ipairs(member_lines(self, d)) do parts[i] = line[1] end
  local switch = d.kind == "union" and (" switch (%s)"):format((discriminator_text(self, d))) or ""
  return ("%s %s%s { %s }"):format(keyword[d.kind], name_text(d.name), switch, table.concat(parts, " "))
end

local function structure(self, d)
  local start = ("%s %s"):format(keyword[d.kind], name_text(d.name))
  if d.kind == "union" then start = ("%s switch (%s)"):format(start, (discriminator_text(self, d))) end
  if #d.members == 0 then return self:line(start .. " {};", d) end
  self:line(start .. " {", d)
  self:inside(function()
    for _, line in ipairs(member_lines(self, d)) do self:line(line[1], line[2]) end
  end, d.scoped)
end
write.struct, write.except, write.union = structure, structure, structure

--- How a definition is declared before it is defined: "abstract interface"; nil: it can't be.
function show.forward(d) return can_forward[d.kind] and forward_text(d) or nil end

--- The lines of one definition that stands in `scope`, "A::B"; what it refers to has been declared.
---@param d mare.orb.Definition
---@param scope string
---@param indent string
---@param is_ambiguous fun(name: string): boolean   whether the word means several things, so that names that begin with it are written whole
---@return string[]
function show.lines(d, scope, indent, is_ambiguous)
  local function inside(other) return other.scoped:sub(1, #d.scoped + 2) == d.scoped .. "::" or other == d end
  local w = setmetatable({ lines = {}, indent = indent, from = scope, shown = inside, written = {}, begun = {} }, writer)
  ambiguous = is_ambiguous
  local fine, err = pcall(w.all, w, { d })
  ambiguous = nil
  if not fine then error(err, 0) end
  return w.lines
end

---@param definitions mare.orb.Definition[]
---@param shown? fun(definition: mare.orb.Definition): boolean
---@return string
function show.text(definitions, shown)
  local w = setmetatable({ lines = {}, indent = "", from = "", shown = shown or function() return true end, written = {}, begun = {} }, writer)
  w:all(definitions)
  return #w.lines > 0 and table.concat(w.lines, "\n") .. "\n" or ""
end

-- ---- data ----

local plain = { "kind", "name", "id", "scoped", "file", "line", "abstract", "local", "custom", "truncatable", "oneway", "readonly", "public", "mode" }

local function strings(list)
  if not list then return nil end
  local out = {}
  for i, v in ipairs(list) do out[i] = type(v) == "table" and v.scoped or v end
  return out
end

local function full_type(t)
  local text, sizes = type_text(t, "")
  return text .. sizes
end

local data

local function items(list, shown)
  local out = {}
  for _, d in ipairs(list) do
    if not d.id or shown(d) then out[#out + 1] = data(d, shown) end
  end
  return out
end

function data(d, shown)
  local out = {}
  for _, field in ipairs(plain) do out[field] = d[field] or nil end
  out.type, out.result = d.type and full_type(d.type), d.result and full_type(d.result)
  out.discriminator = d.discriminator and full_type(d.discriminator)
  if d.kind == "const" then out.value = value_text(d.type, d.value) end
  if d.label ~= nil then out.label = tostring(d.label) end
  for _, field in ipairs { "bases", "supports", "raises", "getraises", "setraises", "context", "labels" } do out[field] = strings(d[field]) end
  out.contents = d.contents and items(d.contents, shown)
  out.params = d.params and items(d.params, shown)
  if d.kind == "struct" or d.kind == "except" or d.kind == "union" then out.members = items(d.members, shown) end
  return out
end

---@param definitions mare.orb.Definition[]
---@param shown? fun(definition: mare.orb.Definition): boolean
---@return table[] list lists in it may be empty
function show.data(definitions, shown) return items(definitions, shown or function() return true end) end

return show
