-- Runs clients of the rich interface, and of values.idl, against servers of it, and says what each pair does.
--
--   local pairs_of = require "spec.orb_peers.pairs"
--   pairs_of.missing "jacorb"                       nil, or why its programs can't be built here
--   pairs_of.list                                   the pairs: { id, client, server, options }
--   pairs_of.run(pair) -> { { name, "ok" | "FAIL" | "skip", why }, … }
--   pairs_of.talk(pair, reference) -> the same of one run of its client
--   pairs_of.start(pair) -> its server's handle and reference; pair.serve: the server's options
--   pair.marks: of JacORB, its interceptors (java/Marks.java) are told
--   pair.tls: of spec.orb_peers.tls, if they are to use it
local subprocess = require "mare.subprocess"
local foreign = require "spec.support.foreign"
local proc = require "spec.support.proc"
local record = require "spec.orb_peers.record"
local core = require "mare.orb.giop.core"

local runner = {}

local cpp, java = "build/orb_peers/cpp/", { "java", "-XX:+UseSerialGC", "-cp", "build/orb_peers/java/classes:build/orb_peers/jars/*" }

local peers = {
  mare = { server = { proc.bin, "run", "spec/orb_peers/server.lua" }, client = { proc.bin, "run", "spec/orb_peers/client.lua" } },
  omniORB = { build = "cpp", server = { cpp .. "server", "-ORBendPoint", "giop:tcp:127.0.0.1:" }, client = { cpp .. "client" } },
  JacORB = { build = "java", server = { java[1], java[2], java[3], java[4], "-DOAIAddr=127.0.0.1", "Server" },
             client = { java[1], java[2], java[3], java[4], "-DOAIAddr=127.0.0.1", "Client" } },
}

-- GlassFish's ORB closes a connection that brings a message of more than 256,000 bytes, unless it is told.
local function glassfish(folder, class)
  return { "java", "-XX:+UseSerialGC", "-cp", ("build/orb_peers/%s/classes:build/orb_peers/glassfish-jars/*"):format(folder),
           "-Dorg.omg.CORBA.ORBClass=com.sun.corba.ee.impl.orb.ORBImpl",
           "-Dorg.omg.CORBA.ORBSingletonClass=com.sun.corba.ee.impl.orb.ORBSingleton", "-Dcom.sun.corba.ee.ORBServerHost=127.0.0.1",
           "-Dcom.sun.corba.ee.transport.ORBMaximumReadByteBufferSize=16777216", "-Dmare.first=com.sun.corba.ee.impl.encoding.FirstText", class }
end
peers.GlassFish = { build = "glassfish", server = glassfish("glassfish", "Server"), client = glassfish("glassfish", "Client") }

-- The same for values.idl, by the names "mare values" …
local vcpp, classpath = "build/orb_peers/values-cpp/", "build/orb_peers/values-java/classes:build/orb_peers/jars/*"
local function vjava(class)
  return { "java", "-XX:+UseSerialGC", "-Djavax.rmi.CORBA.UtilClass=Rmi", "-cp", classpath, "-DOAIAddr=127.0.0.1", class }
end
peers["mare values"] = { server = { proc.bin, "run", "spec/orb_peers/values_server.lua" },
                         client = { proc.bin, "run", "spec/orb_peers/values_client.lua" } }
peers["omniORB values"] = { build = "values-cpp", server = { vcpp .. "server", "-ORBendPoint", "giop:tcp:127.0.0.1:" },
                            client = { vcpp .. "client" } }
peers["JacORB values"] = { build = "values-java", server = vjava "ValuesServer", client = vjava "ValuesClient" }
peers["GlassFish values"] = { build = "values-glassfish", server = glassfish("values-glassfish", "ValuesServer"),
                              client = glassfish("values-glassfish", "ValuesClient") }

local idle = { "-ORBinConScanPeriod", "2", "-ORBscanGranularity", "1" }
local v11, v10 = { "-ORBmaxGIOPVersion", "1.1", "without=wide" }, { "-ORBmaxGIOPVersion", "1.0", "without=wide" }
local pause = { "pause=3" }

