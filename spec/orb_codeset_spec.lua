-- Which code sets are chosen, with mare, omniORB and JacORB: by default, by programs whose strings are ISO 8859-1 (-ORBnativeCharCodeSet) and by
-- those that need every character (codeset).
-- runs under: mare
-- needs: plain
local orb = require "mare.orb"
local core = require "mare.orb.giop.core"
local record = require "spec.orb_peers.record"
local runner = require "spec.orb_peers.pairs"
local foreign = require "spec.support.foreign"

local LATIN, UTF8 = "ISO-8859-1", "UTF-8"
local SETS = { [LATIN] = "\1\0\1\0", [UTF8] = "\1\0\1\5" }        -- as our little-endian contexts have them

local IDL = "interface Echo { string say(in string s, out wstring w, out any a); char letter(in char c); exception No { string why; }; " ..
            "void fail() raises (No); };"

local function broker_of(set, codeset)
  local broker = orb.init { ORBnativeCharCodeSet = set, codeset = codeset, host = "127.0.0.1" }
  broker:load(IDL)
  return broker
end

-- A servant in a broker of that set: what it gets is at `got`.
local function server_of(set)
  local broker, got = broker_of(set), {}
  local servant = {}
  function servant.say(_, s)
    got[#got + 1] = s
    return s, "wide é", s
  end
  function servant.letter(_, l) return l end
  function servant.fail() error(broker.types.Echo.No { why = set == LATIN and "n\xf3" or "nó" }, 0) end
  return broker, broker:object_to_string(broker:serve(servant, "Echo")), got
end

-- The set that the client's first request names.
local function named(messages)
  for _, m in ipairs(messages) do
    local kind, bits, _, _, _, _, _, _, contexts = core.parse(m.message)
    if kind == 0 and contexts and contexts[1] then return string.unpack(bits & 1 == 1 and "<I4" or ">I4", contexts[1], 5) end
  end
end

describe("a program with ISO 8859-1", function()
  local texts = { [LATIN] = "gr\xfc\xdfe", [UTF8] = "grüße" }

  it("understands one of either set, and is understood", function()
    for _, theirs in ipairs { LATIN, UTF8 } do
      for _, ours in ipairs { LATIN, UTF8 } do
        local server <close>, ior, got = server_of(theirs)
        local broker <close> = broker_of(ours)
        local recorder = record.start(ior)
        local echo = broker:proxy(recorder.ior, "Echo")
        local s, w, a = echo:say(texts[ours])
        assert.same({ texts[ours], "wide é", texts[ours] }, { s, w, a._anyval })
        assert.same({ texts[theirs] }, got)
        assert.equal("x", echo:letter("x"))
        local _, e = pcall(echo.fail, echo)
        assert.equal(ours == LATIN and "n\xf3" or "nó", e.why)
        assert.equal(string.unpack("<I4", SETS[ours]), named(recorder:stop()))
        server:shutdown()
      end
    end
  end)

  it("gives its bytes as they are to one of the same set, and says what doesn't exist in the other", function()
    local all = {}
    for i = 1, 255 do all[i] = string.char(i) end
    local text = table.concat(all)
    local server <close>, ior = server_of(LATIN)
    local latin <close> = broker_of(LATIN)
    local utf8 <close> = broker_of(UTF8)
    assert.equal(text, (latin:proxy(ior, "Echo"):say(text)))
    assert.equal("\xe9", latin:proxy(ior, "Echo"):letter("\xe9"))
    local ok, e = pcall(function() return utf8:proxy(ior, "Echo"):say("€") end)
    assert.same({ false, "IDL:omg.org/CORBA/DATA_CONVERSION:1.0" }, { ok, e._repid })
    server:shutdown()
  end)

  it("is named by -ORBcodeset or the field codeset, which must be one that is known", function()
    assert.error_matches(function() orb.init { codeset = "KOI8-R" } end, "codeset is UTF%-8 or ISO%-8859%-1, not 'KOI8%-R'")
    local args = { "-ORBcodeset", "utf8" }
    assert.equal("utf8", orb.init({ args = args, codeset = "ISO-8859-1" }).options.codeset)
    assert.same({}, args)
  end)

  it("tells its processes", function()
    local broker <close> = broker_of(LATIN)
    local echo = broker:serve(function() return { letter = function(_, l) return l end, say = function(_, s) return s .. "\xe4", "", "" end } end,
                              "Echo", { processes = 2 })
    local client <close> = broker_of(UTF8)
    assert.equal("öä", (client:proxy(broker:object_to_string(echo), "Echo"):say("ö")))
    broker:shutdown()
  end)

  it("is no program with another set", function()
    assert.error_matches(function() orb.init { ORBnativeCharCodeSet = "KOI8-R" } end, "takes UTF%-8 or ISO%-8859%-1, not 'KOI8%-R'")
    local args = { "-ORBnativeCharCodeSet", "iso8859-1" }
    assert.equal(0x00010001, orb.init({ args = args }).native)
    assert.same({}, args)
  end)
end)

describe("two brokers of mare", function()
  it("know that both have UTF-8, whatever their references say: every character travels", function()
    for _, codeset in ipairs { false, UTF8 } do
      local server <close>, ior, got = server_of(nil)
      local client <close> = broker_of(nil, codeset or nil)
      local s, w, a = client:proxy(ior, "Echo"):say("10 €")
      assert.same({ "10 €", "wide é", "10 €", "10 €" }, { s, w, a._anyval, got[1] })
      server:shutdown()
    end
    local broker <close> = broker_of()
    local echo = broker:serve(function() return { say = function(_, s) return s .. "€", "", "" end } end, "Echo", { processes = 1 })
    local client <close> = broker_of()
    assert.equal("5 €", (client:proxy(broker:object_to_string(echo), "Echo"):say("5 ")))
    broker:shutdown()
  end)
end)

describe("omniORB", function()
  local function with_server(serve, f)
    local missing = runner.missing "omniORB"
    if missing then return foreign.skip(missing) end
    local handle, ior = runner.start { id = "mare → omniORB", server = "omniORB", serve = serve }
    local good, err = pcall(f, ior)
    handle:kill("KILL")
    handle:wait()
    if not good then error(err, 0) end
  end

  local function rich(set, ior, codeset)
    local broker = orb.init { ORBnativeCharCodeSet = set, codeset = codeset }
    broker:loadfile "spec/orb_peers/rich.idl"
    return broker:proxy(ior, "Shore::Rich"), broker
  end

  it("of ISO 8859-1 takes every byte from a program of the same set", function()
    with_server({}, function(ior)
      local recorder = record.start(ior)
      local object, broker <close> = rich(LATIN, recorder.ior)   -- luacheck: ignore broker
      local all = {}
      for i = 1, 255 do all[i] = string.char(i) end
      local text = table.concat(all)
      assert.same({ text, text, "\xe9" }, { object:swap_string(text, "\xe9") })
      local other, utf8 <close> = rich(UTF8, ior)            -- luacheck: ignore utf8
      assert.same({ "ü", "ü", "é" }, { other:swap_string("ü", "é") })
      assert.equal(string.unpack("<I4", SETS[LATIN]), named(recorder:stop()))
    end)
  end)

  it("of UTF-8 understands it all the same", function()
    with_server({ "-ORBnativeCharCodeSet", "UTF-8" }, function(ior)
      local object, broker <close> = rich(LATIN, ior)        -- luacheck: ignore broker
      assert.same({ "\xfc", "\xfc", "\xe9" }, { object:swap_string("\xfc", "\xe9") })
    end)
  end)

  it("gets ISO 8859-1, its own, so char above ASCII and unions switched by it arrive; the error says how to have the rest", function()
    with_server({}, function(ior)
      local recorder = record.start(ior)
      local object, broker <close> = rich(nil, recorder.ior)   -- luacheck: ignore broker
      assert.same({ "grüße", "grüße", "é" }, { object:swap_string("grüße", "é") })
      assert.equal("á", object:t_char(2, "á"))
      local union = { _anytype = broker:type "Shore::ByChar", _anyval = { _switch = "é", _value = 2.5 } }
      local back = object:swap_any(union, union)._anyval
      assert.same({ "é", "other", 2.5 }, { back._switch, back._field, back._value })
      local ok, e = pcall(object.swap_string, object, "10 €", "")
      local help = 'orb.init{ codeset = "UTF-8" }, or -ORBcodeset UTF-8, helps if its own set has them all'
      assert.same({ false, "IDL:omg.org/CORBA/DATA_CONVERSION:1.0", true }, { ok, e._repid, tostring(e):find(help, 1, true) ~= nil })
      assert.same({ "ä", "ä", "" }, { object:swap_string("ä", "") })
      assert.equal(string.unpack("<I4", SETS[LATIN]), named(recorder:stop()))
    end)
  end)

  it("gets UTF-8 from a program that wants that: every string travels, and no char above ASCII", function()
    with_server({ "-ORBnativeCharCodeSet", "UTF-8" }, function(ior)
      local recorder = record.start(ior)
      local object, broker <close> = rich(nil, recorder.ior, UTF8)   -- luacheck: ignore broker
      assert.same({ "10 €", "10 €", "é" }, { object:swap_string("10 €", "é") })
      assert.equal("IDL:omg.org/CORBA/DATA_CONVERSION:1.0", select(2, pcall(object.t_char, object, 2, "á"))._repid)
      assert.equal(string.unpack("<I4", SETS[UTF8]), named(recorder:stop()))
    end)
    with_server({}, function(ior)                          -- its own set is another
      local recorder = record.start(ior)
      local object, broker <close> = rich(nil, recorder.ior, UTF8)   -- luacheck: ignore broker
      assert.same({ "grüße", "grüße", "é" }, { object:swap_string("grüße", "é") })
      assert.equal(string.unpack("<I4", SETS[UTF8]), named(recorder:stop()))
    end)
  end)

  it("as a client chooses ISO 8859-1 for a server of ours, and UTF-8 where that was wished for", function()
    local missing = runner.missing "omniORB"
    if missing then return foreign.skip(missing) end
    for _, case in ipairs { { {}, 0x00010001, "char beyond ASCII" }, { { "-ORBcodeset", "UTF-8" }, 0x05010001, "t_string" } } do
      local handle, ior = runner.start { id = "omniORB → mare", server = "mare", serve = case[1] }
      local recorder = record.start(ior)
      local r = require "mare.subprocess".run { "build/orb_peers/cpp/client", recorder.ior, "only=" .. case[3], timeout = 60 }
      local chosen = named(recorder:stop())
      handle:kill("KILL")
      handle:wait()
      assert.equal(0, r.code, r.out .. r.err)
      assert.equal(case[2], chosen)
      assert.is_truthy(r.out:find("ok " .. case[3], 1, true), r.out)
    end
  end)

  it("as a client takes the set of a server with ISO 8859-1", function()
    local missing = runner.missing "omniORB"
    if missing then return foreign.skip(missing) end
    for set, id in pairs { [LATIN] = 0x00010001, [UTF8] = 0x05010001 } do
      local handle, ior = runner.start { id = "omniORB → mare", server = "mare", serve = { "-ORBnativeCharCodeSet", set } }
      local recorder = record.start(ior)
      local r = require "mare.subprocess".run { "build/orb_peers/cpp/client", recorder.ior, "only=t_ulong", timeout = 60 }
      local chosen = named(recorder:stop())
      handle:kill("KILL")
      handle:wait()
      assert.equal(0, r.code, r.out .. r.err)
      assert.equal(id, chosen)
    end
  end)
end)
