-- The Debian package, of what was built already: what is in it, what it needs, what lintian says. `make deb-check` installs it in a fresh Debian.
-- runs under: mare
-- needs: plain
local proc = require "spec.support.proc"

local root = os.getenv("MARE_ROOT") or "."

local function succeeds(command)
  local r = proc.run(command, { dir = root, timeout = 300 })
  assert.equal(0, r.code, r.out .. r.err)
  return r.out
end

describe("make deb", function()
  local package

  it("makes a package of mare's version", function()
    package = succeeds({ "tools/deb", "--built", "build/plain" }):match("^made: (%S+)")
    assert.equal(succeeds({ "tools/version" }):match("%S+") .. "-1\n", succeeds { "dpkg-deb", "-f", package, "Version" })
  end)
  it("that needs the libraries which its programs load, and no others", function()
    local needs = {}
    for name in succeeds({ "dpkg-deb", "-f", package, "Depends" }):gmatch("([%w.+-]+)[^,]*") do needs[#needs + 1] = name:gsub("t64$", "") end
    table.sort(needs)
    assert.same({ "libc6", "libssl3", "zlib1g" }, needs)
  end)
  it("with the program, the module, the header, types, man pages, completion and the docs", function()
    local text = succeeds { "dpkg-deb", "-c", package }
    for _, file in ipairs { "usr/bin/mare", "usr/lib/[^/]+/lua/5%.4/mare%.so", "usr/share/lua/5%.4/oil%.lua", "usr/include/mare%.h",
      "usr/lib/[^/]+/pkgconfig/mare%.pc", "usr/share/mare/types/mare/init%.d%.lua", "usr/share/mare/luals/mare/config%.json",
      "usr/share/man/man1/mare%-run%.1%.gz", "usr/share/bash%-completion/completions/mare", "usr/share/zsh/vendor%-completions/_mare",
      "usr/share/fish/vendor_completions%.d/mare%.fish", "usr/share/doc/mare/docs/tutorial%.md", "usr/share/doc/mare/examples/search%.lua" } do
      assert.matches(" %./" .. file .. "%f[%s]", text)
    end
    assert.falsy(text:find("/usr/local", 1, true))
  end)
  it("of which lintian says nothing", function()
    local folder = succeeds({ "mktemp", "-d" }):match("%S+")          -- it leaves something there
    local r = proc.run({ "lintian", "--allow-root", "--suppress-tags", "bogus-mail-host,bogus-mail-host-in-debian-changelog", package },
      { dir = root, timeout = 300, env = { TMPDIR = folder } })
    proc.run { "rm", "-rf", folder }
    assert.same({ 0, "", "" }, { r.code, r.out, r.err })
  end)
end)
