-- The naming service of mare: what CosNaming says of every operation, what lasts, and other services beside it.
-- needs: plain
local mare = require "mare"
local orb = require "mare.orb"
local naming = require "mare.orb.services.naming"
local cosnaming = require "mare.orb.services.cosnaming"
local foreign = require "spec.support.foreign"
local omninames = require "spec.support.omninames"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

local no_sqlite = foreign.no_sqlite()
local LIMIT = 30

-- "a.b/c" as a name.
local function n(text)
  local list = {}
  for part in text:gmatch "[^/]+" do
    local id, kind = part:match "^([^.]*)%.?(.*)$"
    list[#list + 1] = { id = id, kind = kind }
  end
  return list
end

local function text_of(name)
  local list = {}
  for i, c in ipairs(name) do list[i] = c.id .. (c.kind ~= "" and "." .. c.kind or "") end
  return table.concat(list, "/")
end

-- "NotFound missing_node c/d" of what f raises.
local function raised(f, ...)
  local done, e = pcall(f, ...)
  assert.is_false(done)
  if type(e) ~= "table" or not e._repid then error(e, 0) end
  local id = e._repid:match "/([%a_]+):1%.0$"
  return id .. (e.why and " " .. e.why or "") .. (e.rest_of_name and " " .. text_of(e.rest_of_name) or "")
end

-- f(root as a client sees it, service, client's broker, port)
local function with(options, f)
  local server = orb.init { host = "127.0.0.1", timeout = LIMIT, log = function() end }
  local service = naming.serve(server, options)
  local client = orb.init { timeout = LIMIT }
  client:load(cosnaming)
  local port = math.tointeger(tonumber((server:address():match ":(%d+)$")))
  local fine, err = pcall(f, client:proxy(tostring(service.root.proxy)), service, client, port)
  client:close()
  service:close()
  server:shutdown(LIMIT)
  if not fine then error(err, 0) end
end

local function object(client, key) return client:proxy("corbaloc::127.0.0.1:9/" .. key) end

local function listed(context, how_many)
  local list, more = context:list(how_many or 1000)
  local names = {}
  for i, b in ipairs(list) do names[i] = text_of(b.binding_name) .. (b.binding_type == "ncontext" and "/" or "") end
  return table.concat(names, " "), more
end

describe("a naming context", function()
  it("is called through the interface with INS, which its reference tells", function()
    with(nil, function(root, _, client, port)
      assert.equal("CosNaming::NamingContextExt", root:_interface_name())
      assert.is_true(root:_is_a "IDL:omg.org/CosNaming/NamingContext:1.0")
      assert.is_true(client:proxy(("corbaname::127.0.0.1:%d"):format(port)):_is_a "IDL:omg.org/CosNaming/NamingContextExt:1.0")
    end)
  end)

  it("is known to programs that load no IDL of it", function()
    with(nil, function(root, _, _, port)
      local client <close> = orb.init { timeout = LIMIT, args = { "-ORBInitRef", ("NameService=corbaname::127.0.0.1:%d"):format(port) } }
      local names = client:resolve_initial_references("NameService", "CosNaming::NamingContextExt")
      names:rebind(names:to_name "a.b", object(client, "x"))
      assert.equal("a.b", listed(root))
      client:load "#include <CosNaming.idl>\n#include <CosNaming.idl>\ninterface Mine : CosNaming::NamingContextExt {};"
      client:load(cosnaming)
      local other <close> = orb.init { timeout = LIMIT }
      assert.equal("a.b", listed(other:proxy(("corbaname::127.0.0.1:%d"):format(port), "CosNaming::NamingContext")))
    end)
  end)

  it("is what omniORB's IDL says if a program has loaded that", function()
    if omninames.missing then return foreign.skip(omninames.missing) end
    local folders = { include = { "/usr/share/idl/omniORB/COS", "/usr/share/idl/omniORB" } }
    local broker <close> = orb.init { args = { "-ORBInitRef", "NameService=corbaloc::127.0.0.1:9/NameService" } }
    assert.equal("CORBA::Object", broker:resolve_initial_references("NameService"):_interface_name())
    broker:loadfile(omninames.idl, folders)
    assert.equal(omninames.idl, broker:interface("CosNaming::NamingContextExt").file)
    assert.equal("CosNaming::NamingContextExt", broker:resolve_initial_references("NameService", "CosNaming::NamingContextExt"):_interface_name())
  end)

  it("binds objects, and keeps their references as they are", function()
    with(nil, function(root, _, client)
      local x = object(client, "x")
      root:bind(n "x.k", x)
      assert.equal(tostring(x), tostring(root:resolve(n "x.k")))
      assert.equal("AlreadyBound", raised(root.bind, root, n "x.k", x))
      root:bind(n "x", object(client, "other"))                      -- the kind is part of the name
      root:rebind(n "x", object(client, "y"))
      assert.equal(tostring(object(client, "y")), tostring(root:resolve(n "x")))
      root:unbind(n "x")
      assert.equal("NotFound missing_node x", raised(root.resolve, root, n "x"))
      assert.equal("NotFound missing_node x", raised(root.unbind, root, n "x"))
      assert.equal("x.k", (listed(root)))
    end)
  end)

  it("holds contexts, and walks through them", function()
    with(nil, function(root, service, client)
      local a = root:bind_new_context(n "a")
      assert.equal("AlreadyBound", raised(root.bind_new_context, root, n "a"))
      local b = a:new_context()
      root:bind_context(n "a/b", b)
      root:bind(n "a/b/x", object(client, "x"))
      assert.equal(tostring(object(client, "x")), tostring(a:resolve(n "b/x")))
      assert.equal("x", (listed(b)))
      assert.equal("a/", (listed(root)))
      assert.equal(tostring(b), tostring(root:resolve(n "a/b")))
      assert.equal(3, service:count())
      assert.equal("NotFound missing_node c/d", raised(root.resolve, root, n "a/c/d"))
      assert.equal("NotFound not_context x/y", raised(root.bind, root, n "a/b/x/y", a))
      assert.equal("NotFound not_object b", raised(root.rebind, root, n "a/b", a))
      assert.equal("NotFound not_context x", raised(root.rebind_context, root, n "a/b/x", a))
      local other = root:new_context()
      root:rebind_context(n "a/b", other)
      assert.equal("NotFound missing_node x", raised(root.resolve, root, n "a/b/x"))
      root:bind(n "object", other)                                   -- bound as an object it is no step of a name
      assert.equal("NotFound not_context object/x", raised(root.resolve, root, n "object/x"))
    end)
  end)

  it("is destroyed when it is empty; its reference leads to nothing then", function()
    with(nil, function(root, service, client)
      local a = root:bind_new_context(n "a")
      a:bind(n "x", object(client, "x"))
      assert.equal("NotEmpty", raised(a.destroy, a))
      a:unbind(n "x")
      local before = service.bytes
      a:destroy()
      assert.is_true(service.bytes < before)
      assert.equal("OBJECT_NOT_EXIST", raised(a.list, a, 1))
      assert.equal("CannotProceed x", raised(root.resolve, root, n "a/x"))
      assert.equal(tostring(a), tostring(root:resolve(n "a")))       -- the name is there until it is taken away
      root:unbind(n "a")
      local b = root:new_context()
      assert.is_not.equal(tostring(a), tostring(b))
      assert.equal("NO_PERMISSION", raised(root.destroy, root))
    end)
  end)

  it("takes no names without a component, and binds no nil reference", function()
    with(nil, function(root, _, client)
      for _, operation in ipairs { "bind", "rebind", "bind_context", "rebind_context" } do
        assert.equal("InvalidName", raised(root[operation], root, {}, root))
        assert.equal("BAD_PARAM", raised(root[operation], root, n "x", nil))
      end
      for _, operation in ipairs { "resolve", "unbind", "bind_new_context" } do assert.equal("InvalidName", raised(root[operation], root, {})) end
      root:bind({ { id = "", kind = "" } }, object(client, "dot"))
      assert.equal(tostring(object(client, "dot")), tostring(root:resolve_str "."))
    end)
  end)

  it("lists its names in order, in pieces that an iterator gives", function()
    with(nil, function(root, service, client)
      for i = 1, 25 do root:bind({ { id = ("n%02d"):format(i), kind = "" } }, object(client, "x")) end
      local names, more = listed(root, 25)
      assert.equal(25, select(2, names:gsub("%S+", "")))
      assert.is_nil(more)
      names, more = listed(root, 0)
      assert.equal("", names)
      local any, list = more:next_n(20)
      assert.same({ true, 20, "n01", "n20" }, { any, #list, text_of(list[1].binding_name), text_of(list[20].binding_name) })
      root:unbind(n "n21")                                           -- an iterator gives what was there
      local there, b = more:next_one()
      assert.same({ true, "n21", "nobject" }, { there, text_of(b.binding_name), b.binding_type })
      any, list = more:next_n(1000)
      assert.same({ true, 4 }, { any, #list })
      assert.same({ false, {} }, { more:next_n(1) })
      assert.is_false((more:next_one()))
      assert.equal("BAD_PARAM", raised(more.next_n, more, 0))
      more:destroy()
      assert.equal("OBJECT_NOT_EXIST", raised(more.next_one, more))
      assert.equal(0, service.niterators)
    end)
  end)

  it("has a bounded number of iterators: who was not used for longest gives way", function()
    with({ limits = { iterators = 2 } }, function(root, service, client)
      for i = 1, 3 do root:bind(n("n" .. i), object(client, "x")) end
      local first, second = select(2, root:list(1)), select(2, root:list(1))
      assert.is_true((first:next_one()))
      local third = select(2, root:list(1))
      assert.equal("OBJECT_NOT_EXIST", raised(second.next_one, second))
      assert.is_true((first:next_one()))
      assert.is_true((third:next_one()))
      assert.equal(2, service.niterators)
    end)
  end)

  it("keeps so many bytes and no more", function()
    with({ limits = { bytes = 3000 } }, function(root, service, client)
      local x = object(client, "x")
      assert.equal("NO_RESOURCES", raised(root.bind, root, { { id = ("x"):rep(4000), kind = "" } }, x))
      local i = 0
      local what
      repeat
        i = i + 1
        local done, e = pcall(root.bind, root, n("n" .. i), x)
        what = not done and e._repid
      until what
      assert.matches("NO_RESOURCES", what)
      assert.equal("NO_RESOURCES", raised(root.new_context, root))
      local full = service.bytes
      root:unbind(n "n1")
      root:bind(n "n1", x)
      for _ = 1, 3 do root:rebind(n "n1", x) end
      assert.equal(full, service.bytes)
    end)
  end)
end)

describe("names as texts", function()
  it("have escapes, both ways", function()
    with(nil, function(root)
      local cases = { ["a.b/c.d"] = { "a", "b", "c", "d" }, ["a/./.x"] = { "a", "", "", "", "", "x" }, ["a\\.b.c\\/d"] = { "a.b", "c/d" },
                      ["\\\\.\\\\"] = { "\\", "\\" }, ["ä/ "] = { "ä", "", " ", "" } }
      for text, parts in pairs(cases) do
        local name = {}
        for i = 1, #parts, 2 do name[#name + 1] = { id = parts[i], kind = parts[i + 1] or "" } end
        assert.equal(text, root:to_string(name))
        assert.same(name, root:to_name(text))
      end
      for _, text in ipairs { "", "/", "a//b", "a.", "a.b.c", "a\\x", "a\\", "/a", "a/" } do
        assert.equal("InvalidName", raised(root.to_name, root, text), text)
        assert.equal("InvalidName", raised(root.resolve_str, root, text), text)
        assert.equal("InvalidName", raised(root.to_url, root, ":h", text), text)
      end
      assert.equal("InvalidName", raised(root.to_string, root, {}))
    end)
  end)

  it("become URLs", function()
    with(nil, function(root, _, client, port)
      assert.equal("corbaname::h:1/key#a.b/c%20d%5c.e", root:to_url(":h:1/key", "a.b/c d\\.e"))
      for _, address in ipairs { "", "h", "::", ":h#", "nosuch:h", ":h:x" } do
        assert.equal("InvalidAddress", raised(root.to_url, root, address, "a"), address)
      end
      root:bind({ { id = "a.b", kind = " " } }, object(client, "x"))
      local url = root:to_url((":127.0.0.1:%d"):format(port), "a\\.b. ")
      assert.equal(tostring(object(client, "x")), tostring(client:proxy(url)))
    end)
  end)
end)

describe("a naming service with a file", function()
  local function path()
    local file = temporary()
    os.remove(file)
    return file
  end

  local function remove(file)
    for _, suffix in ipairs { "", "-wal", "-shm", "-journal" } do os.remove(file .. suffix) end
  end

  it("finds all names, contexts and references again", function()
    if no_sqlite then return foreign.skip(no_sqlite) end
    local file, context, odd = path(), nil, { { id = "it's; '\"\\ ä", kind = "\1" } }
    with({ db = file }, function(root, _, client)
      context = root:bind_new_context(n "a")
      root:bind(n "a/x.k", object(client, "x"))
      root:bind(odd, object(client, "odd"))
      root:bind_new_context(n "gone"):destroy()
      root:unbind(n "gone")
      root:bind(n "y", object(client, "y"))
      root:rebind(n "y", object(client, "z"))
      context:bind_context(n "up", root)                              -- a circle
      root:bind_context(n "far", client:proxy("corbaloc::127.0.0.1:9/far", "CosNaming::NamingContext"))
    end)
    with({ db = file }, function(root, service, client)
      assert.equal("a/ far/ it's; '\"\\ ä.\1 y", (listed(root)))
      assert.equal(tostring(object(client, "x")), tostring(root:resolve(n "a/up/a/x.k")))
      assert.equal(tostring(object(client, "odd")), tostring(root:resolve(odd)))
      assert.equal(tostring(object(client, "z")), tostring(root:resolve(n "y")))
      assert.equal(6, service:count())
      local id = tostring(root:new_context())
      assert.is_not.equal(id, tostring(context))
      assert.equal("CannotProceed x", raised(root.resolve, root, n "far/x"))
    end)
    remove(file)
  end)

  it("has written what it has answered, also when it is killed", function()
    if no_sqlite then return foreign.skip(no_sqlite) end
    local file = path()
    local child = assert(mare.subprocess.spawn { proc.bin, "names", "--port", "0", "--host", "127.0.0.1", "--db", file, "--json", stderr = "null" })
    local reference = assert(child.stdout:read("l", LIMIT)):match '"reference":"(IOR:%x+)"'
    do
      local client <close> = orb.init { timeout = LIMIT }
      client:load(cosnaming)
      local root = client:proxy(reference)
      for i = 1, 20 do root:bind(n("n" .. i), object(client, "x" .. i)) end
      child:kill "KILL"
    end
    child:wait()
    with({ db = file }, function(root, service, client)
      assert.equal(20, service:count())
      assert.equal(tostring(object(client, "x7")), tostring(root:resolve(n "n7")))
    end)
    remove(file)
  end)

  it("raises PERSIST_STORE when that can't be written, and nothing has changed", function()
    if no_sqlite then return foreign.skip(no_sqlite) end
    local file = path()
    with({ db = file }, function(root, service, client)
      root:bind(n "x", object(client, "x"))
      local bytes = service.bytes
      local connection = service.store.database.connection
      assert(connection:execute "PRAGMA query_only = 1")
      for _, f in ipairs { function() root:bind(n "y", object(client, "y")) end, function() root:unbind(n "x") end, function() root:new_context() end,
                           function() root:bind_new_context(n "z") end, function() root:rebind(n "x", object(client, "other")) end } do
        assert.equal("PERSIST_STORE", raised(f))
      end
      assert(connection:execute "PRAGMA query_only = 0")
      assert.same({ bytes, "x" }, { service.bytes, (listed(root)) })
      assert.equal(tostring(object(client, "x")), tostring(root:resolve(n "x")))
      root:bind_new_context(n "z")
    end)
    remove(file)
  end)

  it("is refused a file that is none of its own, or another's", function()
    if no_sqlite then return foreign.skip(no_sqlite) end
    local server <close> = orb.init { host = "127.0.0.1" }
    local file = path()
    local f = assert(io.open(file, "w"))
    f:write(("no database "):rep(100))
    f:close()
    assert.error_matches(function() naming.serve(server, { db = file }) end, "naming.serve: " .. file .. ": file is not a database", 1, true)
    assert.error_matches(function() naming.serve(server, { db = "/no/such/folder/x" }) end, "unable to open database file")
    remove(file)
    with({ db = file }, function() assert.error_matches(function() naming.serve(server, { db = file }) end, "database is locked") end)
    remove(file)
    assert.error_matches(function() naming.serve(server, { file = "x" }) end, "there is no option 'file'")
    assert.error_matches(function() naming.serve(server, { limits = { names = 1 } }) end, "there is no limit 'names'")
  end)
end)

describe("another naming service", function()
  it("is part of ours when one of its contexts is bound here", function()
    with(nil, function(there, _, client)
      there:bind_new_context(n "inner")
      with({ limits = { federation = LIMIT } }, function(here)
        local far = client:proxy(tostring(there))
        here:bind_context(n "far", far)
        here:bind(n "far/inner/x", object(client, "x"))
        assert.equal(tostring(object(client, "x")), tostring(there:resolve(n "inner/x")))
        assert.equal(tostring(object(client, "x")), tostring(here:resolve(n "far/inner/x")))
        assert.equal("NotFound missing_node y", raised(here.resolve, here, n "far/inner/y"))
        assert.equal("AlreadyBound", raised(here.bind, here, n "far/inner/x", here))
        here:bind_new_context(n "far/new"):bind(n "z", object(client, "z"))
        assert.equal(tostring(object(client, "z")), tostring(there:resolve(n "new/z")))
        here:unbind(n "far/new/z")
        assert.equal("", (listed(there:resolve(n "new"))))
      end)
    end)
  end)

  it("that says nothing is CannotProceed in time, with the context and the rest", function()
    local silent = assert(mare.net.listen "127.0.0.1:0")
    with({ limits = { federation = 0.05 } }, function(root, _, client)
      local far = client:proxy(("corbaloc::127.0.0.1:%d/far"):format(select(2, silent:address())), "CosNaming::NamingContext")
      root:bind_context(n "far", far)
      local done, e = pcall(root.resolve, root, n "far/a/b")
      assert.is_false(done)
      assert.same({ "IDL:omg.org/CosNaming/NamingContext/CannotProceed:1.0", "a/b" }, { e._repid, text_of(e.rest_of_name) })
      assert.equal(tostring(far), tostring(e.cxt))
    end)
    silent:close()
  end)

  it("may be omniNames, in ours and around ours", function()
    if omninames.missing then return foreign.skip(omninames.missing) end
    omninames.with(function(port)
      with({ limits = { federation = LIMIT } }, function(root, _, client)
        local theirs = client:proxy(("corbaname::127.0.0.1:%d"):format(port), "CosNaming::NamingContext")
        root:bind_context(n "theirs", theirs)
        root:bind_new_context(n "theirs/a")
        root:bind(n "theirs/a/x", object(client, "x"))
        assert.equal(tostring(object(client, "x")), tostring(theirs:resolve(n "a/x")))
        theirs:bind_context(n "ours", root)
        assert.equal(tostring(object(client, "x")), tostring(theirs:resolve(n "ours/theirs/a/x")))
        root:bind(n "y", object(client, "y"))
        assert.equal(tostring(object(client, "y")), tostring(root:resolve(n "theirs/ours/y")))
        assert.equal("NotFound missing_node z", raised(theirs.resolve, theirs, n "ours/z"))
      end)
    end)
  end)
end)

describe("nameclt of omniORB", function()
  it("works with it", function()
    if omninames.missing then return foreign.skip(omninames.missing) end
    with(nil, function(root, _, client, port)
      local function nameclt(...)
        local command = { "nameclt", "-ORBInitRef", ("NameService=corbaname::127.0.0.1:%d"):format(port), ... }
        command.timeout = LIMIT
        local r = assert(mare.subprocess.run(command))
        return (r.out .. r.err):match "^%s*(.-)%s*$"
      end
      assert.equal("", nameclt "list")
      nameclt("bind_new_context", "a.b")
      nameclt("bind", "a.b/x", "corbaloc::127.0.0.1:9/x")
      assert.equal(tostring(object(client, "x")), tostring(root:resolve(n "a.b/x")))
      assert.matches("^a%.b", nameclt "list")
      assert.matches("^x", nameclt("list", "a.b"))
      assert.equal(tostring(object(client, "x")), nameclt("resolve", "a.b/x"))
      assert.matches("AlreadyBound", nameclt("bind", "a.b/x", "corbaloc::127.0.0.1:9/x"))
      assert.matches("NotEmpty", nameclt("remove_context", "a.b"))
      nameclt("unbind", "a.b/x")
      nameclt("remove_context", "a.b")
      assert.equal("", (listed(root)))
    end)
  end)
end)
