-- mare top --web: who gets in, what is told, a profile, many processes, the end; and the page in a browser.
-- runs under: mare
-- needs: plain
-- needs: llhttp
local mare = require "mare"
local browser = require "spec.support.browser"
local json = require "mare.base.json"
local proc = require "spec.support.proc"
local watched = require "spec.support.watched"

local LIMIT = watched.limit

local program = [[
  local jobs, done = mare.channel.named "jobs", mare.channel.named "done"
  local function work(jobs, done) while true do done:send(jobs:receive() + 1) end end
  process.spawn { name = "spinner", main = function()
    local function burn() local s = 0 for i = 1, 1e6 do s = s + i % 7 end return s end
    while true do local n = burn() end
  end }
  for i = 1, 3 do process.spawn { name = "worker " .. i, main = work, args = { jobs, done } } end
  process.spawn { name = "collector", main = function(done) while true do done:receive() end end, args = { done } }
  for i = 1, 5 do process.spawn(function() require "mare".sleep(1e6) end) end
  pcall(process.spawn, { name = "faulty", main = function() local function deep() error "oh <b>no</b>" end deep() end })
  collectgarbage() collectgarbage()
  print "ready"
  while true do jobs:send(1) end
]]

-- `mare top --web` of a program: { address =, port =, path = }, to be closed.
local function serve(pid, ...)
  local words = { "sh", "-c", 'echo ready; exec "$@"', "sh", proc.bin, "top", "--web", tostring(pid), ... }
  local w = watched.command(words, { stderr = "pipe" })
  w.address = assert(w:line())
  w.port, w.path = w.address:match "^http://127%.0%.0%.1:(%d+)(/[%w_-]+/)$"
  assert(w.port, w.address)
  return w
end

local function connect(w) return assert(mare.net.connect("127.0.0.1:" .. w.port, { timeout = LIMIT })) end

-- Status, head and body of one answer.
local function ask(w, first, host, body)
  local conn <close> = connect(w)
  conn:write(("%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"):format(first, host or "127.0.0.1:" .. w.port))
  local head = assert(conn:read_until("\r\n\r\n", 65536, LIMIT))
  return tonumber(head:match "^HTTP/1%.1 (%d+)"), head, body ~= false and conn:read("a", LIMIT) or ""
end

-- Events of the stream: a function that gives the next one's name and its data.
local function events(w, sort)
  local conn = connect(w)
  conn:write(("GET %sevents?sort=%s HTTP/1.0\r\nHost: localhost\r\n\r\n"):format(w.path, sort or "cpu"))
  assert.matches("^HTTP/1.1 200", assert(conn:read_until("\r\n\r\n", 65536, LIMIT)))
  return function()
    local text = assert(conn:read_until("\n\n", 64 << 20, LIMIT))
    local name, data = text:match "^event: (%a+)\ndata: (.*)$"
    return name, assert(json.read(data))
  end, conn
end

-- The first look of which f is true.
local function look_that(next_event, f)
  local limit = mare.clock() + LIMIT
  repeat
    local name, look = next_event()
    if name == "look" and f(look) then return look end
  until mare.clock() > limit
  error("no such look", 2)
end

local function find(list, field, value)
  for _, x in ipairs(list) do
    if x[field] == value then return x end
  end
end

