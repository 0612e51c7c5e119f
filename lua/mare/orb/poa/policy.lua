--[[
mare.orb.poa.policy: the policies of an adapter.

They are given as a list of CORBA's values, { "PERSISTENT", "USER_ID" }; each belongs to one policy only. What is not given has CORBA's default.
]]
local exception = require "mare.orb.exception"
local near = require "mare.orb.near"

local policy = {}

-- Each policy's values; the first is the default.
policy.kinds = {
  lifespan = { "TRANSIENT", "PERSISTENT" },
  id_uniqueness = { "UNIQUE_ID", "MULTIPLE_ID" },
  id_assignment = { "SYSTEM_ID", "USER_ID" },
  servant_retention = { "RETAIN", "NON_RETAIN" },
  request_processing = { "USE_ACTIVE_OBJECT_MAP_ONLY", "USE_DEFAULT_SERVANT", "USE_SERVANT_MANAGER" },
  implicit_activation = { "NO_IMPLICIT_ACTIVATION", "IMPLICIT_ACTIVATION" },
  thread = { "ORB_CTRL_MODEL", "SINGLE_THREAD_MODEL", "MAIN_THREAD_MODEL" },
}

local kind_of, values = {}, {}
for kind, list in pairs(policy.kinds) do
  for _, value in ipairs(list) do
    kind_of[value] = kind
    values[#values + 1] = value
  end
end
table.sort(values)

-- What a value asks for: { kind, values that will do }
local needs = {
  USE_ACTIVE_OBJECT_MAP_ONLY = { "servant_retention", "RETAIN" },
  USE_DEFAULT_SERVANT = { "id_uniqueness", "MULTIPLE_ID" },
  NON_RETAIN = { "request_processing", "USE_DEFAULT_SERVANT", "USE_SERVANT_MANAGER" },
  IMPLICIT_ACTIVATION = { "id_assignment", "SYSTEM_ID" },
}
local also = { IMPLICIT_ACTIVATION = { "servant_retention", "RETAIN" } }

local function invalid(index, reason)
  error(exception.user("IDL:omg.org/PortableServer/POA/InvalidPolicy:1.0", { index = index, reason = reason }), 0)
end

-- What is not in the list itself would go unseen.
local function check_name(list, name)
  if name == "interface" or math.type(name) == "integer" and name >= 1 and name <= #list then return end
  local meant = near(tostring(name), { "interface" })
  error(exception.system("BAD_PARAM", 0, "COMPLETED_NO", ("create_POA: policies are a list, and interface = \"Name\"; there is no '%s'%s")
    :format(tostring(name), meant and "; did you mean " .. meant .. "?" or "")), 0)
end

local function check(chosen, place, value, need)
  if not need then return end
  local has = chosen[need[1]]
  for i = 2, #need do
    if has == need[i] then return end
  end
  invalid(math.max(place[value] or 0, place[has] or 0), ("%s goes with %s, not with %s"):format(value, table.concat(need, " or ", 2), has))
end

--- kind -> value of a list of values. Raises InvalidPolicy; its `index` is the place in the list of what does not go with the rest.
function policy.read(list)
  if type(list) ~= "table" then
    error(exception.system("BAD_PARAM", 0, "COMPLETED_NO", "policies are a list, such as { \"PERSISTENT\", \"USER_ID\" }"), 0)
  end
  local chosen, place = {}, {}
  for name in pairs(list) do check_name(list, name) end
  for i, value in ipairs(list) do
    local kind = kind_of[value]
    if not kind then
      local meant = near(tostring(value), values)
      invalid(i, ("there is no policy value '%s'%s"):format(tostring(value), meant and "; did you mean " .. meant .. "?" or ""))
    end
    if chosen[kind] and chosen[kind] ~= value then invalid(i, ("%s contradicts %s"):format(value, chosen[kind])) end
    chosen[kind], place[value] = value, i
  end
  for kind, all in pairs(policy.kinds) do chosen[kind] = chosen[kind] or all[1] end
  for _, kind in ipairs { "request_processing", "servant_retention", "implicit_activation" } do
    local value = chosen[kind]
    check(chosen, place, value, needs[value])
    check(chosen, place, value, also[value])
  end
  return chosen
end

return policy
