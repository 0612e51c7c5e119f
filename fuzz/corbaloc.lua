-- corbaloc and corbaname (pure Lua): what can be read becomes a reference; keys and names survive being written and read.
local corbaloc = require "mare.orb.giop.corbaloc"
local corbaname = require "mare.orb.giop.corbaname"
local ior = require "mare.orb.giop.ior"
local security = require "mare.orb.giop.security"

-- Where a profile says that a server listens: its own port, or the one for TLS.
local function leads_to(p, a)
  if a.kind == "iiop" then return p.port == a.port end
  if a.kind == "omniunix" then return p.port == 0 and ior.unix_addresses(p)[1].path == a.path end
  local ways = security.ways(p)
  return a.kind == "ssliop" and p.port == 0 and #ways == 1 and ways[1].host == a.host and ways[1].port == a.port
end

local function check(text)
  local list, err = corbaloc.parse(text)
  if not list then return assert(type(err) == "string" and err ~= "") end
  assert(#list > 0 and type(list.key) == "string")
  if list[1].kind == "rir" then return assert(#list == 1) end
  local t = assert(ior.parse(corbaloc.reference(list)))
  for i, a in ipairs(list) do
    local p = t.profiles[i]
    assert(leads_to(p, a) and p.host == a.host and p.key == list.key and p.minor == a.minor)
    assert(a.host ~= "" and a.port >= 0 and a.port <= 65535)
  end
end

local function check_name(text)
  local context, name = corbaname.parse(text)
  if not context then return assert(type(name) == "string" and name ~= "") end
  assert(context.key ~= "")
  if not name then return end
  local again = assert(corbaname.name(corbaname.text(name)))
  assert(#again == #name and #name > 0)
  for i, c in ipairs(name) do assert(again[i].id == c.id and again[i].kind == c.kind) end
end

return function(data)
  check(data)
  check_name(data)
  check_name("corbaname::h#" .. data)
  check("corbaloc:" .. data)
  assert(corbaloc.parse("corbaloc::h/" .. corbaloc.escape(data)).key == data)
end
