-- corbaloc (pure Lua): what can be read becomes a reference; keys survive being written and read.
local corbaloc = require "mare.orb.giop.corbaloc"
local ior = require "mare.orb.giop.ior"

local function check(text)
  local list, err = corbaloc.parse(text)
  if not list then return assert(type(err) == "string" and err ~= "") end
  assert(#list > 0 and type(list.key) == "string")
  if list[1].kind == "rir" then return assert(#list == 1) end
  local t = assert(ior.parse(corbaloc.reference(list)))
  for i, a in ipairs(list) do
    local p = t.profiles[i]
    assert(a.kind == "iiop" and p.host == a.host and p.port == a.port and p.key == list.key and p.minor == a.minor)
    assert(a.host ~= "" and a.port >= 0 and a.port <= 65535)
  end
end

return function(data)
  check(data)
  check("corbaloc:" .. data)
  assert(corbaloc.parse("corbaloc::h/" .. corbaloc.escape(data)).key == data)
end
