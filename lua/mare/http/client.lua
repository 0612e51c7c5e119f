--[[
mare.http.client: requests to servers, by libcurl. The functions of this module are mare.http's; it is there without llhttp, too.

A client is { usual = its options, core =, transfers =, driver =, … } (mare.http.transfer). The functions http.get and the like use one of their own,
which keeps no cookies and is made at the first request. Redirects are followed here rather than by libcurl: so what a method and a body become, and
that another server gets no secrets, is the same whatever version of it there is.
]]
local mare = require "mare"
local core = require "mare.http.curl"
local asked = require "mare.http.asked"
local response = require "mare.http.response"
local transfer = require "mare.http.transfer"
local request = require "mare.control.request"

local http = {}

local Client = {}
Client.__index = Client
Client.__name = "http client"

local REDIRECTS = 10
local DRAINED = 65536                          -- a redirect's body that is read, for the sake of its connection

-- A request to that place; it has until the deadline, nil: as long as it takes.
local function begin(client, r, place, deadline)
  local options, lines = {}, {}
  for name, value in pairs(r.set) do options[name] = value end
  options.url = place.url
  if r.method == "HEAD" then options.nobody = 1 elseif not (r.method == "GET" and r.body == nil) then options.method = r.method end
  if deadline then options.total = math.max(1, math.ceil((deadline - mare.clock()) * 1000)) end
  for i, f in ipairs(r.fields) do lines[i] = f[2] end
  local body = r.body
  if body == nil and (r.method == "POST" or r.method == "PUT" or r.method == "PATCH") then body = "" end    -- so its length is told
  return transfer.begin(client, options, lines, body, r.produce, r.idle)
end

local function failed(place, message, code)
  if message == "timeout" and not code then return nil, message end
  return nil, asked.plain(place.url) .. ": " .. message, code
end

-- Where an answer sends us; nil: nowhere.
local function target(answer, r, count)
  local location = answer.headers.location
  local limit = r.redirects == nil and REDIRECTS or r.redirects
  local status = answer.status
  if not location or location == "" or not limit or limit == 0 then return nil end
  if status ~= 301 and status ~= 302 and status ~= 303 and status ~= 307 and status ~= 308 then return nil end
  if count >= limit then return nil, ("more than %d redirects"):format(limit), "ELOOP" end
  return location
end

local function go_to(answer, r, place, location)
  local next_place, why = asked.url(location, place.url)
  if not next_place then return nil, "it redirects to " .. why, "EPROTO" end
  local ok, problem = asked.redirect(r, answer.status, next_place.origin == place.origin)
  if not ok then return nil, problem, "EPROTO" end
  answer:all(DRAINED)
  return next_place
end

-- One request and those that it is redirected to, until one has an answer.
local function exchange(client, r, place)
  local deadline = r.total and r.total < math.huge and mare.clock() + r.total or nil
  for count = 0, math.huge do
    local t = begin(client, r, place, deadline)
    local kept = false
    local _ <close> = setmetatable({}, { __close = function() if not kept then t:close() end end })
    local head, message, code = t:head()
    if not head then return failed(place, message, code) end
    local answer = response.new(t, head, { url = asked.plain(place.url), method = r.method, redirects = count, most = r.most })
    local location, why, name = target(answer, r, count)
    if why then return failed(place, why, name) end
    if not location then
      kept = true
      return answer
    end
    local next_place
    next_place, message, code = go_to(answer, r, place, location)
    if not next_place then return failed(place, message, code) end
    place = next_place
  end
end

local function perform(client, method, url, options)
  if client.closing then request.fail "the client is closed" end
  local usual = client.usual
  local place, message, code = asked.url(url, usual.base, options.query)
  if place and usual.base and place.origin ~= client.origin then usual = asked.without_secrets(usual) end
  local r = asked.request(method, options, usual)
  if not place then return nil, message, code end
  local answer
  answer, message, code = exchange(client, r, place)
  if not answer then return nil, message, code end
  if options.stream then return answer end
  local _ <close> = answer
  answer.body, message, code = answer:all()
  if not answer.body then return nil, message, code end
  return answer
end

-- http.get(…) and client:get(…) are told apart by who calls them.
local function call(client, who, method, url, options)
  if type(url) ~= "string" then request.fail("%s: a URL expected, got %s", who, type(url)) end
  options = options or {}
  if type(options) ~= "table" then request.fail("%s: a table of options expected, got %s", who, type(options)) end
  asked.check_request(options, who)
  return perform(client, method, url, options)
end

local function from_table(client, who, options)
  if type(options) ~= "table" then request.fail("%s: a table with the field url expected, got %s", who, type(options)) end
  return call(client, who, options.method or "GET", options.url, options)
end

-- ---- clients ----

--- A client of its own: connections, cookies, and options for all its requests.
function http.client(options)
  options = options or {}
  asked.check_client(options)
  local self = { usual = options, transfers = setmetatable({}, { __mode = "v" }) }
  if options.base then
    local place, message, code = asked.url(options.base)
    if not place then return nil, message, code end
    self.origin = place.origin
  end
  local message, code
  self.core, message, code = core.open { per_host = options.per_host, total = options.connections, kept = options.kept,
                                         cookies = options.cookies ~= false }
  if not self.core then return nil, message, code end
  return setmetatable(self, Client)
end

local own

local function shared()
  if own then return own end
  local client, message = http.client { cookies = false }
  if not client then error("mare.http: " .. message, 0) end
  own = client
  return own
end

for name, method in pairs { get = "GET", head = "HEAD", post = "POST", put = "PUT", patch = "PATCH", delete = "DELETE", options = "OPTIONS" } do
  http[name] = function(url, options) return call(shared(), "http." .. name, method, url, options) end
  Client[name] = function(self, url, options) return call(self, "client:" .. name, method, url, options) end
end

--- http.request{ url =, method =, … }
function http.request(options) return from_table(shared(), "http.request", options) end
function Client:request(options) return from_table(self, "client:request", options) end

local NAMES = { "domain", "subdomains", "path", "secure", "expires", "name", "value" }

--- The cookies that it has: a list of { name =, value =, domain =, path =, secure =, http_only =, subdomains =, expires = }
function Client:cookies()
  local list = {}
  for text in core.cookies(self.core):gmatch "[^\n]+" do
    local cookie, i = { http_only = text:find "^#HttpOnly_" ~= nil }, 0
    for field in (text:gsub("^#HttpOnly_", "") .. "\t"):gmatch "([^\t]*)\t" do
      i = i + 1
      if NAMES[i] then cookie[NAMES[i]] = field end
    end
    cookie.secure, cookie.subdomains = cookie.secure == "TRUE", cookie.subdomains == "TRUE"
    cookie.expires = tonumber(cookie.expires)
    if cookie.expires == 0 then cookie.expires = nil end
    list[#list + 1] = cookie
  end
  return list
end

--- Ends its requests and closes its connections.
function Client:close() transfer.close_all(self) end

Client.__close = Client.close

return http
