-- run.lua SPEC [TEXT]: runs one spec file with busted's core; with TEXT, only the tests whose full name contains it.
--
-- Each test's name is written before it runs, so that a crash or a time limit tells which one it was. Ends with 1 if a
-- test failed, or none was executed.
-- Unlike busted's own command, the spec runs in the true global environment: a function of it that is sent to another
-- process must have _G as its _ENV, not a table of busted's. So functions such as describe and it are globals here.
local file, only = arg[1], arg[2]

-- Some distributions carry parts of busted for older Lua versions only. What is pure Lua there serves here as well; of the C
-- module "system" busted's core needs three functions. Only this state sees it: package.path stays as it is.
local function older(name)
  for _, version in ipairs { "5.3", "5.1" } do
    local path = "/usr/share/lua/" .. version .. "/?.lua;/usr/share/lua/" .. version .. "/?/init.lua"
    local found = package.searchpath(name, path)
    if found then return assert(loadfile(found)), found end
  end
  return "\n\tnor among the files of older Lua versions"
end
package.searchers[#package.searchers + 1] = older
if not pcall(require, "system") then
  package.loaded.system = { gettime = os.time, monotime = os.clock, sleep = function(s) os.execute("sleep " .. s) end }
end

local busted = require "busted.core"()
require "busted"(busted)

local function full_name(element)
  local names = {}
  while element and element.descriptor ~= "file" and element.descriptor ~= "suite" do
    table.insert(names, 1, tostring(element.name or element.descriptor))
    element = busted.context.parent(element)
  end
  return table.concat(names, " ")
end

local count = { success = 0, failure = 0, error = 0, pending = 0 }
local failed = {}

local function note(element, message, trace)
  failed[#failed + 1] = { name = full_name(element), message = message, trace = trace and trace.traceback }
  -- Below the test's own xpcall there is only busted.
  local last = failed[#failed]
  last.trace = last.trace and last.trace:gsub("\n%s*%[C%]: in function 'xpcall'.*", "")
end

busted.subscribe({ "test", "start" }, function(element)
  io.stdout:write("  ", full_name(element), " ... ")
  io.stdout:flush()
  return nil, true
end)
busted.subscribe({ "test", "end" }, function(element, _, status)
  count[status] = count[status] + 1
  io.stdout:write(("%s (%.0f ms)\n"):format(status == "success" and "ok" or status:upper(), 1000 * (element.duration or 0)))
  io.stdout:flush()
  return nil, true
end)
busted.subscribe({ "pending" }, function(_, _, message)
  if message then io.stdout:write(tostring(message), " ... ") end
  return nil, true
end)
for _, kind in ipairs { "failure", "error" } do
  busted.subscribe({ kind }, function(element, _, message, trace)
    note(element, message, trace)
    if element.descriptor ~= "it" then count.error = count.error + 1 end
    return nil, true
  end)
end

for _, name in ipairs { "describe", "context", "insulate", "expose", "it", "spec", "test", "before_each", "after_each", "setup",
                        "teardown", "lazy_setup", "lazy_teardown", "strict_setup", "strict_teardown", "assert", "spy", "mock",
                        "stub", "match" } do
  rawset(_G, name, busted.api[name])
end
-- These two mean something else inside a test.
function _G.pending(...)
  if busted.context.get().descriptor == "it" then return busted.pending(...) end
  return busted.api.pending(...)
end
function _G.finally(f) return busted.context.get().env.finally(f) end

if only then
  for _, name in ipairs { "it", "spec", "test" } do
    local register = _G[name]
    rawset(_G, name, function(title, f)
      local parent = full_name(busted.context.get())
      if (parent .. " " .. title):find(only, 1, true) then return register(title, f) end
    end)
  end
end

table.remove(package.searchers)
local chunk, err = loadfile(file)
if not chunk then
  io.stderr:write(err, "\n")
  os.exit(1)
end
-- A function without _ENV stands before the chunk: busted would replace the chunk's.
busted.executors.file(file, setmetatable({ getTrace = function(_, info) return info end }, { __call = function() return chunk() end }))
require "busted.execute"(busted)(1, {})

for _, f in ipairs(failed) do
  io.stdout:write(("\nFAILED: %s\n%s\n%s\n"):format(f.name, tostring(f.message), f.trace or ""))
end
local executed = count.success + count.failure + count.error
print(("%s: %d ok, %d failed, %d errors, %d pending"):format(file, count.success, count.failure, count.error, count.pending))
if executed == 0 then print("no test was executed") end
os.exit(executed > 0 and #failed == 0)
