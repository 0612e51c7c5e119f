-- mare's version: everybody who says it says the same.
-- runs under: mare
-- needs: plain
local proc = require "spec.support.proc"

local root = os.getenv("MARE_ROOT") or "."

local function read(path)
  local file <close> = assert(io.open(root .. "/" .. path))
  return file:read("a")
end

local function output(command)
  local r = proc.run(command, { dir = root })
  assert.equal(0, r.code, r.err)
  return r.out
end

local version = read("include/mare.h"):match('\n#define MARE_RELEASE "([^"]*)"')

describe("the version", function()
  it("is three numbers, in mare.h", function() assert.matches("^%d+%.%d+%.%d+$", version) end)
  it("is what the program, the module, pkg-config and CMake say", function()
    assert.equal("mare " .. version .. "\n", proc.mare_command({ "--version" }).out)
    assert.equal(version, require "mare".version)
    assert.equal(version .. "\n", output { "tools/version" })
    assert.matches("\nVersion: " .. version:gsub("%.", "%%.") .. "\n", read "build/plain/install/mare.pc")
    assert.truthy(read("build/plain/install/mareConfigVersion.cmake"):find('set(PACKAGE_VERSION "' .. version .. '")', 1, true))
  end)
  it("has the first section of the changelog, and each older one has its own below", function()
    local sections = {}
    for title in read("CHANGELOG.md"):gmatch("\n## ([^\n]*)") do
      assert.matches("^%d+%.%d+%.%d+$", title)
      sections[#sections + 1] = title
    end
    assert.equal(version, sections[1])
    local function number(text)
      local a, b, c = text:match("(%d+)%.(%d+)%.(%d+)")
      return a * 1000000 + b * 1000 + c
    end
    for i = 2, #sections do assert.is_true(number(sections[i]) < number(sections[i - 1])) end
  end)
  it("is no part of the rockspec, whose version is that of the sources it lies in", function()
    assert.matches('\nversion = "scm%-1"\n', read "mare-scm-1.rockspec")
  end)
end)
