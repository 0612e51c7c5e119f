-- The classes of values.idl and samples of them, for mare's client and server: values.lua of both, as animals.h and Animals.java are.
--   local classes = require "spec.orb_peers.values"(broker)        classes.Dog …, classes.make(kind), classes.circle()
return function(broker)
  local all = {}
  for name in ("Node Dog Puppy Cat Bird Stone Poster Odd"):gmatch("%a+") do
    local class = { __name = name }
    class.__index = class
    all[name] = class
    if name ~= "Cat" or broker.repository:lookup "Tide::Cat" then broker:factory("Tide::" .. name, class) end
  end

  -- What others write with DataOutputStream.
  function all.Odd:write(out)
    out:write_long(self.a)
    out:write_string(self.b)
    out:write_value(self.c, "Tide::Node")
    out:write_double(self.a / 2)
  end
  function all.Odd:read(input)
    self.a, self.b, self.c = input:read_long(), input:read_string(), input:read_value "Tide::Node"
    assert(input:read_double() == self.a / 2)
  end

  local function new(class) return function(t) return setmetatable(t, all[class]) end end
  function all.node(n, text, after) return new "Node" { n = n, text = text, next = after, weight = n + 0.5 } end
  function all.circle()
    local b = all.node(2, "two")
    b.next = all.node(1, "one", b)
    return b.next
  end
  function all.is_circle(a)
    return a and a.n == 1 and a.next.n == 2 and a.next.next == a and a.weight == 1.5 and a.next.weight == 2.5 and a.text == "one"
  end
  function all.make(kind)
    if kind == "Dog" then return new "Dog" { name = "Rex", legs = 4, bark = "wow", bone = all.circle() } end
    if kind == "Puppy" then return new "Puppy" { name = "Bo", legs = 4, bark = "wiff", bone = all.circle(), weeks = 7 } end
    if kind == "Bird" then return new "Bird" { name = "Tweety", legs = 2, wings = 2.5 } end
    local bone = all.circle()
    return new "Cat" { name = "Tom", legs = 4, bark = "purr", bone = bone, tail = bone, meow = "meow", bone2 = all.circle() }
  end
  all.new = new
  return all
end
