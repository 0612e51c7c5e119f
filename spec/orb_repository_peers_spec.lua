-- Interface repositories and other ORBs: omniORB's and JacORB's clients read mare's, and mare reads JacORB's.
-- runs under: mare
-- needs: plain
local mare = require "mare"
local orb = require "mare.orb"
local idl = require "mare.orb.idl"
local foreign = require "spec.support.foreign"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

local LIMIT = 60 * proc.slow
local JARS = "build/orb_peers/jars/*"
local SWAPPER = [[
  exception Odd { long n; };
  interface Swapper {
    long swap(in long a, inout string b, out double c) raises (Odd);
    oneway void note(in string text);
    attribute long size getraises (Odd);
  };
]]

-- Why those programs can't be made here, or nil.
local missing = foreign.built

-- f(broker, reference of a Swapper, corbaloc of the repository)
local function with_server(f)
  local broker = orb.init { host = "127.0.0.1" }
  broker:loadfile "spec/orb_peers/rich.idl"
  broker:loadfile "spec/orb_peers/values.idl"
  broker:load(SWAPPER)
  local servant = { swap = function(_, a, text) return a + 2, text .. "!", 2.5 end }
  local reference = tostring(broker:serve(servant, "Swapper"))
  local fine, err = pcall(f, broker, reference, "corbaloc::1.2@" .. broker:address() .. "/InterfaceRepository")
  broker:shutdown(5)
  if not fine then error(err, 0) end
end

local function run(command)
  command.timeout = LIMIT
  local r = assert(mare.subprocess.run(command))
  return r.code, r.out, r.err
end

-- Ids of all that a repository of IDL has, but for enumerators and factories.
local function all_ids(definitions, into)
  for _, d in ipairs(definitions) do
    if d.id and d.kind ~= "factory" then into[d.id] = true end
    all_ids(d.contents or {}, into)
  end
  return into
end

describe("a client of omniORB", function()
  it("reads mare's repository by its own stubs, and calls by DII what it found there", function()
    local why = missing "ir-cpp"
    if why then return foreign.skip(why) end
    with_server(function(broker, reference)
      local code, out = run { "build/orb_peers/ir-cpp/walk", reference }
      assert.equal(0, code, out)
      local wanted = all_ids(broker.repository.contents, {})
      local n = 0
      for id, kind in out:gmatch "(IDL:%S+) (%a+)\n" do
        wanted[id] = nil
        n = n + 1
        if id == "IDL:mare.test/Shore/Tide:1.0" then assert.equal("Enum", kind) end
        if id == "IDL:mare.test/Tide/Shown:1.0" then assert.equal("AbstractInterface", kind) end
      end
      assert.is_nil(next(wanted))
      assert.is_true(n > 200)
      assert.matches("op swap 3 a:0:3 b:2:18 c:1:7 !IDL:Odd:1.0\n", out)           -- its parameters' modes and TCKinds
      assert.matches("op note 1 text:0:18\n", out)
      assert.matches("called 42 text! 2.5\n", out)
      assert.matches("refused\n$", out)
    end)
  end)
end)

describe("JacORB", function()
  it("prints by its tool qir what mare's repository says", function()
    local why = missing "ir-java"
    if why then return foreign.skip(why) end
    with_server(function(_, _, at)
      local function qir(id)
        local _, out = run { "java", "-XX:+UseSerialGC", "-cp", JARS, "-DORBInitRef.InterfaceRepository=" .. at, "org.jacorb.ir.QueryIR", id }
        return out
      end
      assert.matches("interface Swapper.-long swap%(in long a,inout string b,out double c%)", qir "IDL:Swapper:1.0")
      assert.matches("struct Mixed {.-unsigned? ?long long ull;.*Point p;", (qir "IDL:mare.test/Shore/Mixed:1.0":gsub("ulong", "unsigned long")))
    end)
  end)

  it("has a repository of its own, which mare reads", function()
    local why = missing "ir-java"
    if why then return foreign.skip(why) end
    local file = temporary()
    os.remove(file)
    local classes = "build/orb_peers/ir-java/classes"
    local server = assert(mare.subprocess.spawn { "java", "-XX:+UseSerialGC", "-cp", JARS .. ":" .. classes, "-DOAIAddr=127.0.0.1",
                                                  "org.jacorb.ir.IRServer", classes, file, stdout = "null", stderr = "null" })
    local fine, err = pcall(function()
      local limit = mare.clock() + LIMIT
      local code, out, complaint
      repeat                                         -- until it has written its reference, and read the classes
        mare.sleep(0.05)
        code, out, complaint = run { proc.bin, "idl", "from", "file://" .. file }
      until code == 0 or mare.clock() > limit
      assert.equal(0, code, complaint)
      local repo = idl.repository()
      assert(repo:load(out, { name = "jay" }))
      local hello = repo:lookup "Jay::Hello"
      local operations = repo:operations(hello)
      assert.same({ "sequence", "inout", "out", "Odd" }, { operations.get.result.type.kind, operations.get.params[2].mode,
                                                           operations.get.params[3].mode, operations.get.raises[1].name })
      assert.is_true(operations.ping.oneway and operations.basic ~= nil and operations._set_colour ~= nil and operations._set_name == nil)
      assert.same({ { "RED", "BLUE" }, 5 }, { repo:lookup "Jay::Colour".labels, repo:lookup "Jay::MOST".value })
      local client <close> = orb.init { repository = { at = "file://" .. file } }
      assert.equal("Jay::Hello", client:interface "Jay::Hello".scoped)
    end)
    server:kill "KILL"
    server:wait()
    os.remove(file)
    if not fine then error(err, 0) end
  end)
end)
