--[[
mare.orb.poa.destruction: the end of adapters.

In this order: the adapter and all below it take no requests any more and are found no more; requests in progress end; objects go back to their
activators, those of the deepest adapters first. Until the last of that the name is in the parent's `ending`, and no other adapter gets it.
]]
local mare = require "mare"
local exception = require "mare.orb.exception"
local scope = require "mare.orb.poa.scope"

local fiber, channel = mare.fiber, mare.channel

local destruction = {}

-- An adapter and all below it, deepest last; trees may be deep.
local function subtree(poa)
  local all, i = { poa }, 1
  while all[i] do
    for _, child in pairs(all[i].children) do all[#all + 1] = child end
    i = i + 1
  end
  return all
end

-- No request begins here any more.
local function shut(one)
  local tree, parent = one.tree, one.the_parent
  one.destroyed = true
  one:publish()
  one.manager:stir()
  tree.by_prefix[one.prefix] = nil
  if parent then
    parent.children[one.the_name] = nil
    parent.ending[one.the_name] = one
  end
end

-- Nothing is left to do later.
local function is_quiet(tree, all)
  for _, one in ipairs(all) do
    if one.active > 0 or one.activates and next(one.entries) or next(one.changing) then return false end
  end
  return not tree:in_progress(all)
end

-- The last step, which comes to pass whatever fails before it. What stays has only its objects and children destroyed.
local ending = {}

function ending:__close()
  for i = #self.all, 1, -1 do
    local one = self.all[i]
    one.manager.adapters[one] = nil
    one.activates = one.lasting and one.activates           -- what is left goes without a word
    for _, entry in pairs(one.entries) do self.tree.adapter:remove(entry) end
    if one.the_parent then one.the_parent.ending[one.the_name] = nil end
    one.over:close()
    one.over = false
  end
  local first = self.all[1]
  if not first.lasting then return end
  first.manager.adapters[first], first.destroyed = true, false
  first:publish()
end

local function finish(last, etherealize)
  local guard <close> = last
  last.tree:end_objects(last.all, etherealize)
  return guard
end

-- What follows happens in a fiber of its own, if it takes time: who waits for it may be cancelled. What there may be no memory for comes before the
-- first change, and from then on the last step is certain: an adapter with a channel that nobody closes would be waited for, for ever.
function destruction.destroy(poa, etherealize, wait)
  local tree = poa.tree
  if wait then tree:check_wait() end
  local all, overs = subtree(poa), {}
  for i = 1, #all do overs[i] = channel.new() end
  local last, quiet = setmetatable({ all = all, tree = tree }, ending), is_quiet(tree, all)
  if not quiet then fiber.spawn { name = "orb adapter", main = finish, args = { last, etherealize } } end   -- it begins when this one waits
  for i, one in ipairs(all) do one.over = overs[i] end
  local guard <close> = quiet and last or nil                 -- luacheck: ignore guard
  for i = #all, 1, -1 do shut(all[i]) end
  tree.adapter:changed()
  tree:beat()
  if quiet then tree:end_objects(all, etherealize) elseif wait then overs[1]:receive() end
end

--- An adapter that is being destroyed already: what the first call has said counts. `wait`: until it is over.
function destruction.join(poa, wait)
  if not wait then return end
  poa.tree:check_wait()
  poa.over:receive()
end

--- Waits until a child that is being destroyed is gone. In a request of that child it would wait for itself.
function destruction.await(parent, name)
  local old = parent.ending[name]
  while old do
    if scope.within(function(at) return at.poa == old end) or old.tree:serving(old) then
      error(exception.user("IDL:omg.org/PortableServer/POA/AdapterAlreadyExists:1.0", { name = name, reason = "it is being destroyed" }), 0)
    end
    old.over:receive()
    old = parent.ending[name]
  end
end

return destruction
