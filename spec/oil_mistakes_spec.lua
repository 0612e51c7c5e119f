-- What a program of OiL's hears of its own mistakes, in words and where they are made.
-- needs: plain
local oil = require "oil"

local function refused(what, f, ...)
  local fine, err = pcall(f, ...)
  assert.is_false(fine)
  assert.matches(what, tostring(err))
  assert.is_nil(tostring(err):find("mare/oil", 1, true), tostring(err))
  return err
end

-- f(orb, a proxy of an object of another ORB)
local function with_hello(f)
  oil.main(function()
    local orb, other = oil.init { host = "127.0.0.1" }, oil.init { host = "127.0.0.1" }
    orb:loadidl "interface Hello { string say(in string name); void wait(); };"
    local hello = {}
    function hello:say(name) return self == hello and "hello, " .. name end
    function hello.wait() oil.sleep(5) end
    local fine, err = pcall(f, other, other:newproxy(tostring(orb:newservant(hello, nil, "Hello"))))
    other:shutdown()
    orb:shutdown()
    if not fine then error(err, 0) end
  end)
end

describe("oil.init", function()
  it("refuses what its options can't be", function()
    refused("x is a illegal ORB configuration", oil.init, "x")
    for name, wrong in pairs { tcpoptions = 4, objrefaddr = "host", extraproxies = "fancy", idlpaths = "idl", valuefactories = 5, options = 1,
                               objectmap = 3, keyprefix = 4, localrefs = "foo" } do
      local err = refused(tostring(wrong) .. " is a illegal " .. name, oil.init, { [name] = wrong })
      assert.equal("badinitialize", err.error)
    end
    refused("objrefaddr.additional", oil.init, { objrefaddr = { additional = 4 } })
    refused("port of objrefaddr.additional", oil.init, { objrefaddr = { additional = { { host = "127.0.0.1" } } } })
  end)
end)

describe("an ORB of OiL's", function()
  it("refuses a timeout that is none, and a repository that is none", function()
    with_hello(function(orb, hello)
      refused("x is a illegal timeout", orb.settimeout, orb, "x")
      refused("-1 is a illegal timeout", hello.__settimeout, hello, -1)
      refused("4 is a illegal interface repository", orb.setIR, orb, 4)
      assert.equal("hello, you", hello:say "you")
    end)
  end)
  it("says that an operation is called with a colon", function()
    with_hello(function(_, hello) refused("proxy:operation", hello.say, "you") end)
  end)
  it("says of a future that was given up that it was", function()
    with_hello(function(orb, hello)
      local future = orb:newproxy(hello, "asynchronous"):wait()
      assert.is_true(future:cancel())
      local fine, err = future:results()
      assert.is_false(fine)
      assert.equal("terminated", err.error)
      refused("the call was cancelled", future.evaluate, future)
      assert.is_false(future:cancel())
    end)
  end)
end)
