-- mare.orb.json: a value as JSON text. A table with an element 1 or without any is an array, else an object, its keys in order.
local json = {}

local names = { ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ['"'] = '\\"', ["\\"] = "\\\\" }

local function text(s)
  if not utf8.len(s) then s = s:gsub("[\128-\255]", function(c) return utf8.char(c:byte()) end) end
  return '"' .. s:gsub('[%c"\\]', function(c) return names[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

function json.text(v)
  if type(v) == "string" then return text(v) end
  if type(v) ~= "table" then return tostring(v) end
  local parts = {}
  if v[1] ~= nil or next(v) == nil then
    for i, e in ipairs(v) do parts[i] = json.text(e) end
    return "[" .. table.concat(parts, ",") .. "]"
  end
  for key in pairs(v) do parts[#parts + 1] = key end
  table.sort(parts)
  for i, key in ipairs(parts) do parts[i] = text(key) .. ":" .. json.text(v[key]) end
  return "{" .. table.concat(parts, ",") .. "}"
end

return json
