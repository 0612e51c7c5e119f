--[[
mare.orb.intercept: the interceptors of a broker, as portable interceptors define them (CORBA 3.3 part 1, 21).

A *list* holds those that have points of one side, in the order in which they were registered, and for each point their functions by the same
places, false where one has none. client.lua and server.lua have the flows; they keep the infos that are not in use in list.spare.

A broker without interceptors has no list, and none of its calls looks for one: `broker.invoke` is replaced, and the functions of operations that were
made before are made again; the server's `dispatch.serve` is replaced.

`free` is for mare.oil alone: such an interceptor may forward and raise anything at any point, change the values in info._args and
answer in the place of the object (info:_answer).
]]
local exception = require "mare.orb.exception"
local near = require "mare.orb.near"
local info = require "mare.orb.intercept.info"
local slots = require "mare.orb.intercept.slots"

local intercept = {}

local IOR = { "establish_components" }
local ALL = {}
for _, points in ipairs { info.client, info.server, IOR } do
  for _, name in ipairs(points) do ALL[#ALL + 1] = name end
end

local function new_list(broker, points)
  local list = { broker = broker, slots = intercept.slots(broker), points = points, n = 0, free = false, spare = {}, serial = 0,
                 fast = false, straight = #points - 2, flat = {} }      -- flat: each one and its functions up to those of a reply, for C
  for i = 1, #points do list[i] = {} end
  return list
end

-- Has it one of these points?
local function has(interceptor, points)
  for _, name in ipairs(points) do
    if interceptor[name] then return true end
  end
end

local function add(list, interceptor)
  list.n = list.n + 1
  list[0] = list[0] or {}
  list[0][list.n] = interceptor
  list.free = list.free or interceptor.free == true
  for i, name in ipairs(list.points) do list[i][list.n] = interceptor[name] or false end
  for i = 0, list.straight do table.insert(list.flat, list[i][list.n]) end
  intercept.hurry(list)
end

--- Are calls told of in C? Slots and free interceptors are Lua's.
function intercept.hurry(list) list.fast = list.slots.n == 0 and not list.free end

-- What is wrong with it is said where it is registered.
local function check(interceptor)
  if type(interceptor) ~= "table" then
    error(("an interceptor is a table with functions such as send_request or receive_request, not a %s"):format(type(interceptor)), 0)
  end
  for _, name in ipairs(ALL) do
    local f = interceptor[name]
    if f ~= nil and type(f) ~= "function" then error(("an interceptor's %s is a function, not a %s"):format(name, type(f)), 0) end
  end
  if interceptor.name ~= nil and type(interceptor.name) ~= "string" then error("an interceptor's name is a text", 0) end
  if has(interceptor, ALL) then return end
  for name, f in pairs(interceptor) do
    local meant = type(name) == "string" and type(f) == "function" and near(name, ALL)
    if meant then error(("an interceptor has no point '%s'; did you mean %s?"):format(name, meant), 0) end
  end
  error("an interceptor has at least one of " .. table.concat(ALL, ", "), 0)
end

local function check_name(broker, name)
  local names = broker.interceptor_names or {}
  broker.interceptor_names = names
  if names[name] then error(exception.user("IDL:omg.org/PortableInterceptor/ORBInitInfo/DuplicateName:1.0", { name = name }), 0) end
  names[name] = true
end

--- The slots of a broker, its PICurrent.
function intercept.slots(broker)
  if not broker.picurrent then broker.picurrent = slots.new() end
  return broker.picurrent
end

--- A slot more: its id.
function intercept.allocate(broker)
  local id = intercept.slots(broker):allocate()
  for _, list in pairs { broker.client_list, broker.server_list } do intercept.hurry(list) end
  return id
end

--- Registers an interceptor, or what a function(broker) gives.
function intercept.add(broker, interceptor)
  local given = interceptor
  if type(interceptor) == "function" then interceptor = interceptor(broker) end
  check(interceptor)
  if interceptor.name and interceptor.name ~= "" then check_name(broker, interceptor.name) end
  broker.interceptors, broker.registered = broker.interceptors or {}, broker.registered or {}
  table.insert(broker.interceptors, interceptor)
  table.insert(broker.registered, given)         -- what the processes of an object get: they make their own of a function
  if has(interceptor, info.client) then
    if not broker.client_list then
      broker.client_list = new_list(broker, info.client)
      require "mare.orb.intercept.client".set(broker, broker.client_list)
    end
    add(broker.client_list, interceptor)
  end
  if has(interceptor, info.server) then
    local list = broker.server_list or new_list(broker, info.server)
    broker.server_list = list
    add(list, interceptor)
    if broker.server and not broker.server.dispatch.interceptors then broker.server:intercept(list) end
  end
end

-- What an IOR interceptor is told (21.5): it adds components to the profiles of the server's references.
local establishing = { __name = "IOR info" }
establishing.__index = establishing

function establishing:add_ior_component(tag, data)
  if math.type(tag) ~= "integer" or tag < 0 or tag > 0xffffffff or type(data) ~= "string" then
    error("add_ior_component takes a tag, which is a number, and data, which are a string", 2)
  end
  if #data > 65535 then error(("add_ior_component: a component of %d bytes; 65535 is the most"):format(#data), 2) end
  self.list[#self.list + 1] = { tag, data }
end

-- Ours are IIOP profiles alone (0); others have no place to add to.
function establishing:add_ior_component_to_profile(tag, data, profile)
  if profile ~= 0 then error(exception.system("BAD_PARAM", 29, "COMPLETED_NO", ("there is no profile %s"):format(tostring(profile))), 0) end
  self:add_ior_component(tag, data)
end

-- CORBA's AdapterName: the names from the root down.
local function name_of(poa)
  local names = {}
  while poa do
    table.insert(names, 1, poa.the_name)
    poa = poa.the_parent
  end
  return names
end

--- The components that IOR interceptors add to references of a server with this adapter. An error of one is logged, and its
--- components are left out; the others' stay.
function intercept.components(broker, log, components, poa)
  for _, interceptor in ipairs(broker.interceptors or {}) do
    if interceptor.establish_components then
      local told = setmetatable({ adapter_id = poa.id, adapter_name = name_of(poa), list = {} }, establishing)
      local fine, err = pcall(interceptor.establish_components, interceptor, told)
      if fine then table.move(told.list, 1, #told.list, #components + 1, components)
      else log(1, ("interceptor '%s' failed in establish_components: %s"):format(interceptor.name or "", tostring(err))) end
    end
  end
  return components
end

--- The broker has ended.
function intercept.destroy(broker)
  for _, interceptor in ipairs(broker.interceptors or {}) do
    local destroy = interceptor.destroy
    if type(destroy) == "function" then
      local fine, err = pcall(destroy, interceptor)
      if not fine then broker.log(1, ("interceptor '%s' failed in destroy: %s"):format(interceptor.name or "", tostring(err))) end
    end
  end
end

return intercept
