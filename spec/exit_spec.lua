-- Exit: however a program ends, whatever its processes do then, it ends promptly, does not crash, and tells the right code.
-- runs under: mare
--
-- Every cell is a program of its own. What the end waits for is docs/embedding.md; where it waits for processes, these are finite here,
-- else they would go on for ever.
local mare = require "mare"
local temporary = require "spec.support.temporary"
local process, channel = mare.process, mare.channel
local proc = require "spec.support.proc"

local LIMIT = 30                     -- seconds a cell may take before it counts as hanging (times the factor of a sanitizer)
local AT_ONCE = 6                    -- cells under way

-- What processes do when the end comes. %s is "0.3" where the end waits for them, else "1e9".
local doing = {
  { "idle", [[
    local c = mare.channel.new()
    mare.process.spawn(function() c:receive(%s) end)
    mare.process.spawn(function() mare.sleep(%s) end)
    mare.channel.new():receive(0.05)
  ]] },
  { "computing", [[
    for _ = 1, 3 do
      mare.process.spawn(function()
        local t = mare.clock() + %s
        while mare.clock() < t do end
      end)
    end
    mare.channel.new():receive(0.05)
  ]] },
  { "in a comparator", [[
    local c = mare.channel.new()
    for _ = 1, 3 do
      mare.process.spawn(function()
        table.sort({ 3, 1, 2 }, function(a, b)
          c:receive(%s)
          return a < b
        end)
      end)
    end
    mare.channel.new():receive(0.05)
  ]] },
  { "in __gc", [[
    mare.process.spawn(function()
      setmetatable({}, { __gc = function()
        local t = mare.clock() + %s
        while mare.clock() < t do end
      end })
      collectgarbage()
    end)
    mare.process.spawn(function()
      setmetatable({}, { __gc = function()
        local t = mare.clock() + %s
        while mare.clock() < t do end
      end })
    end)
    mare.channel.new():receive(0.05)
  ]] },
  { "in io.read", [[
    mare.process.spawn(function() io.read() end)
    mare.process.spawn(function() io.read() end)
    mare.channel.new():receive(0.05)
  ]] },
  { "with queued messages", [[
    local c, full = mare.channel.new(math.huge), mare.channel.new(1)
    for i = 1, 1000 do c:send({ i, { tostring(i) }, c }, "text") end
    mare.process.spawn(function()
      for i = 1, 1000 do c:receive() c:send({ i }) end
      full:send({})
      full:send({}, %s)
    end)
    if %s < 1 then mare.process.spawn(function() for _ = 1, 2 do full:receive() end end) end
    mare.channel.new():receive(0.05)
  ]] },
}

-- How it ends: what the script does last, the code, the signal.
local ends = {
  { "return", "", 0 },
  { "error", "error('the end')", 1 },
  { "os.exit", "os.exit(7)", 7 },
  { "os.exit(true)", "os.exit(true)", 0 },
  { "SIGTERM", "io.stdout:flush() while true do mare.channel.new():receive(1e9) end", nil, 15 },
  { "lua_close", "os.exit(true, true)", 0 },
}

-- Where: command, and for which ends it waits until every process has ended.
local embed = proc.bin:gsub("bin/mare$", "embed/")
local all_but = { ["return"] = true, error = true }
local places = {
  { "plain lua", { proc.interpreter }, all_but },
  { "mare run", { proc.bin, "run" }, all_but },
  { "a C host", { embed .. "host" }, { error = true, lua_close = true } },
  { "two host states", { embed .. "host", "-2" }, { error = true, lua_close = true } },
}

