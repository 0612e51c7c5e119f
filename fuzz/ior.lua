-- References (pure Lua): as text and as bytes; what can be read must survive being made anew, and be shown by mare ior.
local bidir = require "mare.orb.giop.bidir"
local gssup = require "mare.orb.giop.gssup"
local ior = require "mare.orb.giop.ior"
local security = require "mare.orb.giop.security"

local out = { write = function() return true end }
io = { stdout = out, stderr = out, lines = function() return function() end end, open = function() return nil, "no files here" end }   -- luacheck: ignore
local show = require "mare.cli.ior"

local function check(canonical)
  local t = assert(ior.parse(canonical))
  assert(ior.make(t) == canonical, "made anew it is another one")
  assert(ior.canonical(canonical) == canonical, "the canonical form of a canonical one is another one")
  for _, profile in ipairs(t.profiles) do
    assert(not (profile.host and profile.error))
    for _, a in ipairs(ior.addresses(profile)) do assert(type(a.host) == "string" and a.port >= 0 and a.port <= 65535) end
    for _, way in ipairs(profile.host and security.ways(profile) or {}) do
      assert(type(way.host) == "string" and way.port > 0 and way.port <= 65535)
    end
    for _, c in ipairs(profile.components or {}) do
      local value, err = ior.component(c[1], c[2])
      assert(value ~= nil or err == nil or type(err) == "string")
    end
    if profile.host then
      local copy = { tag = 0, minor = profile.minor, host = profile.host, port = profile.port, key = profile.key, components = profile.components }
      local other = ior.parse(ior.make { type_id = t.type_id, profiles = { copy } }).profiles[1]
      assert(other.host == profile.host and other.port == profile.port and other.key == profile.key and #other.components == #profile.components)
    end
  end
  local text = ior.stringify(canonical)
  assert(ior.destring(text) == canonical)
  if #canonical % 8 == 0 then show(text) else show("--json", text) end
end

-- What says who sends a request.
local function check_user(data)
  local t, err = gssup.read(data)
  if not t then return assert(type(err) == "string") end
  assert(math.type(t.id) == "integer")
  if t.user and t.id == 0 and #data < 1000 then
    local again = gssup.read(gssup.establish(t.user, t.password, t.target))
    assert(again.user == t.user and again.password == t.password and again.target == t.target)
  end
end

-- What says where somebody serves who offers his connection.
local function check_points(data)
  local list, err = bidir.read(data)
  if not list then return assert(type(err) == "string") end
  assert(#list <= bidir.MOST)
  local again = bidir.read(bidir.make(list))
  assert(#again == #list)
  for i, p in ipairs(list) do assert(p[1] ~= "" and again[i][1] == p[1] and again[i][2] == p[2]) end
end

return function(data)
  check_user(data)
  check_points(data)
  local canonical, err = ior.canonical(data)
  if canonical then check(canonical) else assert(type(err) == "string") end
  canonical, err = ior.destring(data)
  if canonical then check(canonical) else assert(type(err) == "string") end
  if data:find "^%x%x%x%x" then
    canonical, err = ior.destring("IOR:" .. data)
    if canonical then check(canonical) else assert(type(err) == "string") end
  end
end
