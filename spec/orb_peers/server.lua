-- The rich interface served by mare. Prints the reference, serves until it is killed.
--   bin/mare run spec/orb_peers/server.lua [ORB options] [user=NAME, whose password is "secret"]
local mare = require "mare"
local orb = require "mare.orb"

local allowed
for _, word in ipairs(arg) do allowed = allowed or word:match "^user=(.*)$" end
local authenticate = allowed and function(user, password) return user == allowed and password == "secret" end
local broker = orb.init { args = arg, host = "127.0.0.1", ORBtraceLevel = 5, authenticate = authenticate }
broker:loadfile("spec/orb_peers/rich.idl")
local samples = require "spec.orb_peers.samples"(broker)
local shore = broker.types.Shore

local function sample(name)
  local list = samples.list[name]
  return function(_, i, got)
    local want = list[i + 1]
    if samples.same(got, want) then return want end
    local why = ("t_%s[%d]: the server got %s, wants %s"):format(name, i, samples.text(got), samples.text(want))
    io.stderr:write(why, "\n")
    error(shore.Wrong { why = why:gsub("[^ -~]", "?") }, 0)
  end
end

-- r = old b, b = a, and the result is a
local function swap(_, a, b) return a, a, b end
local function same(_, n) return n end

local sum = 0
local rich = { count = 42, name = "nobody", place = { x = 0, y = 0 } }
for name in pairs(samples.list) do rich["t_" .. name] = sample(name) end
for name in ("long boolean string money cube names octets point mixed bytide any base"):gmatch("%S+") do rich["swap_" .. name] = swap end
function rich.swap_any(self, a, b)
  if a._anyval == "yourself" then return rich, a, b end         -- a reference that goes into the any as what it is
  return swap(self, a, b)
end
for name in ("keep keep_all end function repeat nil and local"):gmatch("%S+") do rich[name] = same end

function rich.grow(_, n) return n + 1 end
function rich.leftward(_, s) return "<" .. s end
function rich.ping() end
function rich.raise_nothing() error(shore.Nothing {}, 0) end
function rich.raise_full(_, n) error(shore.Full { t = "HIGH", n = n, s = "full", p = samples.list.point[1], list = samples.list.strings[2] }, 0) end
function rich.refuse() error({ _repid = "IDL:omg.org/CORBA/NO_PERMISSION:1.0", minor = 42, completed = "COMPLETED_YES" }, 0) end
function rich.poke(_, n) sum = sum + n end
function rich.slow(_, milliseconds) mare.sleep(milliseconds / 1000) end
function rich.myself(self) return self end
function rich.none() return nil end
function rich.call_back(_, b, n) return b:grow(n) end

function rich.poked()
  local before = sum
  sum = 0
  return before
end

local more = {}
for name in ("byfarushort typecode longdouble bylonglong byfarulong byulonglong"):gmatch("%S+") do more["t_" .. name] = rich["t_" .. name] end
broker:serve(more, "Shore::More", { key = "more" })
local me = broker:serve(rich, "Shore::Rich", { key = "rich" })
broker:forward("forward", me)
local text = broker:object_to_string(me)
local here = broker.server.opened[1]
local address = broker:proxy(("corbaloc:%s:127.0.0.1:%d/forward"):format(here.tls and "ssliop" or "", here.port), "Shore::Rich")

-- GlassFish's ORB writes a reference that it passes on anew, in its own byte order.
function rich.is_myself(_, o) return broker:proxy(text):_is_equivalent(broker:proxy(broker:object_to_string(o))) end
function rich.more() return more end
function rich.forwarder() return address end

print(text)
io.stdout:flush()
broker:run()
