--[[
spec.support.oil.tests: runs the tests of OiL's own source, a checkout of which OIL_SRC names, on mare's module `oil`.

OiL keeps them in test/oil/dtests: each file assigns programs as texts to names (Server, Client …) and says which is the one that judges. They run
unchanged
under a harness of ours, each in an OS process, but for ports, of which each run has its own; `loop.test` and the harness of OiL, which needs
LuaSocket, dtest and others, are not used.

  local tests = require "spec.support.oil.tests"
  for _, test in ipairs(tests.list(folder)) do tests.run(test, flavor) end
]]
local mare = require "mare"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

local tests = {}

local GROUPS = { "kernel", "corba", "corba/intercepted" }

-- The files of a folder, in order.
local function files(folder)
  local list = {}
  local pipe = io.popen(("ls '%s' 2>/dev/null"):format(folder))
  for name in pipe:lines() do
    if name:find "%.lua$" then list[#list + 1] = name end
  end
  pipe:close()
  return list
end

-- Runs a file of OiL's tests where its globals become fields: { programs =, master =, needs = }.
local function read(path)
  local test = { programs = {} }
  local template = {
    newsuite = function(_, needs) test.needs = needs or {} return {} end,
    newtest = function() return {} end,
  }
  local stubs = {
    ["loop.test.Suite"] = function(t) return t or {} end,
    ["oil.dtests.Template"] = function(t) test.master = t[1] return template end,
  }
  local env = setmetatable({ require = function(name) return stubs[name] or require(name) end },
                           { __index = _G, __newindex = function(_, name, value) test.programs[name] = value end })
  local chunk = assert(loadfile(path, "t", env))
  chunk()
  return test
end

--- All tests of a checkout: { group =, name =, path =, programs = { name = text }, master =, needs = { cooperative =, … } } each.
function tests.list(source)
  local list = {}
  for _, group in ipairs(GROUPS) do
    local folder = ("%s/test/oil/dtests/%s"):format(source, group)
    for _, name in ipairs(files(folder)) do
      local test = read(folder .. "/" .. name)
      test.group, test.name = group, name:gsub("%.lua$", "")
      if test.master then list[#list + 1] = test end
    end
  end
  return list
end

--- The flavors in which a test is to run.
function tests.flavors(test)
  local intercepted = test.needs.interceptedcorba and ".intercepted" or ""
  local list = { "cooperative;corba" .. intercepted }
  if not test.needs.cooperative then list[2] = "corba" .. intercepted end
  return list
end

-- One of the tests passes it as a short.
local function free_port()
  while true do
    local port = math.random(12000, 31000)
    local listener = mare.net.listen { host = "0.0.0.0", port = port }
    if listener then
      listener:close()
      return port
    end
  end
end

-- The same text with ports of its own; a client's fixed 2809 among them.
local function with_ports(programs)
  local ports, out = {}, {}
  for name, text in pairs(programs) do
    out[name] = text:gsub("%f[%d]280[789]%f[%D]", function(n)
      ports[n] = ports[n] or free_port()
      return tostring(ports[n])
    end)
  end
  return out
end

-- Who asks whether a process has ended: what OiL's dtest gives by DTEST_HELPER.
local function helper(children)
  local broker = require("mare.orb").init { host = "127.0.0.1", log = function() end }
  broker:load "interface Process {}; interface Helper { Process getprocess(in string name); };"
  local process = {}
  local object = broker:serve({ getprocess = function(_, name)
    local child = children[name]
    return child and not child:wait(0) and process or nil
  end }, "Helper")
  return tostring(object), broker
end

local function start(name, text, flavor, env)
  local path = temporary()
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  local child = assert(mare.subprocess.spawn { proc.bin, "run", "spec/support/oil/child.lua", name, path, flavor, env = env, stdin = "null",
                                               stdout = "null", cwd = os.getenv "MARE_ROOT" })
  return child, path
end

--- Runs a test. -> true | false, what the program that judges wrote
function tests.run(test, flavor, seconds)
  local children, paths, written = {}, {}, ""
  local reference, broker = helper(children)
  for name, text in pairs(with_ports(test.programs)) do
    children[name], paths[#paths + 1] = start(name, text, flavor, { DTEST_HELPER = reference })
  end
  local judge, readers = children[test.master], {}
  for name, child in pairs(children) do
    readers[name] = mare.fiber.spawn(function() return child.stderr:read "a" end)
  end
  local ended = judge:wait(seconds or 20)
  for _, child in pairs(children) do
    child:kill "KILL"
    child:wait(5)
  end
  for name, reader in pairs(readers) do
    local _, text = reader:wait(1)
    local said = text and text ~= "" and ("%s: %s"):format(name, text) or ""
    if name == test.master then written = said .. written else written = written .. said end
  end
  broker:shutdown()
  for _, path in ipairs(paths) do os.remove(path) end
  if not ended then return false, "it took too long: " .. tostring(written) end
  return ended.code == 0, written
end

return tests
