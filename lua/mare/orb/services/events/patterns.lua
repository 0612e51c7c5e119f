--[[
mare.orb.services.events.patterns: types of events, as subscriptions, offers and constraints name them.

An EventType is { domain_name =, type_name = }. A name that is empty or "*" stands for all, so does the type "%ALL"; a "*" within a name stands for
any text. A list of patterns is nil where it stands for all types.
]]
local patterns = {}

local function is_all(name) return name == "" or name == "*" or name == "%ALL" end

local function one(name)
  if is_all(name) then return nil end
  if not name:find("*", 1, true) then return { is = name } end
  local parts = {}
  for part in (name .. "*"):gmatch "([^*]*)%*" do parts[#parts + 1] = part end
  return { like = parts }
end

--- What a sequence of EventTypes asks for: patterns, or nil for all.
function patterns.of(list)
  if #list == 0 then return nil end
  local made = {}
  for i, T in ipairs(list) do
    local domain, name = one(T.domain_name), one(T.type_name)
    if not domain and not name then return nil end
    made[i] = { domain = domain, name = name }
  end
  return made
end

-- Texts between stars, one after the other, the first at the beginning and the last at the end: one walk, whatever a stranger has written.
local function like(parts, text)
  local last = #parts
  if text:sub(1, #parts[1]) ~= parts[1] then return false end
  local at = #parts[1] + 1
  for i = 2, last - 1 do
    local _, stop = text:find(parts[i], at, true)
    if not stop then return false end
    at = stop + 1
  end
  return #text - #parts[last] + 1 >= at and text:sub(#text - #parts[last] + 1) == parts[last]
end

local function fits(p, text) return p == nil or p.is == text or p.like ~= nil and like(p.like, text) end

function patterns.match(list, domain, name)
  for i = 1, #list do
    if fits(list[i].domain, domain) and fits(list[i].name, name) then return true end
  end
  return false
end

local function same(a, b) return a.domain_name == b.domain_name and a.type_name == b.type_name end

--- Patterns of a subscription: none asks for nothing.
function patterns.subscribed(list)
  if #list == 0 then return {} end
  return patterns.of(list)
end

--- A list of types after a change. Who subscribed to all until now, and names types, wants those.
function patterns.changed(list, added, removed)
  local after = {}
  for _, T in ipairs(list) do
    local stays = not (#added > 0 and is_all(T.domain_name) and is_all(T.type_name))
    for _, r in ipairs(removed) do stays = stays and not same(T, r) end
    if stays then after[#after + 1] = T end
  end
  for _, T in ipairs(added) do
    local known = false
    for _, k in ipairs(after) do known = known or same(k, T) end
    if not known then after[#after + 1] = T end
  end
  return after
end

patterns.ALL = { domain_name = "*", type_name = "%ALL" }

return patterns