-- table: which table of the page; recorded: the messages are counted; control: run only when the page is written
runner.list = {
  { id = "mare → omniORB", client = "mare", server = "omniORB", table = 1 },
  { id = "omniORB → mare", client = "omniORB", server = "mare", table = 1 },
  { id = "mare → JacORB", client = "mare", server = "JacORB", table = 1 },
  { id = "JacORB → mare", client = "JacORB", server = "mare", table = 1 },
  { id = "mare → mare", client = "mare", server = "mare", table = 1 },
  { id = "omniORB → omniORB", client = "omniORB", server = "omniORB", table = 1, control = true },
  { id = "omniORB → JacORB", client = "omniORB", server = "JacORB", table = 1, control = true },
  { id = "JacORB → omniORB", client = "JacORB", server = "omniORB", table = 1, control = true },
  { id = "JacORB → JacORB", client = "JacORB", server = "JacORB", table = 1, control = true },
  { id = "mare → GlassFish", client = "mare", server = "GlassFish", table = 1 },
  { id = "GlassFish → mare", client = "GlassFish", server = "mare", table = 1 },
  { id = "GlassFish → GlassFish", client = "GlassFish", server = "GlassFish", table = 1, control = true },
  { id = "omniORB → GlassFish", client = "omniORB", server = "GlassFish", table = 1, control = true },
  { id = "GlassFish → omniORB", client = "GlassFish", server = "omniORB", table = 1, control = true },
  { id = "mare → omniORB, 1.1", client = "mare", server = "omniORB", options = v11, table = 2 },
  { id = "omniORB → mare, 1.1", client = "omniORB", server = "mare", options = v11, table = 2 },
  { id = "mare → omniORB, 1.0", client = "mare", server = "omniORB", options = v10, table = 2 },
  { id = "omniORB → mare, 1.0", client = "omniORB", server = "mare", options = v10, table = 2 },
  { id = "mare → GlassFish, 1.1", client = "mare", server = "GlassFish", options = v11, table = 2, control = true },
  { id = "GlassFish → mare, 1.1", client = "GlassFish", server = "mare", options = v11, table = 2, control = true },
  { id = "mare → GlassFish, 1.0", client = "mare", server = "GlassFish", options = v10, table = 2, control = true },
  { id = "GlassFish → mare, 1.0", client = "GlassFish", server = "mare", options = v10, table = 2, control = true },
  { id = "omniORB → omniORB, 1.1", client = "omniORB", server = "omniORB", options = v11, table = 2, control = true },
  { id = "mare → omniORB", client = "mare", server = "omniORB", options = { "overlap=1" }, table = 3 },
  { id = "omniORB → mare", client = "omniORB", server = "mare", options = { "overlap=1", "-ORBoneCallPerConnection", "0" }, table = 3 },
  { id = "mare → JacORB", client = "mare", server = "JacORB", options = { "overlap=1" }, table = 3 },
  { id = "JacORB → mare", client = "JacORB", server = "mare", options = { "overlap=1" }, table = 3 },
  { id = "mare → GlassFish", client = "mare", server = "GlassFish", options = { "overlap=1" }, table = 3 },
  { id = "GlassFish → mare", client = "GlassFish", server = "mare", options = { "overlap=1" }, table = 3 },
  { id = "mare → omniORB", client = "mare", server = "omniORB", options = pause, serve = idle, recorded = "I", table = 3 },
  { id = "omniORB → mare", client = "omniORB", server = "mare", options = pause, serve = idle, recorded = "I", table = 3 },
  { id = "JacORB → mare", client = "JacORB", server = "mare", options = pause, serve = idle, recorded = "I", table = 3 },
  { id = "GlassFish → mare", client = "GlassFish", server = "mare", options = pause, serve = idle, recorded = "I", table = 3 },
  { id = "mare → omniORB", client = "mare", server = "omniORB", options = { "only=t_octets" }, recorded = "S", table = 3 },
  { id = "omniORB → mare", client = "omniORB", server = "mare", options = { "only=t_octets" }, recorded = "C", table = 3 },
  { id = "JacORB → mare", client = "JacORB", server = "mare", options = { "only=t_string" }, recorded = "J", table = 3 },
  { id = "mare → GlassFish", client = "mare", server = "GlassFish", options = { "only=t_octets" }, recorded = "S", table = 3 },
  { id = "GlassFish → mare", client = "GlassFish", server = "mare", options = { "only=t_octets" }, recorded = "C", table = 3 },
  { id = "mare → omniORB", client = "mare values", server = "omniORB values", table = 4 },
  { id = "omniORB → mare", client = "omniORB values", server = "mare values", table = 4 },
  { id = "mare → JacORB", client = "mare values", server = "JacORB values", table = 4 },
  { id = "JacORB → mare", client = "JacORB values", server = "mare values", table = 4 },
  { id = "mare → GlassFish", client = "mare values", server = "GlassFish values", table = 4 },
  { id = "GlassFish → mare", client = "GlassFish values", server = "mare values", table = 4 },
  { id = "mare → mare", client = "mare values", server = "mare values", table = 4 },
  { id = "mare → omniORB, 1.0", client = "mare values", server = "omniORB values", options = { "-ORBmaxGIOPVersion", "1.0" }, table = 4 },
  { id = "omniORB → mare, 1.0", client = "omniORB values", server = "mare values", options = { "-ORBmaxGIOPVersion", "1.0" }, table = 4 },
  { id = "omniORB → omniORB", client = "omniORB values", server = "omniORB values", table = 4, control = true },
  { id = "JacORB → JacORB", client = "JacORB values", server = "JacORB values", table = 4, control = true },
  { id = "GlassFish → GlassFish", client = "GlassFish values", server = "GlassFish values", table = 4, control = true },
}

