-- idl_lines: a repository's definitions as the lines spec/support/omniidl_oracle.py prints, to compare the two.
--
--   lines(repository, definitions) -> { "kind scoped id text", … } (parts separated by tabs): the definitions and what is inside them
local constant = require "mare.orb.idl.constant"

local function named(t) return t.scoped or t.name end

local function type_text(t)
  if t.kind == "array" then
    local sizes = ""
    while t.kind == "array" do sizes, t = sizes .. ("[%d]"):format(t.length), t.element end
    return type_text(t) .. sizes
  elseif t.kind == "sequence" then return ("sequence<%s,%d>"):format(type_text(t.element), t.bound)
  elseif t.kind == "string" or t.kind == "wstring" then return ("%s<%d>"):format(t.kind, t.bound)
  elseif t.kind == "fixed" then return ("fixed<%d,%d>"):format(t.digits, t.scale) end
  return t.name and named(t) or t.kind
end

local function codes(text)
  local list = {}
  for _, c in utf8.codes(text) do list[#list + 1] = tostring(c) end
  return table.concat(list, ",")
end

local function value_text(type, value)
  local kind = constant.resolve(type).kind
  if kind == "boolean" then return value and "TRUE" or "FALSE" end
  if kind == "float" or kind == "double" or kind == "longdouble" then return ("%.17g"):format(value) end
  if kind == "char" or kind == "string" then return (value:gsub(".", function(c) return ("%02x"):format(c:byte()) end)) end
  if kind == "wchar" or kind == "wstring" then return codes(value) end
  if kind == "ulonglong" then return constant.unsigned(value) end
  return tostring(value)
end

local function names(list)
  local parts = {}
  for i, d in ipairs(list) do parts[i] = named(d) end
  return table.concat(parts, ",")
end

local texts = {}
local visit

function texts.module() return "" end
function texts.native() return "" end
function texts.interface(d) return (d.abstract and "abstract " or "") .. (d["local"] and "local " or "") .. names(d.bases) end
-- omniidl gives constants of type fixed neither digits nor scale.
function texts.const(d) return (d.type.kind == "fixed" and "fixed<0,0>" or type_text(d.type)) .. "=" .. value_text(d.type, d.value) end
function texts.alias(d) return type_text(d.type) end
function texts.valuebox(d) return type_text(d.type) end
function texts.enum(d) return table.concat(d.labels, ",") end
function texts.attribute(d) return (d.readonly and "readonly " or "") .. type_text(d.type) end
function texts.statemember(d) return (d.public and "public " or "private ") .. type_text(d.type) end
function texts.value(d) return names(d.bases) .. ";" .. names(d.supports) end

function texts.struct(d)
  local parts = {}
  for i, m in ipairs(d.members) do parts[i] = type_text(m.type) .. " " .. m.name end
  return table.concat(parts, ";")
end
texts.except = texts.struct

function texts.union(d)
  local parts = { type_text(d.discriminator) }
  for i, m in ipairs(d.members) do
    local label = i == d.default and "default" or value_text(d.discriminator, m.label)
    parts[#parts + 1] = ("%s:%s %s"):format(label, type_text(m.type), m.name)
  end
  return table.concat(parts, ";") .. (#d.members == 0 and ";" or "")
end

local function signature(d)
  local params = {}
  for i, p in ipairs(d.params) do params[i] = ("%s %s %s"):format(p.mode, type_text(p.type), p.name) end
  return ("(%s)%s"):format(table.concat(params, ","), #d.raises > 0 and (" raises(%s)"):format(names(d.raises)) or "")
end
texts.factory = signature
function texts.operation(d) return (d.oneway and "oneway " or "") .. type_text(d.result) .. " " .. signature(d) end

-- Types that are defined where they are used stand in no list of contents.
local function inside(d, out)
  for _, type in ipairs { d.type or false, d.discriminator or false } do
    while type and (type.kind == "array" or type.kind == "sequence") do type = type.element end
    if type and type.id then visit(type, out) end
  end
  for _, m in ipairs((d.kind == "struct" or d.kind == "except" or d.kind == "union") and d.members or {}) do inside({ type = m.type }, out) end
end

function visit(d, out)
  if out.seen[d] or not texts[d.kind] or not (d.file or d.kind == "module") or d.forward then return end
  out.seen[d] = true
  local factory = d.kind == "factory"
  out[#out + 1] = table.concat({ d.kind, factory and d.name or d.scoped, factory and "" or d.id, texts[d.kind](d) }, "\t")
  inside(d, out)
  if d.kind == "enum" then
    local scope = d.scoped:match("^(.*::)") or ""
    for _, label in ipairs(d.labels) do
      local e = out.repository:lookup(scope .. label)
      out[#out + 1] = table.concat({ "enumerator", e.scoped, e.id, "" }, "\t")
    end
  end
  for _, inner in ipairs(d.contents or {}) do visit(inner, out) end
end

return function(repository, definitions)
  local out = { seen = {}, repository = repository }
  for _, d in ipairs(definitions) do visit(d, out) end
  out.seen, out.repository = nil, nil
  return out
end
