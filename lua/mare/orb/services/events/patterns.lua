--[[
mare.orb.services.events.patterns: types of events, as subscriptions, offers and constraints name them.

An EventType is { domain_name =, type_name = }. A name that is empty or "*" stands for all, so does the type "%ALL"; a "*" within a name stands for
any text. A list of patterns is nil where it stands for all types.

Strangers write them: a list has at most `limits.types`, a name LONGEST bytes, and a name of an event that is longer fits no pattern but all. So what
a match may cost is bounded.
]]
local exception = require "mare.orb.exception"

local patterns = {}

local LONGEST = 1024
local TYPE, STAR = 440, 48                        -- bytes that a type is counted for beside its names, and a star in them

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
  if #text > LONGEST then return false end
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

-- In steps: a pattern is one, a text between stars is looked for from each place of a name on.
local function cost(p, text)
  if p == nil or p.is or #text > LONGEST then return 0 end
  return #p.like + #text * #p.like // 256
end

--- Is an event one of these? `afford`, if it is given, is asked for each pattern whether so many steps may be taken; if not, the event is none.
function patterns.match(list, domain, name, afford)
  for i = 1, #list do
    if afford and not afford(1 + cost(list[i].domain, domain) + cost(list[i].name, name)) then return false end
    if fits(list[i].domain, domain) and fits(list[i].name, name) then return true end
  end
  return false
end

--- Raises what is too much in a list of types.
function patterns.check(list, most)
  if #list > most then error(exception.system("NO_RESOURCES", 0, "COMPLETED_NO", ("a list has at most %d types"):format(most)), 0) end
  for _, T in ipairs(list) do
    if #T.domain_name > LONGEST or #T.type_name > LONGEST then
      error(exception.system("IMP_LIMIT", 0, "COMPLETED_NO", ("the names of a type have at most %d bytes"):format(LONGEST)), 0)
    end
  end
end

--- Bytes that a list of types takes, roughly, with the patterns that are made of it. The list of all, which every part has at first, is for nothing.
function patterns.size(list)
  local total = 0
  if #list == 1 and is_all(list[1].domain_name) and is_all(list[1].type_name) then return 0 end
  for _, T in ipairs(list) do
    local _, a = T.domain_name:gsub("%*", "")
    local _, b = T.type_name:gsub("%*", "")
    total = total + TYPE + #T.domain_name + #T.type_name + (a + b) * STAR
  end
  return total
end

local function key(T) return ("%d:%s%s"):format(#T.domain_name, T.domain_name, T.type_name) end

--- Puts types at the end of a list that aren't in it; `known` is the set of their keys.
function patterns.join(list, known, added)
  for _, T in ipairs(added) do
    local k = key(T)
    if not known[k] then
      known[k] = true
      list[#list + 1] = T
    end
  end
end

--- Patterns of a subscription: none asks for nothing.
function patterns.subscribed(list)
  if #list == 0 then return {} end
  return patterns.of(list)
end

--- A list of types after a change. Who subscribed to all until now, and names types, wants those.
function patterns.changed(list, added, removed)
  local after, gone, known = {}, {}, {}
  for _, T in ipairs(removed) do gone[key(T)] = true end
  for _, T in ipairs(list) do
    local k = key(T)
    if not gone[k] and not (#added > 0 and is_all(T.domain_name) and is_all(T.type_name)) then
      after[#after + 1], known[k] = T, true
    end
  end
  patterns.join(after, known, added)
  return after
end

--- Changes the types of an admin or a proxy, within the limits.
function patterns.change(part, added, removed)
  local after = patterns.changed(part.types, added, removed)
  patterns.check(after, part.service.limits.types)
  part.service:charge(part, "types", patterns.size(after))
  part.types = after
end

patterns.ALL = { domain_name = "*", type_name = "%ALL" }

return patterns
