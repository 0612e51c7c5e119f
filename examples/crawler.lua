-- A crawler: follows the links of a site with so many requests beside each other, and counts what it finds.
--   mare run examples/crawler.lua URL [REQUESTS]       goes through a site
--   mare run examples/crawler.lua --demo               through one of its own, of 200 pages
-- test: --demo
-- expect: 200 pages, 26519 bytes, 1 broken link
--
-- Fibers of one process take addresses from a queue and put those that they find into it. The crawl is over when all that were found are done.
local mare = require "mare"
local http = require "mare.http"
local fiber, channel = mare.fiber, mare.channel

local LONGEST = 1 << 20                          -- bytes of a page

local function links(page)
  return page:gmatch 'href="([^"#]+)'
end

-- crawl(start, requests) -> { pages =, bytes =, broken = }
local function crawl(start, requests)
  local client <close> = assert(http.client { base = start, per_host = requests, timeout = 30, body_bytes = LONGEST, cookies = false })
  local site = start:match "^%a+://[^/]+"
  local queue, seen = channel.new(math.huge), {}
  local found = { pages = 0, bytes = 0, broken = 0 }
  local open = 0                                 -- addresses that were found and are not done

  local function add(url)
    if url:sub(1, 1) == "/" then url = site .. url end
    if seen[url] or url:sub(1, #site + 1) ~= site .. "/" then return end
    seen[url] = true
    open = open + 1
    queue:send(url)
  end

  local function visit(url)
    local answer = client:get(url)
    if not answer or not answer.ok then
      found.broken = found.broken + 1
      return
    end
    found.pages, found.bytes = found.pages + 1, found.bytes + #answer.body
    if (answer.headers["content-type"] or ""):find "^text/html" then
      for link in links(answer.body) do add(link) end
    end
  end

  add(start)
  local crew = {}
  for i = 1, requests do
    crew[i] = fiber.spawn(function()
      for url in queue:each() do
        visit(url)
        open = open - 1
        if open == 0 then queue:close() end      -- nobody is left who could find more
      end
    end)
  end
  for _, one in ipairs(crew) do
    local ok, err = one:wait()
    if not ok then error(err, 0) end
  end
  return found
end

-- A site: a page for each number, which links to the two behind it in a tree, and one link that leads nowhere.
local function site()
  return assert(http.serve("127.0.0.1:0", function(request)
    local n = math.tointeger(tonumber(request.path:match "^/(%d*)$" == "" and 1 or request.path:sub(2)))
    if not n or n > 200 then http.fail(404) end
    local page = { "<!DOCTYPE html><title>Page ", n, "</title>" }
    for child = 2 * n, 2 * n + 1 do
      if child <= 200 then page[#page + 1] = ('<a href="/%d">on to page %d</a>'):format(child, child) end
    end
    if n == 200 then page[#page + 1] = '<a href="/nowhere">gone</a> <a href="https://example.org/">elsewhere</a>' end
    page[#page + 1] = '<a href="/1#top">up</a>' .. (" "):rep(40)
    return table.concat(page), { ["Content-Type"] = "text/html" }
  end))
end

local start, requests = arg and arg[1] or "--demo", arg and tonumber(arg[2]) or 8
local server
if start == "--demo" then
  server = site()
  start = ("http://%s:%d/1"):format(server:address())
end
local found = crawl(start, requests)
print(("%d pages, %d bytes, %d broken link%s"):format(found.pages, found.bytes, found.broken, found.broken == 1 and "" or "s"))
if server then server:stop() end