--- Why a peer's programs are not here; nil: they are. Builds them if they are not up to date.
function runner.missing(name)
  local what = peers[name].build
  return what and foreign.built(what)
end

local function words(list, ...)
  local all = { table.unpack(list) }
  for _, more in ipairs { ... } do table.move(more, 1, #more, #all + 1, all) end
  return all
end

-- A peer's program with these arguments; pair.tls goes behind the first, but for Java's virtual machine before the name of the class.
local function command_of(pair, role, first, rest)
  local name = pair[role]
  local program = peers[name][role]
  if pair.marks then program = words({ "java", "-Dorg.omg.PortableInterceptor.ORBInitializerClass.Marks=" }, { table.unpack(program, 2) }) end
  if not pair.tls then return words(program, first, rest) end
  local n = #program
  if name == "JacORB" then program = words({ table.unpack(program, 1, n - 1) }, pair.tls:properties(role), { program[n] }) end
  return words(program, first, pair.tls:words(name, role), rest)
end

local function start(pair)
  local command = command_of(pair, "server", {}, pair.serve or {})
  command.stderr = "null"
  command.stdin = "pipe"                                  -- their end is the server's
  local handle = assert(subprocess.spawn(command))
  local line, err = handle.stdout:read("l", 30 * proc.slow)
  if not line then
    handle:kill("KILL")
    error(("the server of %s says nothing: %s"):format(pair.id, tostring(err)), 0)
  end
  return handle, line
end

runner.start = start

local function talk(pair, reference)
  local command = command_of(pair, "client", { reference }, pair.options or {})
  command.timeout, command.stderr = 100 * proc.slow, "null"
  local r, err, _, partial = subprocess.run(command)
  local rows = {}
  for kind, name, why in (r or partial).out:gmatch("(%a%a%a?%a?) ([^\t\n]+)\t?([^\n]*)\n") do
    local shown = name ~= "wide" and name ~= "more" and not (pair.recorded and name:find("^t_"))
    if shown and (kind == "ok" or kind == "FAIL" or kind == "skip") then rows[#rows + 1] = { name, kind, why } end
  end
  if not r then rows[#rows + 1] = { "the client's end", "FAIL", err } end
  return rows
end

runner.talk = talk

local UTF8 = { "\1\0\1\5", "\5\1\0\1" }              -- in both byte orders

-- What passed by: fragments, LocateRequests, the char code set named.
local function passed(pair, messages)
  local rows, seen = {}, {}
  for _, m in ipairs(messages) do
    local kind, _, _, _, _, _, _, _, contexts = core.parse(m.message)
    seen[m.from .. tostring(kind)] = true
    if kind == 0 and contexts and contexts[1] and not seen.set then
      seen.set = (contexts[1]:find(UTF8[1], 1, true) or contexts[1]:find(UTF8[2], 1, true)) and "UTF-8" or "ISO 8859-1"
    end
  end
  if pair.recorded == "I" then return { { "CloseConnection from an idle server", seen.S5 and "ok" or "FAIL" } } end
  if pair.recorded ~= "J" then
    rows[1] = { "fragments from " .. (pair.recorded == "S" and pair.server or pair.client), seen[pair.recorded .. "7"] and "ok" or "FAIL" }
  end
  if pair.recorded == "C" and pair.client == "omniORB" then rows[2] = { "LocateRequest answered", seen.C3 and seen.S4 and "ok" or "FAIL" } end
  rows[#rows + 1] = { "char code set " .. tostring(seen.set), seen.set and "ok" or "FAIL" }
  return rows
end

--- The features of a pair: { name, "ok" | "FAIL" | "skip", why }.
function runner.run(pair)
  local handle, reference = start(pair)
  local recorder = pair.recorded and record.start(reference)
  local good, rows = pcall(talk, pair, recorder and recorder.ior or reference)
  if good and recorder then
    for _, row in ipairs(passed(pair, recorder:stop())) do rows[#rows + 1] = row end
  end
  handle:kill("KILL")
  handle:wait()
  if not good then error(rows, 0) end
  return rows
end

return runner
