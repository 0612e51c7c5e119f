-- References: IORs kept byte for byte, corbaloc, and mare ior beside omniORB's catior.
local mare = require "mare"
local ior = require "mare.orb.giop.ior"
local corbaloc = require "mare.orb.giop.corbaloc"
local corbaname = require "mare.orb.giop.corbaname"
local codesets = require "mare.orb.giop.codesets"
local foreign = require "spec.support.foreign"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

local pack = table.pack
local function hex(bytes) return (bytes:gsub(".", function(c) return ("%02x"):format(c:byte()) end)) end

-- A reference written by hand: order "<" or ">", profiles { tag, data }.
local function bytes(order, type_id, profiles)
  local out = string.pack(order .. "!4I1s4I4", order == "<" and 1 or 0, type_id .. "\0", #profiles)
  for _, p in ipairs(profiles) do
    out = out .. ("\0"):rep(-#out % 4) .. string.pack(order .. "I4s4", p[1], p[2])
  end
  return out
end

local function profile(order, minor, host, port, key, components)
  local out = string.pack(order .. "!4I1I1I1s4I2s4", order == "<" and 1 or 0, 1, minor, host .. "\0", port, key)
  if components then
    out = out .. ("\0"):rep(-#out % 4) .. string.pack(order .. "I4", #components)
    for _, c in ipairs(components) do out = out .. ("\0"):rep(-#out % 4) .. string.pack(order .. "I4s4", c[1], c[2]) end
  end
  return out
end

describe("a reference", function()
  it("in either order has one canonical form, which reads back", function()
    local data = profile(">", 2, "host", 2809, "k\0y", { { 1, "abc" }, { 99, "" } })
    local list = { { 0, data }, { 77, "odd" }, { 0, profile("<", 0, "other", 1, "") } }
    local little, big = bytes("<", "IDL:A/B:1.0", list), bytes(">", "IDL:A/B:1.0", list)
    assert.equal(little, ior.canonical(big))
    assert.equal(little, ior.canonical(little))
    assert.equal(little, ior.destring("IOR:" .. hex(big)))
    assert.equal(little, ior.destring("  ior:" .. hex(big):upper() .. "\n"))
    assert.equal("IOR:" .. hex(little), ior.stringify(little))
    local t = ior.parse(little)
    assert.equal("IDL:A/B:1.0", t.type_id)
    assert.same({ tag = 0, data = data, minor = 2, host = "host", port = 2809, key = "k\0y", components = { { 1, "abc" }, { 99, "" } } },
      t.profiles[1])
    assert.same({ tag = 77, data = "odd" }, t.profiles[2])
    assert.equal(little, ior.make(t))
  end)

  it("keeps what can't be read", function()
    local broken = { { 0, "" }, { 0, "\1\1" }, { 0, "\1\2\0\0" }, { 0, profile("<", 2, "h", 1, "k"):sub(1, -2) }, { 1, "\0\0\0" },
      { 0, profile("<", 2, "h", 1, "k", { { 1, "abcdefgh" } }):sub(1, -2) } }
    local canonical = bytes("<", "IDL:X:1.0", broken)
    local t = ior.parse(canonical)
    for i = 1, #broken do
      assert.is_string(t.profiles[i].error)
      assert.is_nil(t.profiles[i].host)
    end
    assert.equal("an IIOP profile of version 2.0", t.profiles[3].error)
    assert.equal(canonical, ior.make(t))
  end)

  it("that is nil has neither type id nor profiles", function()
    assert.same({ type_id = "", profiles = {} }, ior.parse(ior.null))
    assert.equal(ior.null, ior.canonical(bytes(">", "", {})))
    assert.equal(ior.null, ior.canonical("\1\0\0\0\0\0\0\0\0\0\0\0"))   -- some write an empty string without its zero
  end)

  it("is refused when it is cut off anywhere", function()
    local whole = bytes("<", "IDL:A/B:1.0", { { 0, profile("<", 2, "host", 2809, "key", { { 1, "abc" } }) }, { 5, "abc" } })
    for n = 0, #whole - 1 do
      local value, err = ior.canonical(whole:sub(1, n))
      assert.is_nil(value)
      assert.is_string(err)
    end
    assert.equal(whole, ior.canonical(whole))
    for lie = 0, 3 do
      assert.is_nil((ior.canonical(whole:sub(1, 4 + lie) .. "\255" .. whole:sub(6 + lie))))
    end
  end)

  it("as text is refused with what is wrong", function()
    for text, message in pairs {
      ["hello"] = "a reference begins with IOR:",
      ["IOR:"] = "IOR: 0 digits, some are missing: each byte has two",
      ["IOR:010"] = "IOR: 3 digits, some are missing: each byte has two",
      ["IOR:01zz"] = 'IOR: what follows is hexadecimal, but character 3 is "z"',
      ["IOR:01"] = "IOR: a reference is cut off",
      ["IOR:01000000020000004100000000"] = "IOR: a reference is cut off",
      ["IOR:0100000002000000414100000000000000"] = "IOR: a type id is no string that ends with a zero byte",
    } do
      assert.same(pack(nil, message), pack(ior.destring(text)))
    end
  end)

  it("is made from addresses, with our code sets", function()
    local canonical = ior.iiop { type_id = "IDL:A:1.0", addresses = { { "h", 1 }, { "::1", 2 } }, key = "key", components = { { 9, "x" } } }
    local p = ior.parse(canonical).profiles[1]
    assert.same({ "h", 1, "key", 2 }, { p.host, p.port, p.key, p.minor })
    assert.same({ { host = "h", port = 1 }, { host = "::1", port = 2 } }, ior.addresses(p))
    assert.equal(codesets.component, ior.find(p, ior.TAG_CODE_SETS))
    assert.equal("x", ior.find(p, 9))
    assert.is_nil(ior.find(p, 10))
    assert.equal(codesets.LATIN1, ior.component(1, codesets.component).char.native)
    p = ior.parse(ior.iiop { type_id = "", addresses = { { "h", 1 } }, key = "", minor = 1, components = { { 1, "mine" } } }).profiles[1]
    assert.same({ { 1, "mine" } }, p.components)
    local t = ior.parse(ior.iiop { type_id = "", addresses = { { "h", 1 }, { "g", 2 } }, key = "k", minor = 0 })
    assert.same({ "h", 1, 0, "g", 2, 0 }, { t.profiles[1].host, t.profiles[1].port, t.profiles[1].minor,
      t.profiles[2].host, t.profiles[2].port, t.profiles[2].minor })
    assert.equal(0, #ior.addresses { tag = 5, data = "" })
  end)
end)

describe("a component", function()
  it("says what it says", function()
    assert.equal(0x41545400, ior.component(0, string.pack(">I4I4", 0, 0x41545400)))
    assert.same({ supports = 0x66, requires = 0x44, port = 4433 }, ior.component(20, string.pack("<I2I2I2I2", 1, 0x66, 0x44, 4433)))
    assert.same({ host = "alt", port = 77 }, ior.component(3, string.pack(">!4I1s4I2", 0, "alt\0", 77)))
    assert.same({ { 37, "\1\0" }, { 8, "" } }, ior.component(2, string.pack("<!4I1I4I4s4I4s4", 1, 2, 37, "\1\0", 8, "")))
    assert.is_nil((ior.component(4711, "abc")))
  end)

  it("that is broken is nil and a message", function()
    for _, tag in ipairs { 0, 1, 2, 3, 20 } do
      for _, data in ipairs { "", "\1", "\1\0\0\0\255\255\255\255" } do
        if #data < 8 or tag ~= 0 and tag ~= 20 then
          local value, err = ior.component(tag, data)
          assert.is_nil(value)
          assert.is_string(err)
        end
      end
    end
  end)
end)

describe("a corbaloc", function()
  it("has addresses with and without version and port", function()
    for text, expected in pairs {
      ["corbaloc::host/key"] = { key = "key", { kind = "iiop", minor = 0, host = "host", port = 2809 } },
      ["corbaloc:iiop:host:99/a/b?c"] = { key = "a/b?c", { kind = "iiop", minor = 0, host = "host", port = 99 } },
      ["corbaloc::1.2@host:/k"] = { key = "k", { kind = "iiop", minor = 2, host = "host", port = 2809 } },
      ["CORBALOC:IIOP:1.1@[::1]:5/k"] = { key = "k", { kind = "iiop", minor = 1, host = "::1", port = 5 } },
      ["corbaloc::[fe80::1%eth0]/k"] = { key = "k", { kind = "iiop", minor = 0, host = "fe80::1%eth0", port = 2809 } },
      ["corbaloc::127.0.0.1:0/%00%ff%41,:"] = { key = "\0\255A,:", { kind = "iiop", minor = 0, host = "127.0.0.1", port = 0 } },
      ["corbaloc::a,iiop:1.1@b:2,:[::2]:3/k"] = { key = "k", { kind = "iiop", minor = 0, host = "a", port = 2809 },
        { kind = "iiop", minor = 1, host = "b", port = 2 }, { kind = "iiop", minor = 0, host = "::2", port = 3 } },
      ["corbaloc::host"] = { key = "", { kind = "iiop", minor = 0, host = "host", port = 2809 } },
      ["corbaloc:rir:/TradingService"] = { key = "TradingService", { kind = "rir" } },
      ["corbaloc:rir:"] = { key = "NameService", { kind = "rir" } },
      ["corbaloc:rir:/"] = { key = "NameService", { kind = "rir" } },
    } do
      assert.same(expected, (corbaloc.parse(text)))
    end
  end)

  it("that is wrong is refused with the place", function()
    for text, message in pairs {
      ["host:1/k"] = "a corbaloc begins with corbaloc:",
      ["corbaloc:"] = "at character 10: an address begins with iiop:, :, ssliop:, omniunix: or rir:",
      ["corbaloc::/k"] = "at character 11: a host is missing",
      ["corbaloc::a,/k"] = "at character 13: an address begins with iiop:, :, ssliop:, omniunix: or rir:",
      ["corbaloc::a:99999/k"] = "at character 13: a port is 0 to 65535",
      ["corbaloc::a:1x/k"] = "at character 12: after the host comes : and a port, or a comma, or / and the key",
      ["corbaloc:iiop:2.0@a/k"] = "at character 15: IIOP 2.0 is not known, only 1.x",
      ["corbaloc:iiop:x@a/k"] = "at character 15: a version is written as 1.2@",
      ["corbaloc::[::1/k"] = "at character 11: an IPv6 address is written as [::1]",
      ["corbaloc::a/k y"] = 'at character 14: " " is not allowed in a key, write %20',
      ["corbaloc::a/%4"] = "at character 13: % is followed by two hexadecimal digits",
      ["corbaloc:uipmc:a/k"] = "at character 10: the protocol uipmc is not known here; iiop, ssliop, omniunix and rir are",
      ["corbaloc:ssliop:1.0@a/k"] = "at character 17: over TLS it is IIOP 1.1 or 1.2",
      ["corbaloc:ssliop:a:0/k"] = "at character 17: nothing listens for TLS at port 0",
      ["corbaloc:rir:x/k"] = "at character 14: nothing follows rir: but / and a name",
      ["corbaloc:rir:,:a/k"] = "at character 10: rir: stands alone",
      ["corbaloc::a,rir:/k"] = "at character 13: rir: stands alone",
      ["corbaname::a#b"] = "a corbaloc begins with corbaloc:",
    } do
      local value, err = corbaloc.parse(text)
      assert.is_nil(value)
      assert.equal(message:find("^at ") and text .. ": " .. message or message, err)
    end
  end)

  it("may stand before a name", function()
    local iiop = { kind = "iiop", minor = 0, host = "h", port = 2809 }
    for text, expected in pairs {
      ["corbaname::h"] = { "NameService" },
      ["corbaname::h/#"] = { "NameService" },
      ["CORBAName::h#a"] = { "NameService", { id = "a", kind = "" } },
      ["corbaname::h/Other#a.b/.c/d/."] = { "Other",
        { id = "a", kind = "b" }, { id = "", kind = "c" }, { id = "d", kind = "" }, { id = "", kind = "" } },
      ["corbaname::h#x%5c.y%5C/z%5c%5c/%20%e4"] = { "NameService", { id = "x.y/z\\", kind = "" }, { id = " \xe4", kind = "" } },
    } do
      local context, name = corbaname.parse(text)
      assert.same({ key = expected[1], iiop }, context, name)
      table.remove(expected, 1)
      assert.same(#expected > 0 and expected or nil, name)
      if name then assert.same(name, corbaname.name(corbaname.text(name))) end
    end
    assert.same("rir", corbaname.parse("corbaname:rir:#a")[1].kind)
    for text, message in pairs {
      ["corbaloc::h"] = "a corbaname begins with corbaname:",
      ["corbaname:"] = "corbaname:: at character 11: an address begins with iiop:, :, ssliop:, omniunix: or rir:",
      ["corbaname::h#a b"] = 'corbaname::h#a b: at character 15: " " is not allowed in a corbaname, write %20',
      ["corbaname::h#a.b.c"] = "a.b.c: at character 4 of the name: a component has one dot, between id and kind; another is written \\.",
      ["corbaname::h#a//b"] = "a//b: at character 3 of the name: a component is missing; one of which both parts are empty is written as a dot",
      ["corbaname::h#/"] = "/: at character 1 of the name: a component is missing; one of which both parts are empty is written as a dot",
      ["corbaname::h#a."] = "a.: at character 2 of the name: behind the dot the kind is missing",
      ["corbaname::h#a%5cb"] = "a\\b: at character 3 of the name: a backslash stands before a dot, a / or another backslash",
    } do
      local context, err = corbaname.parse(text)
      assert.is_nil(context)
      assert.equal(message, err)
    end
  end)

  it("becomes a reference", function()
    local t = ior.parse(corbaloc.reference(corbaloc.parse("corbaloc::a,:1.2@[::1]:5/%00k")))
    assert.equal("", t.type_id)
    assert.same({ "a", 2809, "\0k", 0 }, { t.profiles[1].host, t.profiles[1].port, t.profiles[1].key, t.profiles[1].minor })
    assert.same({ "::1", 5, "\0k", 2 }, { t.profiles[2].host, t.profiles[2].port, t.profiles[2].key, t.profiles[2].minor })
    assert.is_nil((corbaloc.reference(corbaloc.parse("corbaloc:rir:/X"))))
    local key = "a b%/\0\255~é"
    assert.equal(key, corbaloc.parse("corbaloc::h/" .. corbaloc.escape(key)).key)
  end)
end)

describe("mare ior", function()
  local sample = ior.iiop {
    type_id = "IDL:Mod/Iface:1.0", addresses = { { "127.0.0.1", 2809 }, { "::1", 2810 } }, key = 'he\0l"lo\xff key',
    components = {
      { 0, string.pack("<I4I4", 1, 0x41545400) }, { 0, string.pack(">I4I4", 0, 0x4a414300) }, { 0, string.pack(">I4I4", 0, 0x01020304) },
      { 1, string.pack("<I4I4I4I4I4I4I4I4", 1, codesets.LATIN1, 2, codesets.UTF8, 0x1000f, codesets.UTF16, 1, 0x10100) },
      { 2, string.pack("<I4I4I4s4I4s4", 1, 2, 37, "\1\0\1\0", 36, "") }, { 20, string.pack("<I2I2I2I2", 1, 0x66, 0x44, 4433) },
    },
  }

  local function run(args, options) return proc.mare_command({ "ior", table.unpack(args) }, options) end

  it("prints what catior prints", function()
    local missing = foreign.lacks "catior"
    if missing then return foreign.skip(missing) end
    for _, canonical in ipairs {
      sample, ior.null, ior.iiop { type_id = "", addresses = { { "a", 1 }, { "b", 2 } }, key = "\\", minor = 0 },
      ior.make { type_id = "IDL:X:1.0", profiles = { { tag = 0, minor = 1, host = "h", port = 1, key = "k" } } },
    } do
      local text = ior.stringify(canonical)
      local theirs, ours = proc.run({ "catior", text }), run { text }
      assert.equal(0, ours.code)
      assert.equal(theirs.out, ours.out)
      assert.equal(proc.run({ "catior", "-x", text }).out, run({ "-x", text }).out)
    end
  end)

  it("shows how a server can be reached securely", function()
    local transport = string.pack("<!4I1xI2I2xxI4I4", 1, 62, 6, 1, 3) .. "sh\0\0" .. string.pack("<I2", 443)
    local list = string.pack("<!4I1I1xxI4I2xxI4s4", 1, 1, 1, 66, 36, transport)
    list = list .. string.pack("<I2I2", 64, 64)
    list = list .. ("\0"):rep(-#list % 4) .. string.pack("<!4s4", "ab")
    list = list .. ("\0"):rep(-#list % 4) .. string.pack("<!4s4", "") .. string.pack("<!4I2I2I4I4I4", 0, 0, 0, 0, 0)
    local text = ior.stringify(ior.make { type_id = "IDL:X:1.0", profiles = {
      { tag = 0, minor = 2, host = "h", port = 0, key = "k", components = { { 33, list }, { 36, transport } } } } })
    local r = run { text }
    assert.equal(0, r.code)
    assert.matches("      TAG_CSI_SEC_MECH_LIST stateful\n        1. requires: Integrity, EstablishTrustInClient\n" ..
      "           TLS supports 62 requires 6\n                         address sh:443\n" ..
      "           client authentication supports 64 requires 64, mechanism 0x6162  (2 bytes)\n", r.out, 1, true)
    assert.matches("      TAG_TLS_SEC_TRANS supports 62 requires 6\n", r.out, 1, true)
    r = run { "--json", text }
    assert.matches('"addresses":[{"host":"sh","port":443}]', r.out, 1, true)
  end)

  it("shows the bytes of what it does not know", function()
    local text = ior.stringify(ior.make { type_id = "IDL:X:1.0", profiles = {
      { tag = 0, minor = 2, host = "h", port = 1, key = "k", components = { { 4711, "abc" }, { 33, "csi" }, { 1, "\1\0" } } },
      { tag = 77, data = "odd" }, { tag = 0, data = "\1\2" },
      { tag = 1, data = string.pack("<!4I1I4I4s4", 1, 1, 0, string.pack("<I4I4", 1, 0x41545400)) },
    } })
    local r = run { text }
    assert.equal(0, r.code)
    assert.matches("Unknown component tag 4711 0x616263  (3 bytes)", r.out, 1, true)
    assert.matches("Broken component with tag 33: TAG_CSI_SEC_MECH_LIST is cut off: 0x637369  (3 bytes)", r.out, 1, true)
    assert.matches("Broken component with tag 1: the code sets of a reference are cut off: 0x0100  (2 bytes)", r.out, 1, true)
    assert.matches("2. Unrecognised profile tag: 0x4d 0x6f6464  (3 bytes)", r.out, 1, true)
    assert.matches("3. Broken profile with tag 0: an IIOP profile is cut off: 0x0102  (2 bytes)", r.out, 1, true)
    assert.matches("4. Multiple Component Profile \n      TAG_ORB_TYPE omniORB", r.out, 1, true)
  end)

  it("writes JSON", function()
    local r = run { "--json", "corbaloc:iiop:1.2@[::1]:5/a%20%ff", ior.stringify(sample) }
    assert.equal(0, r.code)
    local first, second = r.out:match("^([^\n]+)\n([^\n]+)\n$")
    assert.matches('"host":"::1","key":"0x6120ff","key_text":"a%20%ff","port":5,"tag":0,"version":"1.2"', first, 1, true)
    assert.matches('"char":{"conversion":["UTF-8","ISO 8859-15"],"native":"ISO 8859-1"}', second, 1, true)
    assert.matches('"policies":[{"type":37,"value":"0x01000100"},{"type":36,"value":"0x"}]', second, 1, true)
    assert.matches('"ior":"' .. ior.stringify(sample) .. '"', second, 1, true)
  end)

  it("reads corbaloc, files and lines of its input", function()
    local path = temporary()
    local file = assert(io.open(path, "w"))
    file:write("\n", ior.stringify(ior.null), "\n")
    file:close()
    local r = run({ "file://" .. path, "-", "corbaloc::host/key" }, { stdin = ior.stringify(ior.null) .. "\n\ncorbaloc::line/k\n" })
    os.remove(path)
    assert.equal(0, r.code)
    assert.equal(2, select(2, r.out:gsub("IOR is a nil object reference.\n", "")))
    assert.matches('1. IIOP 1.0 line 2809 "k"', r.out, 1, true)
    assert.matches('1. IIOP 1.0 host 2809 "key"', r.out, 1, true)
  end)

  it("names what is no reference and goes on", function()
    local r = run { "IOR:01", "what", "corbaname::x:1#a.", "file:///nowhere/at/all", "corbaloc:rir:/X", "corbaloc::h/k" }
    assert.equal(1, r.code)
    assert.equal([[
mare ior: IOR: a reference is cut off
mare ior: "what" is no reference: it begins with IOR:, corbaloc:, corbaname: or file://
mare ior: corbaname::x:1#a.: CORBA::BAD_PARAM (OMG minor 9: bad text in a reference, COMPLETED_NO): a.: ]] ..
      "at character 2 of the name: behind the dot the kind is missing\n" .. [[
mare ior: /nowhere/at/all: No such file or directory
mare ior: rir: the initial reference X is known to a broker only
]], r.err)
    assert.matches('1. IIOP 1.0 h 2809 "k"', r.out, 1, true)
  end)

  it("explains itself", function()
    local r = run { "--help" }
    assert.equal(0, r.code)
    assert.matches("^  mare ior corbaloc::localhost", r.out)
    for _, args in ipairs { {}, { "--what", "IOR:00" } } do
      r = run(args)
      assert.equal(2, r.code)
      assert.equal("", r.out)
      assert.matches("Try 'mare ior --help'", r.err, 1, true)
    end
    assert.matches("mare ior REFERENCE", proc.mare_command({ "--help" }).out)
  end)
end)

describe("references in plain Lua and in processes", function()
  it("are the same", function()
    local text = ior.stringify(ior.null)
    assert.same({ true, text }, { mare.process.spawn(function(t)
      local ior = require "mare.orb.giop.ior"   -- luacheck: ignore
      return ior.stringify(ior.destring(t))
    end, text):wait(20) })
  end)
end)
