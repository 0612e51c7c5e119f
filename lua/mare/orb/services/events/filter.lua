--[[
mare.orb.services.events.filter: filters (CosNotifyFilter::Filter), who makes them, and whom they are attached to (FilterAdmin).

A filter is a servant with `constraints`: a list of { id =, exp = ConstraintExp, types = patterns | nil, matches = compiled }. It matches an event
that one of them matches; a filter without any matches none. It lasts until it is destroyed, and who it is attached to forgets it then. Filters of
other services can't be attached: to ask them would hold up all that is sent. What clients can make us keep is bounded by `limits.filters`,
`limits.constraints`, `limits.types`, and in bytes by `limits.kept`; what they can make us compute for an event by STEPS.
]]
local event = require "mare.orb.services.events.event"
local exception = require "mare.orb.exception"
local grammar = require "mare.orb.services.events.grammar"
local path = require "mare.orb.services.events.path"
local patterns = require "mare.orb.services.events.patterns"

local filter = {}

local servant = {}
servant.__index = servant

local GRAMMAR = "EXTENDED_TCL"
local STEPS = 10000                               -- of all subscriptions and constraints that one event meets at one consumer
local CONSTRAINT, TOKEN = 600, 160                -- bytes that a constraint and a token of it are counted for

filter.ATTACHED = 120                             -- … and a filter's place at a proxy

local NAMES = { EXTENDED_TCL = true, ETCL = true, TCL = true }   -- the last is a part of it

local function raise(name, members) error(exception.user("IDL:omg.org/CosNotifyFilter/" .. name .. ":1.0", members), 0) end

local function refuse(name, text) error(exception.system(name, 0, "COMPLETED_NO", text), 0) end

-- ---- constraints ----