-- A C program that returns from main leaves its states open; one that closes them is the cell "lua_close".
local function in_c(place, ending)
  local command, last = { table.unpack(place[2]) }, ending[2]
  if command[1] == embed .. "host" then
    if ending[1] == "return" then command[#command + 1] = "-n" end
    if ending[1] == "lua_close" then last = "" end
  end
  return command, last
end

-- Standard input never answers; where the end waits for its readers it is closed after a while.
local function shell(words, finite, path)
  local quoted = {}
  for i, w in ipairs(words) do quoted[i] = "'" .. w .. "'" end
  local command = "exec " .. table.concat(quoted, " ") .. " '" .. path .. "'"
  if finite then return { "sh", "-c", "sleep 0.4 | (" .. command .. ")" } end
  return { "sh", "-c", "mkfifo '" .. path .. ".in' && exec 3<>'" .. path .. ".in' && rm '" .. path .. ".in' && " .. command .. " <&3" }
end

local function run(place, ending, situation)
  local finite = place[3][ending[1]]
  local command, last = in_c(place, ending)
  local text = [[
    local mare = require "mare"
    io.write("begin ")
    %s
    io.write("end\n")
    %s
  ]]
  local path = temporary()
  local f = assert(io.open(path, "w"))
  f:write(text:format(situation[2]:gsub("%%s", finite and "0.3" or "1e9"), last))
  f:close()
  local r = proc.run(shell(command, finite, path), {
    timeout = LIMIT, env = { LUA_CPATH = proc.cpath .. ";;" },
    signals = ending[4] and { { after = "end\n", name = "TERM" } } or nil,
  })
  os.remove(path)
  return r
end

-- A few processes run the cells; whoever asserts waits for the result of his.
local jobs, results = channel.new(math.huge), {}
local function start_workers()
  for _ = 1, AT_ONCE do
    process.spawn(function()
      for place, ending, situation, answer in jobs:each() do
        local ok, r = pcall(run, place, ending, situation)
        answer:send(ok and r or { err = r })
      end
    end)
  end
end

local function check(r, place, ending, situation)
  local shown = ("code %s, signal %s, %.2f s, left %s, stdout %q, stderr %q"):format(r.code, r.signal, r.seconds or -1, r.left, r.out, r.err)
  assert.is_falsy(r.timeout, "it hangs: " .. shown)
  if ending[4] then
    assert.equal(ending[4], r.signal or r.code and r.code - 128, shown)
  else
    assert.equal(ending[3], r.code, shown)
  end
  -- The first to call os.exit, or the signal, may come before the second state has said anything.
  local both = place[1] == "two host states" and not ending[4] and not ending[1]:find("os.exit", 1, true)
  local lines = both and 2 or 1
  assert.is_true(select(2, r.out:gsub("end\n", "")) >= lines, shown)
  assert.not_matches("PANIC", r.err)
  assert.not_matches("deadlock", r.err)
  local text = r.err:gsub("[^\n]*the end\n", ""):gsub("stack traceback:\n", ""):gsub("\t[^\n]*\n", "")
  assert.equal("", text:gsub("MARE_CHAOS=%d+\n", ""), situation[1])
end

describe("the end of", function()
  start_workers()
  for _, place in ipairs(places) do
    for _, ending in ipairs(ends) do
      for _, situation in ipairs(doing) do
        local name = ("%s by %s while processes are %s"):format(place[1], ending[1], situation[1])
        results[name] = channel.new(1)
        it(name .. " is prompt and clean", function()
          check(results[name]:receive(), place, ending, situation)
        end)
        jobs:send(place, ending, situation, results[name])
      end
    end
  end
  jobs:close()
end)

it("a host state that opens while another ends the program by os.exit says nothing", function()
  local path = temporary()
  local script, turn, exits = path .. ".lua", path .. ".turn", path .. ".exits"
  local function write(name, text)
    local f = assert(io.open(name, "w"))
    f:write(text)
    f:close()
  end
  -- The exit waits a moment for a process whose finaliser does not end; meanwhile the other state asks for mare.
  write(script, ([[
    if os.remove(%q) then
      local mare = require "mare"
      local c = mare.channel.new(1)
      mare.process.spawn(function()
        setmetatable({}, { __gc = function() c:try_send(1) while true do end end })
        collectgarbage()
      end)
      c:receive()
      assert(io.open(%q, "w")):close()
      os.exit(7)
    end
    repeat local f = io.open(%q) until f
    for i = 1, 1000 do
      local f = io.popen "sleep 0.02"
      f:close()
      if i == 1 then require "mare" end
    end
  ]]):format(turn, exits, exits))
  for _ = 1, 3 do
    write(turn, "")
    local r = proc.run({ embed .. "host", "-2", script }, { timeout = LIMIT, env = { LUA_CPATH = proc.cpath .. ";;" } })
    os.remove(exits)
    assert.same({ 7, "", "" }, { r.code, r.out, (r.err:gsub("MARE_CHAOS=%d+\n", "")) })
  end
  for _, name in ipairs { path, script, turn } do os.remove(name) end
end)
