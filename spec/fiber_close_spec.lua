-- runs under: mare
-- To-be-closed variables of the coroutines in which a fiber was when it ended from outside.
local mare = require "mare"
local proc = require "spec.support.proc"
local fiber = mare.fiber

local function guard(log, name, err)
  return setmetatable({}, { __close = function(_, e)
    log[#log + 1] = name .. ":" .. tostring(e):gsub("^.*: ", "")
    if err then error(err, 0) end
  end })
end

-- How a fiber may stop, and what its variables see: the error where it waited, nothing where it was closed.
local never = mare.channel.new()
local stops = {
  ["waits"] = { function() never:receive() end, "the fiber was cancelled" },
  ["waits again and again under pcall"] = { function() while true do pcall(never.receive, never) end end, "nil" },
  ["yields for ever"] = { function() while true do fiber.yield() end end, "the fiber was cancelled" },
  ["has an error of its own"] = { function() pcall(never.receive, never) error("own", 0) end, "own" },
}

local chains = {
  wrap = function(log, stop, err)
    local own <close> = guard(log, "own")   -- luacheck: ignore own
    coroutine.wrap(function()
      local outer <close> = guard(log, "outer")   -- luacheck: ignore outer
      coroutine.wrap(function()
        local inner <close> = guard(log, "inner", err)   -- luacheck: ignore inner
        stop()
      end)()
    end)()
  end,
  resume = function(log, stop, err)
    local own <close> = guard(log, "own")   -- luacheck: ignore own
    coroutine.resume(coroutine.create(function()
      local outer <close> = guard(log, "outer")   -- luacheck: ignore outer
      coroutine.resume(coroutine.create(function()
        local inner <close> = guard(log, "inner", err)   -- luacheck: ignore inner
        stop()
      end))
    end))
  end,
}

describe("a cancelled fiber closes the coroutines in which it is, the inner ones first,", function()
  for kind, chain in pairs(chains) do
    for what, stop in pairs(stops) do
      it(("when it %s in a coroutine made by %s"):format(what, kind), function()
        local log = {}
        local f = fiber.spawn(chain, log, stop[1])
        fiber.yield()
        fiber.yield()
        f:cancel()
        assert(f:wait(20) ~= nil, "it goes on")
        assert.same({ "inner:" .. stop[2] }, { log[1] })
        assert.same({ "inner", "outer", "own" }, { log[1]:match "%w+", log[2]:match "%w+", log[3]:match "%w+" })
        assert.equal(3, #log)
      end)
    end
  end
end)

describe("of a process whose main function fails", function()
  it("fibers that compute in coroutines close them, too, and an error there is the fiber's", function()
    local r = proc.mare([[
      local mare = require "mare"
      mare.process.spawn(function() while true do end end)
      local p = mare.process.spawn(function()
        local function guard(name, err)
          return setmetatable({}, { __close = function() io.write(name, "\n") if err then error(err, 0) end end })
        end
        mare.fiber.spawn(function()
          local own <close> = guard "own"
          coroutine.wrap(function()
            local outer <close> = guard "outer"
            coroutine.wrap(function()
              local inner <close> = guard("inner", "close failed")
              while true do pcall(mare.fiber.yield) end
            end)()
          end)()
        end)
        mare.sleep(0.02)
        error("main failed", 0)
      end)
      print((select(2, p:wait())))
      io.stdout:flush()
      os.exit(0)
    ]], {}, { workers = 1, timeout = 30, env = { MARE_QUANTUM = "1" } })
    assert.equal("inner\nouter\nown\nmain failed\n", r.out)
    assert.equal(0, r.code)
    assert.matches("close failed", r.err)
  end)
end)
