-- mare ir, mare idl from, and mare call without IDL.
-- runs under: mare
-- needs: plain
local mare = require "mare"
local foreign = require "spec.support.foreign"
local omninames = require "spec.support.omninames"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

local LIMIT = 30

local function run(...)
  local r = proc.mare_command { ... }
  return r.code, r.out, r.err
end

-- A folder with these files.
local function with_folder(files, f)
  local folder = temporary()
  os.remove(folder)
  assert(os.execute("mkdir -p " .. folder .. "/inner"))
  for name, text in pairs(files) do
    local file = assert(io.open(folder .. "/" .. name, "w"))
    file:write(text)
    file:close()
  end
  local fine, err = pcall(f, folder)
  os.execute("rm -r " .. folder)
  if not fine then error(err, 0) end
end

-- f(the line it prints, its corbaloc)
local function with_command(words, f)
  local command = { proc.bin, table.unpack(words) }
  command.stderr = "null"
  local child = assert(mare.subprocess.spawn(command))
  local line = assert(child.stdout:read("l", LIMIT))
  local fine, err = pcall(f, line, line:match "(corbaloc:%S+)$")
  child:kill "TERM"
  local ended = child:wait()
  if not fine then error(err, 0) end
  assert.equal(0, ended.code)
end

local TRAIN = '#include "kinds.idl"\nmodule Trains { interface Engine { Kinds::Colour colour(in long number); }; };\n'
local FILES = { ["train.idl"] = TRAIN, ["kinds.idl"] = "module Kinds { enum Colour { RED, BLUE }; struct Unused { long x; }; };\n",
                ["inner/more.idl"] = "interface More {};\n", ["wrong.idl"] = "interface {};\n", ["notes.txt"] = "interface {};\n" }
local WANTED = [[
module Kinds {
  enum Colour { RED, BLUE };                        // IDL:Kinds/Colour:1.0
};
module Trains {
  interface Engine {                                // IDL:Trains/Engine:1.0
    Kinds::Colour colour(in long number);           // IDL:Trains/Engine/colour:1.0
  };
};
]]

describe("mare ir", function()
  it("serves the IDL of a folder, which mare idl from prints again", function()
    with_folder(FILES, function(folder)
      with_command({ "ir", "--port", "0", "--host", "127.0.0.1", folder }, function(line, at)
        assert.matches("^serving 7 definitions of 3 files at corbaloc::1%.2@127%.0%.0%.1:%d+/InterfaceRepository$", line)
        local code, out = run("idl", "from", at)
        assert.equal(0, code)
        for _, name in ipairs { "Trains/Engine", "Kinds/Unused", "More" } do assert.matches("IDL:" .. name .. ":1%.0", out) end
        assert.same({ 0, WANTED, "" }, { run("idl", "from", at .. "/IDL:Trains/Engine:1.0") })
        code, out = run("idl", "from", "--json", at .. "/IDL:More:1.0")
        assert.equal(0, code)
        assert.matches('"id":"IDL:More:1.0"', out)
        assert.matches("^IOR:", select(2, run("call", at, "lookup", "::Trains::Engine")))
        assert.same({ 0, "nil\n", "" }, { run("call", at, "lookup_id", "IDL:Nothing:1.0") })
      end)
    end)
  end)

  it("says what is wrong with its command line and its files", function()
    with_folder(FILES, function(folder)
      local code, _, err = run("ir", "--port", "0", folder .. "/wrong.idl")
      assert.equal(1, code)
      assert.matches("wrong.idl:1:11", err)
      assert.equal(1, run("ir", folder .. "/none.idl"))
      assert.equal(2, run("ir"))
      assert.equal(2, run("ir", "--port", "x", folder))
      assert.equal(2, run("ir", "--hst", "x", folder))
      assert.matches("^  mare ir", select(2, run("ir", "--help")))
    end)
  end)
end)

describe("mare idl from", function()
  it("and mare call need nothing but the reference of a mare server's object", function()
    with_command({ "names", "--port", "0", "--host", "127.0.0.1" }, function(line)
      local at = "corbaname::127.0.0.1:" .. line:match ":(%d+)/"
      local code, out = run("idl", "from", at)
      assert.equal(0, code)
      assert.matches("interface NamingContextExt : NamingContext {", out)
      assert.same({ 0, '{ { id = "a", kind = "b" } }\n', "" }, { run("call", at, "to_name", "a.b") })
      local _, _, err = run("call", at, "to_nme", "a.b")
      assert.matches("did you mean 'to_name'", err)
    end)
  end)

  it("searches a folder where the server has no repository", function()
    if omninames.missing then return foreign.skip(omninames.missing) end
    omninames.with(function(port)
      local at = "corbaname::127.0.0.1:" .. port
      assert.equal(0, run("names", "new", at .. "#inner"))
      local code, out, err = run("idl", "from", at .. "#inner")
      assert.same({ 1, "" }, { code, out })
      assert.matches("no interface repository: .*; %-%-idl DIR searches a folder of IDL for 'IDL:omg.org/CosNaming/NamingContextExt:1.0'", err)
      code, out, err = run("idl", "from", "--idl", omninames.idl:match "^(.*)/", at .. "#inner")
      assert.equal(0, code, err)
      assert.matches("searching for 'IDL:omg.org", err)
      assert.matches("interface NamingContextExt : NamingContext {", out)
      with_folder(FILES, function(folder)
        code, out, err = run("idl", "from", "--idl", folder, at .. "#inner")
        assert.same({ 1, "" }, { code, out })
        assert.matches("no IDL in .* defines 'IDL:omg.org", err)
      end)
      code, out, err = run("call", at .. "#inner", "to_name", "x")
      assert.same({ 2, "" }, { code, out })
      assert.matches("no interface repository: .*; add %-%-idl with the file that defines it; " ..
        "of a naming service %-%-interface CosNaming::NamingContextExt is enough\n$", err)
      assert.same({ 0, '{ { id = "x", kind = "" } }\n', "" },
        { run("call", "--interface", "CosNaming::NamingContextExt", at .. "#inner", "to_name", "x") })
    end)
  end)

  it("asks a repository that is given, and so does mare call", function()
    if omninames.missing then return foreign.skip(omninames.missing) end
    omninames.with(function(port)
      with_command({ "ir", "--port", "0", "--host", "127.0.0.1", omninames.idl }, function(_, at)
        local root = "corbaname::127.0.0.1:" .. port
        assert.equal(0, run("names", "new", root .. "#inner"))
        local code, out = run("idl", "from", "--repository", at, root .. "#inner")
        assert.equal(0, code)
        assert.matches("interface NamingContextExt : NamingContext {", out)
        assert.same({ 0, '{ { id = "a", kind = "b" } }\n', "" },
          { run("call", "-ORBInitRef", "InterfaceRepository=" .. at, root .. "#inner", "to_name", "a.b") })
      end)
    end)
  end)

  it("says what is wrong", function()
    assert.equal(2, run("idl", "from"))
    assert.equal(2, run("idl", "from", "nonsense"))
    assert.equal(2, run("idl", "from", "--tmeout", "3", "x"))
    local code, out, err = run("idl", "from", "--idl", "/no/such/folder", "corbaloc::127.0.0.1:1/x")
    assert.same({ 2, "" }, { code, out })
    assert.matches("^mare idl from: %-%-idl /no/such/folder: ", err)
    assert.equal(1, run("idl", "from", "--timeout", "5", "corbaloc::127.0.0.1:1/x"))
    assert.matches("^  mare idl from", select(2, run("idl", "from", "--help")))
  end)
end)