-- The place of the mistake is told in the only text that the exception has.
local function compile(exp, id)
  local matches, err = grammar.compile(exp.constraint_expr)           -- err: its tokens
  if not matches then
    raise("InvalidConstraint", { constr = { event_types = exp.event_types, constraint_expr = exp.constraint_expr .. "   <-- " .. err } })
  end
  return { id = id, exp = exp, types = patterns.of(exp.event_types), matches = matches,
           size = CONSTRAINT + #exp.constraint_expr + TOKEN * err + patterns.size(exp.event_types) }
end

-- What a stranger says.
local function checked(self, exp, id)
  patterns.check(exp.event_types, self.service.limits.types)
  return compile(exp, id)
end

local function size(list)
  local total = 0
  for _, c in ipairs(list) do total = total + c.size end
  return total
end

local function info(c) return { constraint_expression = c.exp, constraint_id = c.id } end

-- A function that finds a constraint's place by its id.
local function finder(self)
  local places = {}
  for i, c in ipairs(self.constraints) do places[c.id] = i end
  return function(id) return places[id] or raise("ConstraintNotFound", { id = id }) end
end

local function check_room(self, more)
  local most = self.service.limits.constraints
  if #self.constraints + more > most then refuse("NO_RESOURCES", ("a filter has at most %d constraints"):format(most)) end
end

local function save(self) self.service:save(self) end

function servant.add_constraints(self, list)
  check_room(self, #list)
  local made, infos = {}, {}
  for i, exp in ipairs(list) do
    made[i] = checked(self, exp, self.last + i)
    infos[i] = info(made[i])
  end
  self.service:charge(self, "constraints", size(self.constraints) + size(made))
  table.move(made, 1, #made, #self.constraints + 1, self.constraints)
  self.last = self.last + #made
  save(self)
  return infos
end

function servant.modify_constraints(self, deleted, modified)
  local all, gone, after, find = table.move(self.constraints, 1, #self.constraints, 1, {}), {}, {}, finder(self)
  for _, m in ipairs(modified) do all[find(m.constraint_id)] = checked(self, m.constraint_expression, m.constraint_id) end
  for _, id in ipairs(deleted) do gone[find(id)] = true end
  for i, c in ipairs(all) do
    if not gone[i] then after[#after + 1] = c end
  end
  self.service:charge(self, "constraints", size(after))
  self.constraints = after
  save(self)
end

-- The same one many times would make a large reply of a small request.
function servant.get_constraints(self, ids)
  local list, given, find = {}, {}, finder(self)
  for i, id in ipairs(ids) do
    local at = find(id)
    if given[at] then refuse("NO_RESOURCES", ("constraint %d is asked for twice"):format(id)) end
    list[i], given[at] = info(self.constraints[at]), true
  end
  return list
end

function servant.get_all_constraints(self)
  local list = {}
  for i, c in ipairs(self.constraints) do list[i] = info(c) end
  return list
end

function servant.remove_all_constraints(self)
  self.constraints = {}
  self.service:charge(self, "constraints", 0)
  save(self)
end

function servant.destroy(self)
  self.gone = true
  self.service:forget(self)
end

-- ---- matching ----

--- Does an event match?
function filter.matches(self, e)
  local domain, name = event.type_of(e)
  for _, c in ipairs(self.constraints) do
    if not path.afford(1) then return false end
    if (not c.types or patterns.match(c.types, domain, name, path.afford)) and c.matches(e) then return true end
  end
  return false
end

local function alone(self, e)
  path.allow(STEPS)
  return filter.matches(self, e)
end

function servant.match(self, any) return alone(self, event.of_any(any, self.service.T)) end

function servant.match_structured(self, s) return alone(self, event.of_structured(s, self.service.T)) end

function servant.match_typed(self, list)
  local plain = event.as_structured { any = nil }
  plain.filterable_data = list
  return alone(self, event.of_structured(plain, self.service.T))
end

-- Who is told of changes: nobody changes what a filter asks for behind a supplier's back here.
function servant.attach_callback() refuse("NO_IMPLEMENT", "filters tell nobody of their changes") end

function servant.detach_callback() raise("CallbackNotFound", {}) end
function servant.get_callbacks() return {} end

-- ---- making them ----

local factory = {}
factory.__index = factory

local function make(service, id)
  return setmetatable({ kind = "filter", service = service, id = id, constraints = {}, last = 0, constraint_grammar = GRAMMAR }, servant)
end

function factory.create_filter(self, name)
  if not NAMES[name] then raise("InvalidGrammar", {}) end
  local service = self.service
  if service.counts.filter >= service.limits.filters then refuse("NO_RESOURCES", ("there are %d filters, no more"):format(service.limits.filters)) end
  local f = make(service, service:new_id())
  service:save(f)
  return service:serve(f, "CosNotifyFilter::Filter")
end

function factory.create_mapping_filter() refuse("NO_IMPLEMENT", "there are no mapping filters; the events' headers have a Priority and a Timeout") end

function filter.factory(service) return setmetatable({ service = service, kind = "filters" }, factory) end

--- What is kept of a filter.
function filter.describe(self)
  local list = {}
  for i, c in ipairs(self.constraints) do list[i] = { id = c.id, text = c.exp.constraint_expr, types = c.exp.event_types } end
  return { constraints = list, last = self.last }
end

function filter.restore(service, id, data)
  local f = make(service, id)
  for i, c in ipairs(data.constraints) do
    f.constraints[i] = compile({ constraint_expr = c.text, event_types = c.types }, c.id)
  end
  f.last = data.last
  service:charge(f, "constraints", size(f.constraints), true)
  return f, "CosNotifyFilter::Filter"
end

servant.describe = filter.describe

-- ---- FilterAdmin ----

local function charge(self, n) self.service:charge(self, "filters", n * filter.ATTACHED) end

--- Gives a class of servants the operations of FilterAdmin. Such a servant has `filters` (a list of { id =, filter = }) and `last_filter`.
--- One that is attached already keeps its id: it would be asked twice.
function filter.add(class)
  function class.add_filter(self, reference)
    local f = reference and self.service.broker:servant(reference)
    if not f or getmetatable(f) ~= servant or f.gone then refuse("BAD_PARAM", "only filters of this service's factory can be attached") end
    for _, a in ipairs(self.filters) do
      if a.filter == f then return a.id end
    end
    if #self.filters >= self.service.limits.constraints then refuse("NO_RESOURCES", "too many filters are attached") end
    charge(self, #self.filters + 1)
    self.last_filter = self.last_filter + 1
    self.filters[#self.filters + 1] = { id = self.last_filter, filter = f }
    self.service:save(self)
    return self.last_filter
  end

  local function at(self, id)
    for i, a in ipairs(self.filters) do
      if a.id == id and not a.filter.gone then return i, a end
    end
    raise("FilterNotFound", {})
  end

  function class.remove_filter(self, id)
    table.remove(self.filters, (at(self, id)))
    charge(self, #self.filters)
    self.service:save(self)
  end

  function class.get_filter(self, id) return select(2, at(self, id)).filter.proxy end

  function class.get_all_filters(self)
    local ids = {}
    for _, a in ipairs(self.filters) do
      if not a.filter.gone then ids[#ids + 1] = a.id end
    end
    return ids
  end

  function class.remove_all_filters(self)
    self.filters = {}
    charge(self, 0)
    self.service:save(self)
  end
end

local function no_mapping() refuse("NO_IMPLEMENT", "there are no mapping filters") end

--- Gives a class attributes for mapping filters, of which there are none.
function filter.add_mapping(class)
  class._get_priority_filter, class._get_lifetime_filter = function() return nil end, function() return nil end
  class._set_priority_filter, class._set_lifetime_filter = no_mapping, no_mapping
end

-- nil: nothing is attached.
local function one_of(list, e)
  local any
  for i = #list, 1, -1 do
    local f = list[i].filter
    if f.gone then table.remove(list, i)
    elseif filter.matches(f, e) then return true
    else any = true end
  end
  if any then return false end
  return nil
end

-- Do the filters of a proxy and of its admin let an event through? Who has none has no say.
local function pass(part, admin, e)
  if #part.filters == 0 and #admin.filters == 0 then return true end
  local a, b = one_of(part.filters, e), one_of(admin.filters, e)
  if a == nil or b == nil then return a ~= false and b ~= false end
  if admin.MyOperator == "OR_OP" then return a or b end
  return a and b
end

--- … of a supplier's.
function filter.pass(part, e)
  path.allow(STEPS)
  return pass(part, part.admin, e)
end

local function subscribed(list, domain, name) return not list or patterns.match(list, domain, name, path.afford) end

--- Is an event for a consumer, by what it and its admin have subscribed to, and by their filters? STEPS are for all of that together.
function filter.wants(part, e, domain, name)
  local admin = part.admin
  path.allow(STEPS)
  return subscribed(part.wanted, domain, name) and subscribed(admin.wanted, domain, name) and pass(part, admin, e)
end

return filter
