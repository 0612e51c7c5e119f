--[[
mare.oil.loop.debug.Viewer: values as text. Fields: `maxdepth` of tables in each other, `output`, `indentation`, `linebreak`, `prefix`, `noindices`;
`labels` names values.
]]
local oo = require "mare.oil.loop"

local Viewer = oo.class { maxdepth = -1, indentation = "  ", linebreak = "\n", prefix = "", output = io.output() }

local function is_name(key) return type(key) == "string" and key:find "^[%a_][%w_]*$" end

local function label(self, value)
  local given = rawget(self, "labels") and self.labels[value]
  if given then return tostring(given) end
  local meta = getmetatable(value)
  local hidden = type(meta) == "table" and rawget(meta, "__tostring")
  if hidden then return tostring(value) end
  return (tostring(value):gsub("^(%a+): 0x", "%1: 0x"))
end

local put

local function put_table(self, t, out, prefix, depth, seen)
  if seen[t] then
    out[#out + 1] = label(self, t)
    return
  end
  if depth == self.maxdepth then
    out[#out + 1] = "{ --[[" .. label(self, t) .. "]] ... }"
    return
  end
  seen[t] = true
  local inner = prefix .. self.indentation
  out[#out + 1] = "{ --[[" .. label(self, t) .. "]]"
  local before = #out
  local function field(key, value)
    out[#out + 1] = self.linebreak .. inner
    if key then out[#out + 1] = key .. " = " end
    put(self, value, out, inner, depth + 1, seen)
    out[#out + 1] = ","
  end
  for _, value in ipairs(t) do field(nil, value) end
  for key, value in next, t do
    if not (math.type(key) == "integer" and key >= 1 and key <= #t) then
      field(is_name(key) and key or "[" .. (type(key) == "string" and ("%q"):format(key) or label(self, key)) .. "]", value)
    end
  end
  out[#out + 1] = (#out > before and self.linebreak .. prefix or " ") .. "}"
end

function put(self, value, out, prefix, depth, seen)
  if type(value) == "string" then out[#out + 1] = ("%q"):format(value)
  elseif type(value) == "table" then put_table(self, value, out, prefix, depth, seen)
  elseif type(value) == "number" or type(value) == "boolean" or value == nil then out[#out + 1] = tostring(value)
  else out[#out + 1] = label(self, value) end
end

--- The values as a text.
function Viewer:tostring(...)
  local out = {}
  for i = 1, select("#", ...) do
    if i > 1 then out[#out + 1] = ", " end
    put(self, (select(i, ...)), out, self.prefix, 0, {})
  end
  return table.concat(out)
end

function Viewer:write(...) self.output:write(self:tostring(...)) end
function Viewer:print(...) self.output:write(self:tostring(...), "\n") end

return Viewer
