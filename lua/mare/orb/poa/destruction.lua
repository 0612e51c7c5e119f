--[[
mare.orb.poa.destruction: the end of adapters.

In this order: the adapter and all below it take no requests any more and are found no more; requests in progress end; objects go back to their
activators, those of the deepest adapters first. Until the last of that the name is in the parent's `ending`, and no other adapter gets it.
]]
local mare = require "mare"
local exception = require "mare.orb.exception"
local scope = require "mare.orb.poa.scope"

local channel = mare.channel

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

local function finish(tree, all, etherealize)
  tree:complete(all)
  for i = #all, 1, -1 do
    local one = all[i]
    if etherealize then one:etherealize_all() end
    one.activates = false                        -- what is left goes without a word
    for _, entry in pairs(one.entries) do tree.adapter:remove(entry) end
    one.manager.adapters[one] = nil
    if one.the_parent then one.the_parent.ending[one.the_name] = nil end
    one.over:close()
  end
end

-- What stays has only its objects and children destroyed.
local function reopen(poa)
  poa.destroyed = false
  poa.manager.adapters[poa] = true
  poa:publish()
end

function destruction.destroy(poa, etherealize, wait)
  local tree = poa.tree
  if wait then tree:check_wait() end
  local all = subtree(poa)
  for _, one in ipairs(all) do one.over = channel.new() end
  for i = #all, 1, -1 do shut(all[i]) end
  tree.adapter:changed()
  tree.later(wait or is_quiet(tree, all), function()
    finish(tree, all, etherealize)
    if poa.lasting then reopen(poa) end
  end)
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
