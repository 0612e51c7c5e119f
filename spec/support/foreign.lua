-- foreign: programs of others that tests talk to. Where they are not installed such a test is pending, and says why. In CI (CI=true) what
-- `tools/setup test` installs must be there: else the test fails, so that no peer is left out unseen.
--
--   local foreign = require "spec.support.foreign"
--   foreign.built "bidir-cpp"                      makes programs of spec/orb_peers that are not up to date -> nil | why that can't be done here
--   foreign.lacks("omniNames", "catior")           -> nil | which of these commands is not here
--   foreign.no_sqlite()                            -> nil | that LuaSQL's SQLite is not here
--   if why then return foreign.skip(why) end       in a test, or in a describe
--   foreign.with(command, f)                       f(port) beside a server of omniORB's. command(port, folder) -> its words; its files lie in a
--                                                  folder that is removed again
local mare = require "mare"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

local foreign = {}

local SET <const> = "tools/setup test installs it on Debian"
local known = {}

function foreign.built(what)
  if known[what] == nil then
    local r = assert(mare.subprocess.run { "spec/orb_peers/build", what, timeout = 400 })
    if r.code ~= 0 and r.code ~= 77 then error(r.err, 0) end
    known[what] = r.code == 77 and r.err:gsub("\n$", "") or false
  end
  return known[what] or nil
end

--- That something isn't here which `tools/setup test` installs.
function foreign.missing(what) return what .. " is not here; " .. SET end

function foreign.lacks(...)
  for _, command in ipairs { ... } do
    if not os.execute("PATH=$PATH:/usr/sbin command -v " .. command .. " >/dev/null") then return foreign.missing(command) end
  end
end

function foreign.no_sqlite()
  if not pcall(require, "luasql.sqlite3") then return foreign.missing "LuaSQL's SQLite" end
end

function foreign.skip(why)
  if os.getenv "CI" == "true" and why:find(SET, 1, true) then error(why, 0) end
  return pending(why)
end

function foreign.with(command, f)
  local probe = assert(mare.net.listen "127.0.0.1:0")
  local _, port = probe:address()
  probe:close()
  local folder = temporary()
  os.remove(folder)
  assert(os.execute("mkdir " .. folder))
  local words = command(port, folder)
  words.stdout, words.stderr, words.env = "null", "null", { PATH = os.getenv "PATH" .. ":/usr/sbin" }
  local child = assert(mare.subprocess.spawn(words))
  local results = table.pack(pcall(function()
    local limit = mare.clock() + 60 * proc.slow
    repeat                                         -- until it answers
      local conn = mare.net.connect("127.0.0.1", port)
      if conn then conn:close() else mare.sleep(0.02) end
    until conn or mare.clock() > limit
    f(port)
  end))
  child:kill "KILL"
  child:wait()
  os.execute("rm -r " .. folder)
  if not results[1] then error(results[2], 0) end
end

return foreign
