-- What is installed, and what those are told who have another Lua: make install and uninstall, pkg-config, CMake, the rock.
-- runs under: mare
-- time limit: 1200 s: the rock is compiled by one process, beside whatever else the machine does
-- needs: plain
-- runs first
local proc = require "spec.support.proc"

local root = os.getenv("MARE_ROOT") or "."

-- f(folder) with an empty folder, removed afterwards.
local function in_folder(f)
  local made = proc.run("mktemp -d")
  local folder = made.out:match("%S+")
  local ok, err = xpcall(f, debug.traceback, folder)
  proc.run { "rm", "-rf", folder }
  assert(ok, err)
end

local function write(path, text)
  local file <close> = assert(io.open(path, "w"))
  assert(file:write(text))
end

local function succeeds(command, options)
  local r = proc.run(command, options)
  assert.equal(0, r.code, r.out .. r.err)
  return r.out
end

local function install(prefix) return succeeds({ "tools/install", prefix }, { dir = root, timeout = 60 }) end

describe("make install", function()
  it("puts the program, the module, the header and the types into PREFIX, and make uninstall removes them", function()
    in_folder(function(folder)
      local prefix = folder .. "/a prefix"
      local said = install(prefix)
      assert.equal("1.5\n", succeeds { prefix .. "/bin/mare", "-e", "print(1.5)" })
      local path = { env = { LUA_CPATH = prefix .. "/lib/lua/5.4/?.so;;", LUA_PATH = false } }
      assert.equal("42\n", succeeds({ "lua5.4", "-e", "print(select(2, require 'mare'.process.spawn(function() return 42 end):wait()))" }, path))
      assert.matches("---@meta", succeeds { "cat", prefix .. "/share/mare/types/mare/init.d.lua" })
      assert.matches("---@meta", succeeds { "cat", prefix .. "/share/mare/luals/mare/library/mare/init.d.lua" })
      assert.matches("^%.TH MARE%-RUN 1 ", succeeds { "cat", prefix .. "/share/man/man1/mare-run.1" })
      for _, file in ipairs { "bash-completion/completions/mare", "zsh/site-functions/_mare", "fish/vendor_completions.d/mare.fish" } do
        succeeds { "test", "-s", prefix .. "/share/" .. file }
      end
      assert.matches('"name": "mare"', succeeds { "cat", prefix .. "/share/mare/luals/mare/config.json" })
      assert.truthy(said:find('export PATH="' .. prefix .. "/bin:", 1, true))
      assert.truthy(said:find('export LUA_CPATH="' .. prefix .. "/lib/lua/5.4/?.so;;", 1, true))
      assert.truthy(said:find('export LUA_PATH="' .. prefix .. "/share/lua/5.4/?.lua;;", 1, true))
      path.env.LUA_PATH = prefix .. "/share/lua/5.4/?.lua;;"
      assert.equal("true\n", succeeds({ "lua5.4", "-e", "print(require 'luaproc'.newchannel 'c')" }, path))
      assert.equal("OiL 0.6\n", succeeds({ "lua5.4", "-e", "print(require 'oil'.VERSION)" }, path))
      assert.truthy(said:find(prefix .. "/share/mare/types", 1, true))
      succeeds({ "tools/install", "--undo", prefix }, { dir = root })
      assert.equal("", succeeds { "find", prefix, "!", "-type", "d" })
      local again = proc.run({ "tools/install", "--undo", prefix }, { dir = root })
      assert.equal(1, again.code)
      assert.matches("mare is not in", again.err)
    end)
  end)
  it("honours DESTDIR, and leaves what others put beside it", function()
    in_folder(function(folder)
      local where = { dir = root, env = { DESTDIR = folder }, timeout = 60 }
      succeeds({ "tools/install", "/opt/x" }, where)
      write(folder .. "/opt/x/bin/other", "")
      succeeds({ "tools/install", "--undo", "/opt/x" }, where)
      assert.equal(folder .. "/opt/x/bin/other\n", succeeds { "find", folder, "-type", "f" })
    end)
  end)
  it("says nothing of variables that are set", function()
    in_folder(function(folder)
      local said = succeeds({ "tools/install", folder }, { dir = root, timeout = 60, env = {
        PATH = folder .. "/bin:" .. os.getenv("PATH"), LUA_CPATH = folder .. "/lib/lua/5.4/?.so;;",
        LUA_PATH = folder .. "/share/lua/5.4/?.lua;;" } })
      assert.falsy(said:find("export", 1, true))
    end)
  end)
  it("lets C modules find mare.h and Lua by pkg-config, by CMake, and without either", function()
    in_folder(function(folder)
      install(folder)
      write(folder .. "/m.c", [[
        #include <mare.h>
        #include <luaproc.h>
        int luaopen_m(lua_State *L) { lua_pushinteger(L, (lua_Integer)mare_api_require(L)->version); return 1; }
      ]])
      local pc = { env = { PKG_CONFIG_PATH = folder .. "/lib/pkgconfig" } }
      succeeds("cc -shared -fPIC -Wall -Werror $(pkg-config --cflags mare) -o " .. folder .. "/m.so " .. folder .. "/m.c", pc)
      assert.equal("3\n", succeeds({ "lua5.4", "-e", "print((require 'm'))" },
        { env = { LUA_CPATH = folder .. "/?.so;" .. folder .. "/lib/lua/5.4/?.so" } }))
      succeeds("cc -c -Wall -Werror -I" .. folder .. "/include -o " .. folder .. "/m.o " .. folder .. "/m.c")
      assert.matches("^%d+%.%d+", succeeds({ "pkg-config", "--modversion", "mare" }, pc))
      write(folder .. "/CMakeLists.txt", [[
        cmake_minimum_required(VERSION 3.18)
        project(m LANGUAGES C)
        find_package(mare 0.1 REQUIRED)
        add_library(m MODULE m.c)
        target_link_libraries(m PRIVATE mare::mare)
      ]])
      succeeds({ "cmake", "-S", folder, "-B", folder .. "/b", "-DCMAKE_PREFIX_PATH=" .. folder }, { timeout = 60 })
      succeeds({ "cmake", "--build", folder .. "/b" }, { timeout = 60 })
    end)
  end)
end)

