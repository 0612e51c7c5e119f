--[[
mare.http.router: which handler a request gets, by its method and path.

A router is a plain table with this module as its metatable, so it can be sent, and it can be called, so it is a handler. Its routes are a tree by
segments
of the path: node = { fixed = { [segment] = node }, any = node, rest = { [method] = route }, here = { [method] = route } }; a route is { handler,
names }.
]]
local core = require "mare.http.core"
local errors = require "mare.error"

local router = {}
router.__index = router
router.__name = "router"

local function fail(status, fields)
  error(errors.new { kind = "http", status = status, message = core.phrase(status), fields = fields }, 0)
end

--- A router without routes.
function router.new() return setmetatable({ tree = {}, middle = {} }, router) end

local function child(node, segment)
  if segment:sub(1, 1) == ":" then
    node.any = node.any or {}
    return node.any
  end
  node.fixed = node.fixed or {}
  node.fixed[segment] = node.fixed[segment] or {}
  return node.fixed[segment]
end

local function callable(f) return type(f) == "function" or type(f) == "table" and (getmetatable(f) or {}).__call ~= nil end

--- The handler of what matches: "/users/:id" has request.params.id, "/files/*path" everything that follows.
function router:route(method, pattern, handler)
  if type(method) ~= "string" or type(pattern) ~= "string" or pattern:sub(1, 1) ~= "/" then
    error("router:route: a method and a pattern that begins with '/' expected", 2)
  end
  if not callable(handler) then error(("router:route: a function expected for %s, got %s"):format(pattern, type(handler)), 2) end
  local node, names, place = self.tree, {}, "here"
  for segment, at in pattern:gmatch "/([^/]*)()" do
    if segment:find "^[:*]$" then error(("router:route: a parameter of %s has no name"):format(pattern), 2) end
    if segment:find "^[:*]" then names[#names + 1] = segment:sub(2) end
    if segment:sub(1, 1) == "*" then
      if at <= #pattern then error(("router:route: behind *%s nothing can follow in %s"):format(names[#names], pattern), 2) end
      place = "rest"
    else
      node = child(node, segment)
    end
  end
  node[place] = node[place] or {}
  if node[place][method] then error(("router:route: there is a route for %s %s already"):format(method, pattern), 2) end
  node[place][method] = { handler, names }
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

-- Routes of the node for what is left of the path, the fixed before the others; the values of parameters go into `values` from n on.
local function find(node, path, at, values, n)
  local segment, after = path:match("^/([^/]*)()", at)
  if not segment then
    if node.here then return node.here, n end
    return nil
  end
  local next_node = node.fixed and node.fixed[segment]
  if next_node then
    local routes, count = find(next_node, path, after, values, n)
    if routes then return routes, count end
  end
  if node.any and segment ~= "" then
    values[n + 1] = core.decode(segment)
    local routes, count = find(node.any, path, after, values, n + 1)
    if routes then return routes, count end
  end
  if node.rest then
    values[n + 1] = core.decode(path:sub(at + 1))
    return node.rest, n + 1
  end
end

local function allowed(routes)
  local list = {}
  for method in pairs(routes) do list[#list + 1] = method end
  if routes.GET and not routes.HEAD then list[#list + 1] = "HEAD" end
  table.sort(list)
  return table.concat(list, ", ")
end

local function dispatch(self, request)
  local path, values = request.raw_path, {}
  if path:sub(1, 1) ~= "/" then path = "/" end
  local routes = find(self.tree, path, 1, values, 0)
  if not routes then fail(404) end
  local route = routes[request.method] or request.method == "HEAD" and routes.GET
  if not route then fail(405, { Allow = allowed(routes) }) end
  local params = {}
  for i, name in ipairs(route[2]) do params[name] = values[i] end
  request.params = params
  return route[1](request)
end

local function through(self, i, request)
  local f = self.middle[i]
  if not f then return dispatch(self, request) end
  return f(request, function(given) return through(self, i + 1, given or request) end)
end

function router:__call(request) return through(self, 1, request) end

return router
