-- A program as one writes it for OiL, the ORB in Lua: a server of accounts and a client that has no IDL, with calls that wait and calls that don't.
--   mare run examples/oil.lua
-- What else there is of OiL, and what is different: docs/oil.md.
-- test:
-- expect: balance: 70
-- expect: refused: 430 missing
-- expect: three deposits later: 76
local oil = require "oil"

oil.main(function()
  local bank = oil.init { host = "127.0.0.1" }
  bank:loadidl [[
    exception Overdrawn { long missing; };
    interface Account {
      readonly attribute long balance;
      void deposit(in long amount);
      long withdraw(in long amount) raises (Overdrawn);
    };
  ]]
  local account = { balance = 100 }
  function account:deposit(amount) self.balance = self.balance + amount end
  function account:withdraw(amount)
    if amount > self.balance then error(bank:newexcept { "Overdrawn", missing = amount - self.balance }) end
    self.balance = self.balance - amount
    return self.balance
  end
  local reference = tostring(bank:newservant(account, "ada", "Account"))

  local orb = oil.init {}
  local ada = orb:newproxy(reference)
  print("balance: " .. ada:withdraw(30))
  local fine, e = orb:newproxy(ada, "protected"):withdraw(500)
  print(fine or "refused: " .. e.missing .. " missing")
  local later, futures = orb:newproxy(ada, "asynchronous"), {}
  for i = 1, 3 do futures[i] = later:deposit(i) end
  for _, future in ipairs(futures) do future:evaluate() end
  print("three deposits later: " .. ada:_get_balance())
  orb:shutdown()
  bank:shutdown()
end)