describe("another Lua", function()
  for _, lua in ipairs { "lua5.1", "lua5.3", "luajit" } do
    it(lua .. " is told that mare needs Lua 5.4, whatever is required first", function()
      for _, name in ipairs { "mare", "mare.channel", "mare.net", "mare.socket", "mare.orb", "mare.orb.cdr", "mare.tls" } do
        local r = proc.run({ lua, "-e", "require '" .. name .. "'" }, { env = { LUA_CPATH = proc.cpath, LUA_PATH = false } })
        assert.equal(1, r.code)
        assert.equal(lua .. ": mare needs Lua 5.4", r.err:match("[^\n]*"))
      end
    end)
  end
  it("has headers with which mare is not compiled, in one line", function()
    in_folder(function(folder)
      write(folder .. "/lua.h", '#define LUA_VERSION_MAJOR "5"\n#define LUA_VERSION_MINOR "3"\n#define LUA_VERSION_NUM 503\n')
      local r = proc.run({ "cmake", "-S", root, "-B", folder .. "/b", "-DMARE_CONFIG=rock", "-DMARE_LUA_INCLUDE=" .. folder }, { timeout = 60 })
      assert.equal(1, r.code)
      assert.truthy(r.err:find("mare needs Lua 5.4, and " .. folder .. "/lua.h is of another version\n", 1, true), r.err)
    end)
  end)
end)

describe("the rock", function()
  -- A repository of its own, with what lies here, and the tag of its version.
  local function tagged(folder)
    succeeds("git -C '" .. root .. "' ls-files -z | (cd '" .. root .. "' && xargs -0 cp -P --parents -t " .. folder .. ")", { timeout = 60 })
    local version = succeeds({ "tools/version" }, { dir = folder }):match("%S+")
    local as = { "git", "-c", "user.name=a", "-c", "user.email=a@localhost", "-C", folder }
    for _, command in ipairs { { "init", "-q" }, { "add", "-A" }, { "commit", "-q", "-m", "all" }, { "tag", "v" .. version }, { "tag", "v0.0.1" } } do
      succeeds({ table.unpack(table.move(command, 1, #command, #as + 1, table.move(as, 1, #as, 1, {}))) }, { timeout = 60 })
    end
    return version
  end
  local function luarocks(tree, ...) return { "luarocks", "--lua-version", "5.4", "--tree", tree, ... } end
  local function works(tree)
    assert.equal("2\n", succeeds { tree .. "/bin/mare", "-e", "print(1 + 1)" })
    assert.equal("table\n", succeeds({ "lua5.4", "-e", "print(type(require 'mare'))" },
      { env = { LUA_CPATH = tree .. "/lib/lua/5.4/?.so", LUA_PATH = false } }))
  end

  it("of a tag installs the module, the program, the header, the types and the docs; so does what is packed of that", function()
    in_folder(function(folder)
      local source, tree, other = folder .. "/source", folder .. "/tree", folder .. "/other"
      succeeds { "mkdir", source }
      local version = tagged(source)
      local rock = "mare-" .. version .. "-1"
      local refused = proc.run({ "tools/rock", "v0.0.1" }, { dir = source })
      assert.same({ 1, "the tag v0.0.1 is at version '" .. version .. "' (include/mare.h)\n" }, { refused.code, refused.err })
      assert.matches(rock:gsub("%p", "%%%0"), succeeds({ "tools/rock", "v" .. version }, { dir = source, timeout = 60 }))
      succeeds(luarocks(tree, "install", source .. "/" .. rock .. ".src.rock"), { dir = folder, timeout = 1000 })
      works(tree)
      assert.equal(version .. "-1\n", succeeds(luarocks(tree, "show", "--mversion", "mare")))
      local where = succeeds(luarocks(tree, "show", "--rock-dir", "mare")):match("%S+")
      for _, file in ipairs { "include/mare.h", "types/mare/init.d.lua", "docs/tutorial.md", "examples/search.lua" } do
        succeeds { "test", "-s", where .. "/" .. file }
      end
      succeeds(luarocks(tree, "pack", "mare"), { dir = folder, timeout = 60 })     -- with what was compiled, for machines of one kind
      succeeds(luarocks(other, "install", succeeds("ls " .. folder .. "/*.rock"):match("%S+")), { dir = folder, timeout = 60 })
      works(other)
    end)
  end)
end)
