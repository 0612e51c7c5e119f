--[[
mare.http.router: which handler a request gets, by its method and path.

A router is a plain table with this module as its metatable, so it can be sent, and it can be called, so it is a handler. Its routes are a tree by
segments of the path, which core.find searches: a node is a list, with false for what it has not, of the routes that end here, the nodes below by
their
segments, the node below a parameter, and the routes that take all that is left. Routes are { [method] = { handler, names } }. `plain` has those of
paths without parameters by the whole path: they go before all others.
]]
local core = require "mare.http.core"
local errors = require "mare.error"

local find, select = core.find, select
local HERE, FIXED, ANY, REST = 1, 2, 3, 4

local router = {}
router.__index = router
router.__name = "router"

local function fail(status, fields)
  error(errors.new { kind = "http", status = status, message = core.phrase(status), fields = fields }, 0)
end

--- A router without routes.
function router.new() return setmetatable({ tree = { false, false, false, false }, plain = {}, middle = {} }, router) end

local function child(node, segment)
  if segment:sub(1, 1) == ":" then
    node[ANY] = node[ANY] or { false, false, false, false }
    return node[ANY]
  end
  node[FIXED] = node[FIXED] or {}
  node[FIXED][segment] = node[FIXED][segment] or { false, false, false, false }
  return node[FIXED][segment]
end

local function callable(f) return type(f) == "function" or type(f) == "table" and (getmetatable(f) or {}).__call ~= nil end

--- The handler of what matches: "/users/:id" has request.params.id, "/files/*path" everything that follows.
function router:route(method, pattern, handler)
  if type(method) ~= "string" or type(pattern) ~= "string" or pattern:sub(1, 1) ~= "/" then
    error("router:route: a method and a pattern that begins with '/' expected", 2)
  end
  if not callable(handler) then error(("router:route: a function expected for %s, got %s"):format(pattern, type(handler)), 2) end
  local node, names, place = self.tree, {}, HERE
  for segment, at in pattern:gmatch "/([^/]*)()" do
    if segment:find "^[:*]$" then error(("router:route: a parameter of %s has no name"):format(pattern), 2) end
    if segment:find "^[:*]" then names[#names + 1] = segment:sub(2) end
    if segment:sub(1, 1) == "*" then
      if at <= #pattern then error(("router:route: behind *%s nothing can follow in %s"):format(names[#names], pattern), 2) end
      place = REST
    else
      node = child(node, segment)
    end
  end
  node[place] = node[place] or {}
  if node[place][method] then error(("router:route: there is a route for %s %s already"):format(method, pattern), 2) end
  node[place][method] = { handler, names }
  if #names == 0 then self.plain[pattern] = node[place] end
  return self
end

for _, method in ipairs { "get", "post", "put", "patch", "delete" } do
  router[method] = function(self, pattern, handler) return self:route(method:upper(), pattern, handler) end
end

--- A function (request, next) that is called before every handler; it returns what next(request) gives, or an answer of its own.
function router:use(f)
  if not callable(f) then error("router:use: a function expected, got " .. type(f), 2) end
  self.middle[#self.middle + 1] = f
  return self
end

local function allowed(routes)
  local list = {}
  for method in pairs(routes) do list[#list + 1] = method end
  if routes.GET and not routes.HEAD then list[#list + 1] = "HEAD" end
  table.sort(list)
  return table.concat(list, ", ")
end

local function serve(request, routes, ...)
  if not routes then fail(404) end
  local method = request.method
  local route = routes[method] or method == "HEAD" and routes.GET
  if not route then fail(405, { Allow = allowed(routes) }) end
  local names, params = route[2], {}
  local first = names[1]
  if first then
    params[first] = ...
    for i = 2, #names do params[names[i]] = select(i, ...) end
  end
  request.params = params
  return route[1](request)
end

local function dispatch(self, request)
  local path = request.raw_path
  local routes = self.plain[path]
  if routes then return serve(request, routes) end
  return serve(request, find(self.tree, path))
end

local function through(self, i, request)
  local f = self.middle[i]
  if not f then return dispatch(self, request) end
  return f(request, function(given) return through(self, i + 1, given or request) end)
end

function router:__call(request)
  if self.middle[1] then return through(self, 1, request) end
  return dispatch(self, request)
end

return router
