-- values.lua: values that travel as what they are, with their methods at both ends: a list of accounts goes to a bank, which gives it back with
-- interest, in the same objects where they were the same. Each side has a class of its own for a type, its factory.
-- test:
-- expect: at the bank: savings 1000, young savings 200
-- expect: one account in two places: true
-- expect: Savings Ada 1020.0
-- expect: Young Bob 208.0 (a gift of 4.0)
-- expect: an Account: Eve 5.0
local orb = require "mare.orb"

local idl = [[
  valuetype Account { public string owner; public double balance; };
  valuetype Savings : truncatable Account { public double rate; };
  valuetype Young : truncatable Savings { public double gift; };
  typedef sequence<Account> Accounts;
  interface Bank { Accounts year(in Accounts list, out Account first); Account open(in string owner); };
]]

local function class(name, base)
  local made = setmetatable({ __name = name }, { __index = base })
  made.__index = made
  return made
end

-- The bank's classes: what a year brings.
local server = orb.init { host = "127.0.0.1" }
server:load(idl)
local Savings = class "Savings"
function Savings:interest() return self.balance * self.rate end
local Young = class("Young", Savings)
function Young:interest() return Savings.interest(self) + self.gift end
server:factory("Savings", Savings)
server:factory("Young", Young)

local bank = {}
function bank.year(_, list)
  print(("at the bank: savings %d, young savings %d"):format(list[1].balance, list[2].balance))
  print("one account in two places: " .. tostring(list[1] == list[3]))
  local done = {}
  for _, account in ipairs(list) do
    if not done[account] then account.balance = account.balance + account:interest() end
    done[account] = true
  end
  return list, list[1]
end
function bank.open(_, owner) return setmetatable({ owner = owner, balance = 5, rate = 0.1, gift = 1 }, Young) end
local reference = tostring(server:serve(bank, "Bank"))

-- The client's: how they are shown. The second client knows no savings: it gets what is left of them, an Account.
local client, simple = orb.init(), orb.init()
client:load(idl)
local Mine = class "Savings"
function Mine:show() return ("Savings %s %.1f"):format(self.owner, self.balance) end
local Small = class("Young", Mine)
function Small:show() return ("Young %s %.1f (a gift of %.1f)"):format(self.owner, self.balance, self.gift) end
client:factory("Savings", Mine)
client:factory("Young", Small)

local ada = setmetatable({ owner = "Ada", balance = 1000, rate = 0.02 }, Mine)
local bob = setmetatable({ owner = "Bob", balance = 200, rate = 0.02, gift = 4 }, Small)
local list, first = client:proxy(reference):year { ada, bob, ada }
assert(list[1] == first and list[3] == first and first ~= ada)
print(first:show())
print(list[2]:show())

simple:load [[
  valuetype Account { public string owner; public double balance; };
  typedef sequence<Account> Accounts;
  interface Bank { Accounts year(in Accounts list, out Account first); Account open(in string owner); };
]]
local eve = simple:proxy(reference):open "Eve"
print(("an Account: %s %.1f"):format(eve.owner, eve.balance))
client:close()
simple:close()
server:shutdown(true)
