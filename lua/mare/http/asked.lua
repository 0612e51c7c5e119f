--[[
mare.http.asked: what a program asks for, looked at and put into the words of src/module/curl.c: URLs, fields, bodies, options of a request and of a
client.

What a program writes wrong is raised, with the line of the program; a URL that is none may have come from outside, so that is a result.
]]
local core = require "mare.http.curl"
local request = require "mare.control.request"

local asked = {}

local function seconds(n) if type(n) ~= "number" or n ~= n or n <= 0 then return "a number of seconds, more than 0" end end
local function count(n) if math.type(n) ~= "integer" or n < 1 then return "a whole number from 1 on" end end
local function most(n) if type(n) ~= "number" or n ~= n or n < 0 then return "a number, at least 0" end end
local function some(n) if n ~= false and (math.type(n) ~= "integer" or n < 0) then return "a whole number, or false" end end
local function where(v) if v ~= false and type(v) ~= "string" then return "a URL, or false" end end
local function version(v) if v ~= "1.1" and v ~= "2" then return '"1.1" or "2"' end end
local function text_or_table(v) if type(v) ~= "string" and type(v) ~= "table" then return "a table or a string" end end
local function any() end

-- What a client has once for all its requests, each of which may say something else.
local BOTH = { headers = "table", auth = "table", bearer = "string", proxy = where, no_proxy = "string", unix = "string", tls = "table",
               timeout = seconds, connect_timeout = seconds, idle_timeout = seconds, redirects = some, body_bytes = most, decompress = "boolean",
               version = version }
local REQUEST = { url = "string", method = "string", body = any, json = any, form = "table", query = text_or_table, length = most,
                  stream = "boolean" }
local CLIENT = { base = "string", cookies = "boolean", per_host = count, connections = count, kept = count }
local TLS = { ca = "string", cert = "string", key = "string", verify = "boolean" }
for name, check in pairs(BOTH) do REQUEST[name], CLIENT[name] = check, check end

function asked.check_request(options, who) request.check(options, REQUEST, who) end
function asked.check_client(options) request.check(options, CLIENT, "http.client") end

-- ---- URLs ----

--- Without name and password, for messages.
function asked.plain(url) return (url:gsub("^([%a][%w+.-]*://)[^/?#]*@", "%1", 1)) end

local function escape(text) return (text:gsub("[^%w%-._~]", function(c) return ("%%%02X"):format(c:byte()) end)) end

