--[[
spec.support.oil.demos: runs the demos of a checkout of OiL, unchanged, each in a copy of its folder: the programs that its `execute` starts, in
that order, with
less waiting. A demo is { programs… , expect = a pattern that the last one's output, or all of it, must have }; a program is { script, arguments…,
writes =
a file it must have written before the next begins }.
]]
local mare = require "mare"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

local demos = {}

demos.list = {
  { "hello", { "server.lua", writes = "ref.ior" }, { "client.lua" }, expect = "already said hello 3 times" },
  { "concurrent", { "server.lua", writes = "server.ior" }, { "proxy.lua", writes = "proxy.ior" }, { "client.lua", "0.4", "0.1", "0.3" },
    expect = "2\tresult received.*3\tresult received.*1\tresult received" },
  { "deferred", { "server.lua", writes = "server.ior" }, { "client.lua", "0.4", "0.1", "0.3" },
    expect = "2\tresult received.*3\tresult received.*1\tresult received" },
  { "except", { "server.lua", writes = "ref.ior" }, { "client.lua" }, expect = "1234.*invalid value for tag 'a_number'.*unknown tag name" },
  { "interceptors", { "server.lua", writes = "server.ior" }, { "client.lua", "0.2", "0.1" },
    expect = "intercepting request to do_something_for.*success:\ttrue.*time:.*result received" },
  { "hello_simple", { "server.lua", writes = "ref.ludo" }, { "client.lua" }, expect = "Hello world! %(3 times%).*already said hello 3 times" },
  { "ludo_objects", { "server.lua", writes = "ref.ludo" }, { "client.lua" }, expect = "Hello, there!\nHello, here!" },
  { "objectmap", { "server.lua", port = 2809 }, { "client.lua" }, expect = "Hello World!\nHello John Doe!\nHello World!" },
  { "persist", { "server.lua", port = 2809 }, { "client.lua" }, expect = "already said hello 3 times" },
  { "selfcall", { "main.lua" }, expect = "^$" },
  { "valuetype", { "server.lua", writes = "ref.ior" }, { "client.lua" }, all = "account balance\t500\naccount balance\t700\naccount balance\t600" },
  { "callback", { "server.lua", writes = "ref.ior" }, { "client.lua" }, expect = "^$" },        -- its client shuts down before a timer is due
  { "adapt", { "server.lua", writes = "serveradaptor.ior" }, { "proxy.lua", writes = "proxyadaptor.ior" }, { "client.lua", "1", "2" },
    expect = "1\tgot\t1\n.*2\tgot\tabout to sleep for 2" },
  { "adaptor", { "collector.lua", writes = "adaptor.ior" }, { "client.lua", goes_on = true }, { "adaptation.lua" }, all = "Start mail session" },
  { "philo", { "philo.lua", writes = "philo.ior" }, { "fork.lua", writes = "fork.ior" }, { "observer.lua", writes = "observer.ior" },
    { "config.lua" }, { "adapt.lua" }, expect = "OK" },
}

local function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

local function until_true(f, seconds)
  local ends = mare.clock() + seconds
  while not f() do
    if mare.clock() > ends then return false end
    mare.sleep(0.05)
  end
  return true
end

local function answers(port)
  local socket = mare.net.connect("127.0.0.1", port)
  if socket then socket:close() end
  return socket ~= nil
end

local bin = proc.bin:find "^/" and proc.bin or os.getenv "PWD" .. "/" .. proc.bin        -- it is started in other folders

local function begin(folder, program)
  local argv = { bin, "run", table.unpack(program) }
  argv.cwd, argv.stdin, argv.stderr = folder, "null", "stdout"
  local child = assert(mare.subprocess.spawn(argv))
  local run = { child = child, text = "" }
  run.reader = mare.fiber.spawn(function()
    for line in function() return child.stdout:read "L" end do run.text = run.text .. line end
  end)
  return run
end

local function all_of(runs)
  local parts = {}
  for i, run in ipairs(runs) do parts[i] = run.text end
  return table.concat(parts)
end

-- Starts the programs in turn. -> runs, nil | why
local function play(demo, folder, runs)
  for i = 2, #demo do
    local program = demo[i]
    local run = begin(folder, program)
    runs[#runs + 1] = run
    if program.writes and not until_true(function() return exists(folder .. "/" .. program.writes) end, 10) then
      return ("%s wrote no %s"):format(program[1], program.writes)
    end
    if program.port and not until_true(function() return answers(program.port) end, 10) then return program[1] .. " does not listen" end
    if i == #demo and not program.goes_on then
      local ended = run.child:wait(20)
      if not ended then return program[1] .. " did not end" end
      run.reader:wait(1)
      if ended.code ~= 0 then return ("%s ended with %s: %s"):format(program[1], tostring(ended.code), run.text) end
    end
  end
end

local function judge(demo, runs)
  local last = runs[#runs].text
  if demo.expect and not last:find(demo.expect) then return "it wrote " .. last end
  if demo.all and not until_true(function() return all_of(runs):find(demo.all) end, 15) then return "they wrote " .. all_of(runs) end
end

--- Runs a demo of a checkout. -> true | false, why
function demos.run(source, demo)
  local folder = temporary()
  os.remove(folder)
  os.execute(("cp -r '%s/demo/%s' '%s'"):format(source, demo[1], folder))
  local runs = {}
  local fine, why = pcall(play, demo, folder, runs)
  if fine and not why then why = judge(demo, runs) end
  for _, run in ipairs(runs) do
    run.child:kill "KILL"
    run.child:wait(5)
  end
  os.execute(("rm -rf '%s'"):format(folder))
  return fine and not why, why
end

return demos
