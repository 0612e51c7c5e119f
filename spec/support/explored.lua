-- Reads what `mare explore --json` prints: one flat object.
local explored = {}

local escapes = { n = "\n", t = "\t", r = "\r", b = "\b", f = "\f", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

local function unescaped(s)
  s = s:gsub("\\u(%x%x%x%x)", function(hex) return "\0" .. utf8.char(tonumber(hex, 16)) end)
  return (s:gsub("\\(.)", escapes):gsub("%z", ""))
end

function explored.json(line)
  local fields, at = {}, line:match "^{()"
  assert(at and line:match "}\n$", "no JSON object: " .. line)
  while line:sub(at, at) ~= "}" do
    local name, after = line:match('^,?"([%w_]+)":()', at)
    assert(name, "at " .. at .. " of " .. line)
    if line:sub(after, after) == '"' then
      local stop = after + 1
      while line:sub(stop, stop) ~= '"' do stop = stop + (line:sub(stop, stop) == "\\" and 2 or 1) end
      fields[name] = unescaped(line:sub(after + 1, stop - 1))
      at = stop + 1
    else
      local word, rest = line:match("^([^,}]+)()", after)
      if word == "true" or word == "false" then fields[name] = word == "true" else fields[name] = assert(tonumber(word)) end
      at = rest
    end
  end
  return fields
end

return explored
