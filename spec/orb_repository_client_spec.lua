-- A client without IDL: it asks each object's server, or an interface repository, what the object can do.
-- needs: plain
local mare = require "mare"
local orb = require "mare.orb"

local IDL = [[
  #include <orb.idl>
  #pragma prefix "mare.test"
  module Bank {
    exception Overdrawn { long by; };
    enum Money { EUR, USD };
    struct Entry { string text; long cents; Money kind; };
    typedef sequence<Entry> Entries;
    interface Account;
    typedef sequence<Account> Accounts;
    interface Teller { Account open(in string who) raises (Overdrawn); Accounts all(); CORBA::StringSeq names(); };
    interface Named { readonly attribute string name; };
    interface Account : Named {
      attribute Money unit;
      void take(in long cents) raises (Overdrawn);
      Entries history(out long total);
      any last();
    };
    interface Savings : Account { double rate(); };
  };
]]

-- f(reference of a teller, broker, its address)
local function with_bank(f, options)
  options = options or {}
  options.host = "127.0.0.1"
  local broker = orb.init(options)
  broker:load(IDL)
  local T = broker.types.Bank
  local account = { name = "ann", unit = "EUR" }
  function account.take(_, cents) error(T.Overdrawn { by = cents }, 0) end
  function account.history() return { { text = "in", cents = 5, kind = "USD" } }, 5 end
  function account.last() return { _anytype = T.Entry, _anyval = { text = "out", cents = 1, kind = "EUR" } } end
  function account.rate() return 0.5 end
  local teller = { open = function(_, who)
    account.name = who
    return account
  end, all = function() return { account } end, names = function() return { "a", "b" } end }
  broker:serve(account, "Bank::Savings")
  local reference = broker:serve(teller, "Bank::Teller", { key = "teller" })
  local results = table.pack(pcall(f, tostring(reference), broker, broker:address()))
  broker:shutdown(5)
  if not results[1] then error(results[2], 0) end
end

-- What a program does with such a bank.
local function use(client, reference)
  local teller = client:proxy(reference)
  assert.equal("Bank::Teller", teller:_interface_name())
  assert.same({ "a", "b" }, teller:names())
  local account = teller:open("bob")
  assert.equal("bob", account.name)
  assert.equal("Bank::Savings", account:_interface_name())                -- more than the operation's IDL says of it
  account.unit = "USD"
  assert.same({ "USD", 0.5 }, { account.unit, account:rate() })
  local fine, err = pcall(account.take, account, 3)
  assert.same({ false, "IDL:mare.test/Bank/Overdrawn:1.0", 3 }, { fine, err._repid, err.by })
  assert.same({ { { text = "in", cents = 5, kind = "USD" } }, 5 }, { account:history() })
  assert.equal("out", account:last()._anyval.text)
  assert.equal(account, teller:all()[1])
  assert.same({ "EUR", "USD" }, client.types.Bank.Money.labels)
  assert.is_true(account:_is_a("Bank::Named"))
  assert.equal(account, account:_narrow("Bank::Account"))
end

