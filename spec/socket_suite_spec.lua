-- needs: plain
-- LuaSocket's own test suite over mare.socket; it comes from the distribution's source package. (That of copas has none for Lua 5.4.)
-- runs under: mare
-- runs first
local net = require "mare.net"
local proc = require "spec.support.proc"

local ROOT = os.getenv("MARE_ROOT") or "."
local DRIVER = ROOT .. "/spec/support/luasocket_suite.lua"

-- The folder of a suite, or nil and why there is none.
local function suite(package)
  local r = proc.run({ ROOT .. "/tools/fetch-suite", package }, { timeout = 120 })
  if r.code == 0 then return ROOT .. "/build/suites/" .. package end
  return nil, (r.err:gsub("%s+$", ""))
end

local function free_port()
  local s <close> = assert(net.listen({ host = "127.0.0.1", port = 0 }))
  return select(2, s:address())
end

local function words(inside, folder, file, port)
  local list = inside and { proc.bin, "run" } or { proc.interpreter }
  for _, w in ipairs { DRIVER, folder, file, tostring(port) } do list[#list + 1] = w end
  return list
end

local ENV = { LUA_CPATH = proc.cpath .. ";;" }

-- The server in the background; it ends when the client says so, or with the client's process group.
local function both_halves(inside, folder)
  local port = free_port()
  local line = table.concat(words(inside, folder, "testsrvr.lua", port), " ") .. " >/dev/null 2>&1 & " ..
               table.concat(words(inside, folder, "testclnt.lua", port), " ")
  return proc.run(line, { timeout = 200, env = ENV })
end

describe("LuaSocket's own suite", function()
  for _, inside in ipairs { true, false } do
    it(inside and "passes under mare run" or "passes under plain Lua with mare.so", function()
      local folder, why = suite("lua-socket")
      if not folder then return pending(why) end
      local r = both_halves(inside, folder .. "/test")
      assert.is_nil(r.err:match("ERROR[^\n]*"))
      assert.equal(0, r.code, r.err:sub(-2000))
      assert.is_truthy(r.err:find("testing: done in", 1, true))
    end)
  end

  for _, file in ipairs { "excepttest.lua", "urltest.lua", "stufftest.lua", "test_bind.lua", "test_getaddrinfo.lua", "test_socket_error.lua" } do
    it("passes in its part " .. file, function()
      local folder, why = suite("lua-socket")
      if not folder then return pending(why) end
      for _, inside in ipairs { true, false } do
        local r = proc.run(words(inside, folder .. "/test", file, 0), { timeout = 60, env = ENV })
        assert.equal(0, r.code, r.err:sub(-2000))
      end
    end)
  end
end)
