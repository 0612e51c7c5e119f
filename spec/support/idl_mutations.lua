-- idl_mutations: texts that differ from a good one in one place; the same ones in every run.
--
--   mutations(text, count) -> { { text =, what = "delete 'x' on line 12" }, … }      all different from each other and from the text
local function tokens(text)
  local list, at, line = {}, 1, 1
  local function take(pattern)
    local word = text:match(pattern, at)
    if word then
      local _, breaks = word:gsub("\n", "")
      local from, start = at, line
      at, line = at + #word, line + breaks
      return word, from, start
    end
  end
  while at <= #text do
    if not (take("^%s+") or take("^//[^\n]*") or take("^/%*.-%*/") or take("^#[^\n]*")) then
      local word, from, start
      for _, pattern in ipairs { "^L?\"[^\"\n]*\"", "^L?'\\?[^\n]-'", "^[%a_][%w_]*", "^%d[%w%.]*", "^::", "^<<", "^>>", "^." } do
        word, from, start = take(pattern)
        if word then break end
      end
      list[#list + 1] = { text = word, from = from, line = start }
    end
  end
  return list
end

local function is_name(t) return t.text:find("^[%a_]") and not t.text:find("['\"]") end

-- What becomes of token i: the replacement for the tokens i to j, j, and what was done. nil: not for this token.
local operators = {
  function(t) return "", 0, ("delete '%s'"):format(t.text) end,
  function(t) return t.text .. " " .. t.text, 0, ("double '%s'"):format(t.text) end,
  function(t, following) if following then return following.text .. " " .. t.text, 1, ("swap '%s' and '%s'"):format(t.text, following.text) end end,
  function(t) if is_name(t) then return "Nothing", 0, ("replace '%s' by an unknown name"):format(t.text) end end,
  function(t)
    if not is_name(t) then return nil end
    local first = t.text:sub(1, 1)
    return (first:upper() == first and first:lower() or first:upper()) .. t.text:sub(2), 0, ("change the case of '%s'"):format(t.text)
  end,
  function(t, _, other) return other.text, 0, ("replace '%s' by '%s'"):format(t.text, other.text) end,
  function(t, _, other) return t.text .. " " .. other.text, 0, ("add '%s' after '%s'"):format(other.text, t.text) end,
  function(t) if t.text:find("^%d") then return "99999999999", 0, ("replace '%s' by a large number"):format(t.text) end end,
  function(t) if t.text:find("^%d") then return "0", 0, ("replace '%s' by 0"):format(t.text) end end,
  function(t) if is_name(t) then return "struct", 0, ("replace '%s' by a keyword"):format(t.text) end end,
}

return function(text, count)
  local all, list, seen = tokens(text), {}, { [text] = true }
  local state = 12345
  local function random(n)
    state = (state * 1103515245 + 12345) & 0x7FFFFFFF
    return (state >> 8) % n + 1
  end
  while #list < count do
    local i = random(#all)
    local t, following, other = all[i], all[i + 1], all[random(#all)]
    local new, more, what = operators[random(#operators)](t, following, other)
    if new then
      local last = all[i + more]
      local mutated = text:sub(1, t.from - 1) .. new .. text:sub(last.from + #last.text)
      if not seen[mutated] then
        seen[mutated] = true
        list[#list + 1] = { text = mutated, what = ("%s on line %d"):format(what, t.line) }
      end
    end
  end
  return list
end