describe("a client without IDL", function()
  it("asks each object's server, of a reference that tells its interface and of one that doesn't", function()
    with_bank(function(reference, _, address)
      for _, ref in ipairs { reference, "corbaloc::" .. address .. "/teller" } do
        local client <close> = orb.init { repository = true }
        use(client, ref)
      end
    end)
  end)

  it("asks an interface repository, which need not be that of the server", function()
    with_bank(function(reference, _, address)
      local other <close> = orb.init { host = "127.0.0.1" }
      other:load(IDL)
      for _, at in ipairs { other:address(), address } do
        local client <close> = orb.init { repository = { at = "corbaloc::1.2@" .. at .. "/InterfaceRepository" } }
        use(client, reference)
      end
      local client <close> = orb.init { repository = "corbaloc::1.2@" .. address .. "/InterfaceRepository" }
      assert.equal("Bank::Account", client:proxy("corbaloc::" .. address .. "/teller", "Bank::Account"):_interface_name())
      assert.has_error(function() client:interface "Bank::Nothing" end)
    end, { repository = true })
  end)

  it("asks for an interface that was only declared in what it learned, before a callback of it is called", function()
    local server, client = orb.init { host = "127.0.0.1" }, orb.init { repository = true, host = "127.0.0.1" }
    local other = orb.init { repository = true, host = "127.0.0.1" }
    server:load "interface Listener { string moved(in long t); }; interface Hub { string sub(in Listener l); };"
    server:serve({ sub = function(_, l) return l:moved(3) end }, "Hub", { key = "hub" })
    local at = "corbaloc::1.2@" .. server:address() .. "/hub"
    local hub = client:proxy(at)
    local listener = { moved = function(_, t) return "served " .. t end }
    local fine, err = pcall(function()
      client:serve(listener, "Listener")
      assert.equal("served 3", hub:sub(listener))
      assert.equal("passed 3", other:proxy(at):sub { moved = function(_, t) return "passed " .. t end })
    end)
    other:shutdown(5)
    client:shutdown(5)
    server:shutdown(5)
    if not fine then error(err, 0) end
  end)

  it("asks once, and an attribute that is the first to be used is found", function()
    with_bank(function(reference, broker)
      local client <close> = orb.init { repository = true }
      assert.equal("bob", client:proxy(reference):open("bob").name)
      collectgarbage()
      collectgarbage()                           -- no proxy is left
      function broker.server.definitions() error("asked again", 0) end
      for key in pairs(broker.server.adapter.objects) do
        if key:find "^InterfaceRepository" then broker.server.adapter.objects[key] = nil end
      end
      broker.server.adapter.residents = nil
      local teller = client:proxy(reference)
      assert.equal("ann", teller:open("ann").name)
      assert.equal("ann", teller:all()[1].name)
    end)
  end)

  it("gets what it would get without asking where a server has no repository", function()
    with_bank(function(reference)
      local client <close> = orb.init { repository = true }
      local teller = client:proxy(reference)
      assert.equal("CORBA::Object", teller:_interface_name())
      local fine, err = pcall(function() teller:names() end)
      assert.is_false(fine)
      assert.matches("has no operation or attribute 'names': its server has no interface repository", err)
      client:load(IDL)
      assert.same({ "a", "b" }, client:proxy(reference):names())
    end, { repository = false })
  end)

  it("keeps its own IDL, and is told where a server's differs", function()
    with_bank(function(reference)
      local client <close> = orb.init { repository = true }
      client:load [[ #pragma prefix "mare.test"
        module Bank { enum Money { EUR, USD, GBP }; exception Overdrawn { long cents; }; interface Account; }; ]]
      local teller = client:proxy(reference)                    -- what is known is not asked for
      assert.equal("Bank::Teller", teller:_interface_name())
      assert.equal(3, #client.types.Bank.Money.labels)
      for _, differs in ipairs { "exception Overdrawn { string why; };", "struct Entry { string text; long cents; };", "enum Money { USD, EUR };",
                                 "struct Entry { string text; sequence<long> cents; boolean kind; };", "typedef sequence<Account, 5> Accounts;" } do
        local other <close> = orb.init { repository = { at = true, time = 20 } }
        other:load("#pragma prefix \"mare.test\"\nmodule Bank { interface Account; " .. differs .. " };")
        local fine, err = pcall(function() return other:proxy(reference):open("x"):rate() end)
        assert.same({ false, "INTF_REPOS" }, { fine, orb.exception.is_system(err) }, differs)
        assert.truthy(tostring(err):find("than is known of it", 1, true), tostring(err))
      end
      local mine <close> = orb.init { repository = true }
      mine:load "module Bank { interface Teller { void other(); }; };"
      local fine, err = pcall(mine.proxy, mine, reference)
      assert.is_false(fine)
      assert.equal("INTF_REPOS", orb.exception.is_system(err))
      assert.is_true(mine.repository:operations(mine:interface "Bank::Teller").other ~= nil)
    end)
  end)

  it("is told where the labels of a union select others", function()
    local server <close> = orb.init { host = "127.0.0.1" }
    server:load "union Word switch (long) { case 1: string text; case 2: string name; default: long n; }; interface Talker { Word say(); };"
    local reference = server:serve({ say = function() return { text = "x" } end }, "Talker")
    for union, agrees in pairs { ["union Word switch (long) { case 1: string text; case 2: string name; default: long n; };"] = true,
                                 ["union Word switch (long) { case 2: string text; case 1: string name; default: long n; };"] = false,
                                 ["union Word switch (long) { case 1: string text; case 2: string name; case 3: long n; };"] = false,
                                 ["union Word switch (long) { default: string text; case 2: string name; case 3: long n; };"] = false } do
      local client <close> = orb.init { repository = { at = true, time = 20 } }
      client:load(union)
      local fine, value = pcall(function() return client:proxy(tostring(reference)):say() end)
      assert.equal(agrees, fine, tostring(value))
      assert.equal(agrees and "x" or "INTF_REPOS", agrees and value._value or orb.exception.is_system(value))
    end
  end)

  it("may be many fibers that ask for the same at once", function()
    with_bank(function(reference)
      local client <close> = orb.init { repository = true }
      local fibers = {}
      for i = 1, 10 do
        fibers[i] = mare.fiber.spawn(function() return client:proxy(reference):open("f" .. i):rate() end)
      end
      for _, f in ipairs(fibers) do assert.equal(0.5, select(2, f:wait())) end
    end)
  end)

  it("sees in another process what a proxy that was sent there can do", function()
    with_bank(function(reference)
      local client <close> = orb.init { repository = true }
      local process = mare.process.spawn(function(p)
        local broker <close> = require "mare.orb".init { repository = true }         -- luacheck: ignore broker
        return p:names()[2]
      end, client:proxy(reference))
      assert.equal("b", select(2, process:wait()))
    end)
  end)
end)
