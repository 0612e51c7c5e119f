--[[
mare.pool.holder: a process of a pool. It makes the thing, tells the manager, and does what it is sent: calls of whoever has it on loan, checks and
the end from the manager. The thing is closed whatever ends the process, but for kill.
]]
local mare = require "mare"
local process = mare.process

local function trouble(err) return { err = err, traceback = debug.traceback("", 2):sub(2) } end

-- What can't travel goes as a text.
local function answer(reply, serial, ok, ...)
  if not ok then
    local e = ...
    if not pcall(reply.try_send, reply, "error", serial, e.err, e.traceback) then reply:try_send("error", serial, tostring(e.err), e.traceback) end
    return
  end
  local sent, why = pcall(reply.try_send, reply, "done", serial, ...)
  if not sent then reply:try_send("error", serial, why) end
end

local Held = { __close = function(held)
  if held.close then process.masked(held.close, held.thing) end
end }

return function(plan, inbox, manager, id)
  local held <close> = setmetatable({ thing = nil, close = nil }, Held)
  local ok, thing = xpcall(plan.make, trouble, table.unpack(plan.args, 1, plan.args.n))
  if not ok then
    if not pcall(manager.try_send, manager, "unmade", id, thing.err) then manager:try_send("unmade", id, tostring(thing.err)) end
    return
  end
  held.thing = thing
  held.close = plan.close
  manager:try_send("made", id)
  for kind, reply, serial, f, a in inbox:each() do
    if kind == "call" then
      answer(reply, serial, xpcall(f, trouble, held.thing, table.unpack(a, 1, a.n)))
    elseif kind == "check" then
      local checked, well = pcall(plan.check, held.thing)
      manager:try_send("checked", id, serial, checked and well and true or false)
    else
      return
    end
  end
end