describe("mare top --web", function()
  it("serves who has the token, by a name of this machine, and nobody else", function()
    local w <close> = watched.start({ "--observe" }, "print 'ready' mare.sleep(1e6)")
    local web <close> = serve(w.pid)
    local status, head, body = ask(web, "GET " .. web.path)
    assert.equal(200, status)
    local policy = head:match "Content%-Security%-Policy: ([^\r]+)"
    assert.matches("^default%-src 'none'; script%-src 'nonce%-", policy)
    assert.is_nil(policy:find "http")
    assert.is_nil(head:lower():find "set%-cookie")
    assert.is_nil(body:find "src=")
    local wrong = web.path:gsub("%w", function(c) return c == "a" and "b" or "a" end, 1)
    local short, long = web.path:sub(1, -3) .. "/", web.path:sub(1, -2) .. "x/"
    for _, path in ipairs { "/", "/favicon.ico", "/events", wrong, wrong .. "events", short, long, "//" } do
      assert.equal(403, (ask(web, "GET " .. path)), path)
    end
    for _, host in ipairs { "evil.example", "evil.example:" .. web.port, "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1" } do
      assert.equal(403, (ask(web, "GET " .. web.path, host)), host)
    end
    for _, host in ipairs { "localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:99" } do assert.equal(200, (ask(web, "GET " .. web.path, host)), host) end
    for request, expected in pairs { ["GET %snothing"] = 404, ["POST %s"] = 405, ["GET %sprofile"] = 405, ["POST %sprofile?seconds=99"] = 400,
      ["GET %sevents?sort=colour"] = 400, ["GET %sprocess?id=x"] = 400, ["GET %sprocess?id=77"] = 404 } do
      assert.equal(expected, (ask(web, request:format(web.path))), request)
    end
    status, head = ask(web, "GET " .. web.path:sub(1, -2))
    assert.equal(308, status)
    assert.is_truthy(head:find("\r\nLocation: " .. web.path .. "\r\n", 1, true))
  end)

  it("tells what a known program does, and profiles it, and tells its end", function()
    local w <close> = watched.start({ "--observe", "-w", "2" }, program, { stderr = "null" })
    local web <close> = serve(w.pid, "--interval", "0.2")
    local next_event, conn = events(web, "id")
    local name, past = next_event()
    assert.equal("past", name)
    assert.equal(w.pid, past.program.pid)
    local look = look_that(next_event, function(l)
      local unnamed = find(l.groups, "parent", 1)
      return #l.failures == 1 and unnamed and unnamed.at and find(l.talk, "on", "channel 'done'") and find(l.talk, "on", "channel 'jobs'")
    end)
    assert.equal("id", look.sort)
    assert.equal(2, #look.workers)
    assert.same({ 3, "worker 1" }, { find(look.groups, "name", "worker #").count, look.processes[3].name })
    assert.equal(5, find(look.groups, "parent", 1).count)
    assert.matches(":%d+$", find(look.groups, "parent", 1).at)
    assert.matches("faulty.-oh <b>no</b>.-stack traceback.-deep", look.failures[1].text)
    for _, t in ipairs(look.talk) do
      if t.on == "channel 'jobs'" then assert.same({ "main", "worker" }, { t.from.kind, t.to.name:match "^%a+" }) end
      if t.on == "channel 'done'" then assert.same({ "worker", "collector" }, { t.from.name:match "^%a+", t.to.name }) end
    end
    assert.is_true(look.point.messages > 0 and look.point.heap > 0 and look.point.live >= 9)
    assert.equal(2, #look.channels)

    local status, _, body = ask(web, ("GET %sprocess?id=%d"):format(web.path, find(look.processes, "name", "worker 2").id))
    assert.equal(200, status)
    assert.matches("worker 2.*in function", json.read(body).traceback)

    status, _, body = ask(web, ("POST %sprofile?seconds=0.5"):format(web.path))
    assert.equal(200, status, body)
    local profile = assert(json.read(body))
    assert.is_true(profile.total > 0 and profile.seconds >= 0.5)
    local burnt, roots, spinner = 0, 0, 0
    for _, n in ipairs(profile.nodes) do
      if n[1] == 0 then roots = roots + n[5] end
      if n[2] == "process 'spinner'" then spinner = n[5] end
      if n[2]:find "^burn " then burnt = burnt + n[4] end
      assert.is_true(n[5] >= n[4] and n[1] < #profile.nodes)
    end
    assert.is_true(math.abs(roots - profile.total) <= profile.total / 50 + #profile.nodes)
    assert.is_true(spinner > 0 and burnt > spinner / 2, body)

    w:kill "KILL"
    repeat name, past = next_event() until name ~= "look"
    assert.equal("over", name)
    assert.is_string(past.why)
    conn:close()
    assert.equal(1, web:ends().code)
    assert.matches("^mare top: process %d+: it has ended", web.child.stderr:read("a", LIMIT))
  end)

  it("stays small with 20,000 processes", function()
    local w <close> = watched.start({ "--observe", "-w", "2" }, [[
      local never = mare.channel.new()
      local function wait(c) c:receive() end
      for i = 1, 10000 do process.spawn(wait, never) end
      for i = 1, 9000 do process.spawn { name = "crowd " .. i, main = wait, args = { never } } end
      for i = 1, 1000 do
        local kind = string.rep("x", i % 50) .. string.char(97 + i % 26, 97 + i % 25, 97 + i % 24)
        process.spawn { name = "kind " .. kind, main = wait, args = { never } }
      end
      print "ready"
      mare.sleep(1e6)
    ]])
    local web <close> = serve(w.pid, "--limit", "30")
    local next_event = events(web)
    local look = look_that(next_event, function(l) return l.count == 20001 end)
    assert.equal(30, #look.processes)
    assert.is_true(#look.groups <= 40)
    assert.same({ 10000, 9000 }, { look.groups[1].count, look.groups[2].count })
    assert.equal("crowd #", look.groups[2].name)
    local all = look.rest.count
    for _, g in ipairs(look.groups) do all = all + g.count end
    assert.equal(20001, all)
    assert.is_true(#json.text(look) < 60000)
  end)

  it("tells of mistakes on the command line", function()
    for words, expected in pairs { ["--web --json 1"] = "goes without", ["--open 1"] = "goes with %-%-web",
      ["--port 99999 --web 1"] = "from 0 to 65535" } do
      local list = {}
      for word in words:gmatch "%S+" do list[#list + 1] = word end
      local r = proc.mare_command({ "top", table.unpack(list) })
      assert.equal(2, r.code)
      assert.matches(expected, r.err)
    end
  end)

  it("is a page that works in a browser", function()
    if not browser.find() then return pending "no Chromium here: tools/setup test" end
    local w <close> = watched.start({ "--observe", "-w", "2" }, program, { stderr = "null" })
    local web <close> = serve(w.pid, "--interval", "0.2")
    local page <close> = browser.open(web.address, 390, 800)
    page:wait "document.getElementById('state').textContent == 'live'"
    page:wait [[ [...document.querySelectorAll('#talk tbody tr')].some(r => r.textContent.includes('worker #') &&
      r.textContent.includes('done')) ]]
    page:wait "document.querySelectorAll('#failures details').length == 1"
    page:wait "document.querySelector('#failures').textContent.includes('<b>no</b>')"
    assert.equal("true", page:eval "document.querySelector('#failures b') === null")
    assert.equal("true", page:eval "document.documentElement.scrollWidth <= innerWidth")
    page:eval "(document.getElementById('seconds').value = '2', document.getElementById('profile').click())"
    page:wait "document.querySelectorAll('#flame button').length > 3"
    page:eval "[...document.querySelectorAll('#processes button.flat')].find(b => b.textContent == 'collector').click()"
    page:wait "document.getElementById('oneTrace').textContent.includes('in function')"
    w:kill "KILL"
    page:wait "document.getElementById('state').textContent == 'ended' && !document.getElementById('over').hidden"
    assert.same({}, page.log)
  end)
end)