--- { a = 1, b = { 2, 3 } } -> "a=1&b=2&b=3", in order of the names.
function asked.form(values, who)
  local names, parts = {}, {}
  for name in pairs(values) do
    if type(name) ~= "string" then request.fail("%s: names are strings, not %s", who, type(name)) end
    names[#names + 1] = name
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local value = values[name]
    for _, v in ipairs(type(value) == "table" and value or { value }) do
      if type(v) == "table" or type(v) == "function" then request.fail("%s: '%s' is a %s", who, name, type(v)) end
      parts[#parts + 1] = escape(name) .. "=" .. escape(tostring(v))
    end
  end
  return table.concat(parts, "&")
end

local function with_query(url, query)
  if not query then return url end
  local text = type(query) == "table" and asked.form(query, "query") or query
  if text == "" then return url end
  local before, fragment = url:match "^([^#]*)(.*)$"
  return before .. (before:find("?", 1, true) and "&" or "?") .. text .. fragment
end

--- -> { url =, origin = } | nil, message, code
function asked.url(text, base, query)
  if text:find "[%z\r\n]" then return nil, "no URL: a control character is in it", "EINVAL" end
  local url, scheme, host, port = core.url(with_query(text, query), base)
  if not url then return nil, asked.plain(text) .. ": " .. scheme, "EINVAL" end
  if scheme ~= "http" and scheme ~= "https" then return nil, asked.plain(text) .. ": neither http:// nor https://", "EINVAL" end
  return { url = url, origin = ("%s://%s:%s"):format(scheme, host:lower(), port) }
end

-- ---- fields ----

local function line(name, value)
  if type(name) ~= "string" or not name:find "^[%w!#$%%&'*+%-.^_`|~]+$" then request.fail("headers: '%s' is no name of a field", tostring(name)) end
  if value == false then return name .. ":" end
  if type(value) ~= "string" and type(value) ~= "number" then
    request.fail("headers: '%s' is a %s; it may be a string, a number, a list of them, or false", name, type(value))
  end
  value = tostring(value)
  if value:find "[%z\r\n]" then request.fail("headers: '%s' has a line's end or a zero byte in its value", name) end
  return value:find "^%s*$" and name .. ";" or name .. ": " .. value
end

-- To `list` what a table says: pairs { name, value } in their order, then names. A client's fields are left out where a request has its own.
local function add_fields(list, seen, given)
  local new = {}
  local function add(name, value)
    local key = type(name) == "string" and name:lower() or name
    if seen[key] then return end
    new[key] = true
    for _, v in ipairs(type(value) == "table" and value or { value }) do list[#list + 1] = { key, line(name, v) } end
  end
  for i, pair in ipairs(given) do
    if type(pair) ~= "table" then request.fail("headers: number %d is a %s, not a pair { name, value }", i, type(pair)) end
    add(pair[1], pair[2])
  end
  local names = {}
  for name in pairs(given) do
    if math.type(name) ~= "integer" then names[#names + 1] = name end
  end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for _, name in ipairs(names) do add(name, given[name]) end
  for key in pairs(new) do seen[key] = true end
end

local function unless(list, seen, name, value)
  if not seen[name:lower()] then list[#list + 1] = { name:lower(), value and name .. ": " .. value or name .. ":" } end
end

-- -> list of { name in lower case, line }
local function fields_of(options, usual, kind)
  local list, seen = {}, {}
  if options.headers then add_fields(list, seen, options.headers) end
  if usual.headers then add_fields(list, seen, usual.headers) end
  local bearer = options.bearer or not options.auth and usual.bearer
  if bearer then
    if bearer:find "[%z\r\n]" then request.fail "bearer: a line's end or a zero byte is in it" end
    unless(list, seen, "Authorization", "Bearer " .. bearer)
  end
  unless(list, seen, "Content-Type", kind)
  unless(list, seen, "User-Agent", "mare")
  unless(list, seen, "Expect")                   -- libcurl would wait a second for servers that don't know it
  return list
end

-- ---- bodies ----

-- -> string | length, function; type of the content
local function body_of(options)
  local given = (options.body ~= nil and 1 or 0) + (options.json ~= nil and 1 or 0) + (options.form and 1 or 0)
  if given > 1 then request.fail "a request has one of the options body, json and form" end
  if options.json ~= nil then return require "mare.json".encode(options.json), nil, "application/json" end
  if options.form then return asked.form(options.form, "form"), nil, "application/x-www-form-urlencoded" end
  local body = options.body
  local kind = type(body)
  if body == nil or kind == "string" then return body end
  if kind == "function" then return options.length and math.tointeger(options.length) or -1, body end
  if kind == "userdata" and require "mare.buffer".is(body) then return tostring(body) end
  request.fail("body: a string, a buffer or a function that returns them expected, got %s", kind)
end

-- ---- all of it ----

local function milliseconds(s) return s and s < 2000000 and math.max(1, math.ceil(s * 1000)) or nil end

local function pick(options, usual, name)
  local v = options[name]
  if v == nil then v = usual[name] end
  return v
end

local function set_tls(to, tls)
  request.check(tls, TLS, "tls")
  to.ca, to.cert, to.key = tls.ca, tls.cert, tls.key or tls.cert
  if tls.verify == false then to.verify, to.verify_host = 0, 0 end
end

local function set_auth(to, auth)
  local user, password = auth.user or auth[1], auth.password or auth[2]
  if type(user) ~= "string" or type(password) ~= "string" then request.fail "auth: { user, password } expected" end
  to.user, to.password = user, password
end

--- What one request is, whatever becomes of its URL: { method =, body =, produce =, fields =, set = options for the core, total =, idle =, most =,
--- redirects = }
function asked.request(method, options, usual)
  if not method:find "^[%w!#$%%&'*+%-.^_`|~]+$" then request.fail("'%s' is no method", method) end
  local body, produce, kind = body_of(options)
  local set = { connect = milliseconds(pick(options, usual, "connect_timeout") or 30) }
  local proxy, wanted = pick(options, usual, "proxy"), pick(options, usual, "version")
  if proxy ~= nil then set.proxy = proxy or "" end
  set.no_proxy, set.path = pick(options, usual, "no_proxy"), pick(options, usual, "unix")
  set.version = wanted == "1.1" and 1 or wanted == "2" and 2 or 0
  if pick(options, usual, "decompress") ~= false then set.encodings = "" end
  local tls = pick(options, usual, "tls")
  if tls then set_tls(set, tls) end
  local auth = options.auth or not options.bearer and usual.auth
  if auth then set_auth(set, auth) end
  return { method = method, body = body, produce = produce, fields = fields_of(options, usual, kind), set = set,
           total = pick(options, usual, "timeout"), idle = pick(options, usual, "idle_timeout") or 60,
           most = pick(options, usual, "body_bytes") or 64 << 20, redirects = pick(options, usual, "redirects") }
end

-- ---- redirects ----

local PRIVATE = { authorization = true, cookie = true, ["proxy-authorization"] = true }

--- A client's options for a server that is not its own.
function asked.without_secrets(usual)
  local copy, headers = {}, {}
  for name, value in pairs(usual) do copy[name] = value end
  for key, value in pairs(usual.headers or {}) do
    local in_list = math.type(key) == "integer"            -- a pair { name, value }
    local name = in_list and type(value) == "table" and value[1] or key
    if not PRIVATE[tostring(name):lower()] then headers[in_list and #headers + 1 or key] = value end
  end
  copy.auth, copy.bearer, copy.headers = nil, nil, headers
  return copy
end

-- Leaves out fields of those names.
local function without(fields, names)
  local list = {}
  for _, f in ipairs(fields) do
    if not names[f[1]] then list[#list + 1] = f end
  end
  return list
end

local OF_BODY = { ["content-type"] = true, ["content-length"] = true, ["content-encoding"] = true, ["transfer-encoding"] = true }

--- Changes a request into the one that a redirect with that status asks for. Another server gets no secrets. nil, message: it can't be made.
function asked.redirect(r, status, stays)
  if (status == 303 and r.method ~= "HEAD" and r.method ~= "GET") or ((status == 301 or status == 302) and r.method == "POST") then
    r.method, r.body, r.produce = "GET", nil, nil
    r.fields = without(r.fields, OF_BODY)
    r.fields[#r.fields + 1] = { "content-type", "Content-Type:" }
  elseif r.produce then
    return nil, "the request was redirected, and its body's function can't begin again"
  end
  if not stays then
    r.fields = without(r.fields, PRIVATE)
    r.set.user, r.set.password = nil, nil
  end
  return true
end

return asked
