-- mare run --metrics: Prometheus's text over HTTP.
-- runs under: mare
local mare = require "mare"
local proc = require "spec.support.proc"
local watched = require "spec.support.watched"

local net, subprocess = mare.net, mare.subprocess

-- A port that nobody has now. Another program may take it before ours does: then the spec's program says so and does not get ready.
local function free_port()
  local server <close> = assert(net.listen "127.0.0.1:0")
  local _, port = server:address()
  return port
end

-- Sends all of it and gives what comes until the end.
local function talk(where, text)
  local c <close> = assert(net.connect(where, { timeout = watched.limit }))
  assert(c:write(text))
  return c:read("a", watched.limit)
end

local function get(where, path, method)
  local answer = talk(where, ("%s %s HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n"):format(method or "GET", path or "/metrics"))
  local status, head, body = answer:match "^HTTP/1%.1 (%d+) [^\r\n]+\r\n(.-\r\n)\r\n(.*)$"
  assert(status, answer)
  assert.matches("Connection: close\r\n", head)
  if method ~= "HEAD" then assert.equal(#body, tonumber(head:match "Content%-Length: (%d+)\r\n")) end
  return tonumber(status), body, head
end

-- The strict reading of the format: each family has its help and type once, before its samples, which stand together; no sample comes twice.
local function parse(text)
  local values, types, helps, current, closed = {}, {}, {}, nil, {}
  assert.matches("\n$", text)
  for line in text:gmatch "([^\n]*)\n" do
    local help, rest = line:match "^# HELP ([%a_:][%w_:]*) (.+)$"
    local name, kind = line:match "^# TYPE ([%a_:][%w_:]*) (%a+)$"
    if help then
      assert(rest and not helps[help], line)
      helps[help] = true
    elseif name then
      assert(helps[name] and not types[name] and (kind == "counter" or kind == "gauge"), line)
      assert.equal(kind == "counter", name:find "_total$" ~= nil, line)
      if current then closed[current] = true end
      types[name], current = kind, name
    else
      local sample, labels, value = line:match "^([%a_:][%w_:]*)(%b{}) (%S+)$"
      if not sample then sample, value = line:match "^([%a_:][%w_:]*) (%S+)$" end
      assert(sample == current and not closed[sample], line)
      for pair in (labels or "{}"):sub(2, -2):gmatch "[^,]+" do assert.matches('^[%a_][%w_]*="[^"\\\n]*"$', pair, line) end
      local key = sample .. (labels or "")
      assert.is_nil(values[key], line)
      values[key] = assert(tonumber(value), line)
    end
  end
  return values, types
end

local program = [[
  local c = mare.channel.new(math.huge)
  process.spawn { main = function() require "mare".sleep(1e6) end }
  process.spawn(function() end):wait()
  for i = 1, 10 do c:send(i) end
  local d = mare.dict.open "cache"
  d:set("here", 1)
  d:get "here"
  d:get "there"
  print "ready"
  while true do c:send(c:receive()) mare.sleep(0.001) end
]]

describe("mare run --metrics", function()
  it("serves what there is to count, as Prometheus reads it", function()
    local port = free_port()
    local w <close> = watched.start({ "-w", "2", "--metrics", "127.0.0.1:" .. port }, program)
    local status, text, head = get(port)
    assert.equal(200, status)
    assert.matches("Content%-Type: text/plain; version=0%.0%.4; charset=utf%-8\r\n", head)
    local v, types = parse(text)
    assert.equal(1, v[('mare_info{version="%s"}'):format(mare.version)])
    assert.equal(2, v['mare_processes{state="running"}'] + v['mare_processes{state="ready"}'] + v['mare_processes{state="waiting"}'])
    assert.same({ 3, 1, 0, 2 }, { v.mare_processes_started_total, v.mare_processes_ended_total, v.mare_failures_total, v.mare_workers })
    assert.is_true(v.mare_messages_total >= 10 and v.mare_dispatches_total > 0 and v.mare_heap_bytes > 0)
    local of = '{name="cache"}'
    assert.same({ 1, 1, 1, 0 }, { v["mare_dict_entries" .. of], v["mare_dict_hits_total" .. of], v["mare_dict_misses_total" .. of],
                                  v["mare_dict_evicted_total" .. of] })
    assert.is_true(v["mare_dict_bytes" .. of] > 50)
    assert.is_true(v['mare_worker_busy_seconds_total{worker="0"}'] >= 0 and v['mare_worker_busy_seconds_total{worker="1"}'] >= 0)
    assert.is_true(v.process_resident_memory_bytes > 1e5 and v.process_cpu_seconds_total > 0 and v.process_open_fds > 3)
    assert.is_true(math.abs(v.process_start_time_seconds - os.time()) < 3600)
    local _, later = get(port)
    local after = parse(later)
    for key, value in pairs(v) do
      if types[key:match "^[^{]*"] == "counter" then assert.is_true(after[key] >= value, key) end
    end
    assert.is_nil(w:door())                                    -- it is no tool's door
  end)

  it("is what promtool accepts", function()
    if not subprocess.run { "promtool", "--version" } then return pending "promtool (package prometheus) is not there" end
    local port = free_port()
    local w <close> = watched.start({ "--metrics=127.0.0.1:" .. port }, program)
    local _, text = get(port)
    local r = assert(subprocess.run { "promtool", "check", "metrics", input = text })
    assert.same({ 0, "", "" }, { r.code, r.out, r.err })
    assert(w.pid)
  end)

  it("answers nothing but GET and HEAD, and says so", function()
    local port = free_port()
    local w <close> = watched.start({ "--metrics", "127.0.0.1:" .. port }, program)
    assert.equal(200, (get(port, "/metrics?x=y")))
    assert.equal(200, (get(port, "/")))
    assert.equal(404, (get(port, "/metric")))
    local status, _, head = get(port, "/metrics", "POST")
    assert.equal(405, status)
    assert.matches("Allow: GET, HEAD\r\n", head)
    local body
    status, body, head = get(port, "/metrics", "HEAD")
    assert.same({ 200, "" }, { status, body })
    assert.is_true(tonumber(head:match "Content%-Length: (%d+)") > 500)
    assert.matches("^HTTP/1.1 400 ", talk(port, "hello\r\n\r\n"))
    assert.matches("^HTTP/1.1 400 ", talk(port, "\0\255\n\n"))
    assert.matches("^HTTP/1.1 200 ", talk(port, "GET /metrics HTTP/1.0\n\n"))
    assert.matches("^HTTP/1.1 431 ", talk(port, "GET /metrics HTTP/1.1\r\nX: " .. ("x"):rep(9000) .. "\r\n\r\n"))
    assert(w.pid)
  end)

  it("waits for nobody who is slow, and has room for the next", function()
    local port = free_port()
    local w <close> = watched.start({ "--metrics", "127.0.0.1:" .. port }, program)
    local silent = {}
    for i = 1, 100 do silent[i] = assert(net.connect("127.0.0.1", port)) end
    local begun = assert(net.connect("127.0.0.1", port))
    begun:write "GET /metrics HT"
    assert.equal(200, (get(port)))
    assert.equal("", begun:read("a", watched.limit))           -- hung up on, after some seconds
    for _, c in ipairs(silent) do c:close() end
    assert.equal(200, (get(port)))
    assert(w.pid)
  end)

  it("goes on while every worker computes", function()
    local port = free_port()
    local w <close> = watched.start({ "-w", "1", "--metrics", "127.0.0.1:" .. port }, "print 'ready' while true do end")
    assert.equal(200, (get(port)))
    assert(w.pid)
  end)

  it("serves at a path, which goes with the program, beside mare top's door", function()
    local path = os.tmpname()
    os.remove(path)
    local w <close> = watched.start({ "--observe", "--metrics", "unix:" .. path }, program)
    assert.equal(200, (get("unix:" .. path)))
    assert(w:door())
    w:kill "TERM"
    assert.same({ signal = "TERM" }, w:ends())
    assert.is_nil(os.rename(path, path))
    assert.is_nil(w:door())
  end)

  it("serves everywhere, at names, over IPv6", function()
    for _, form in ipairs { ":%d", "localhost:%d", "%d", "[::1]:%d" } do
      local port = free_port()
      if not (form:find "::1" and not net.listen "[::1]:0") then
        local w <close> = watched.start({ "--metrics", form:format(port) }, program)
        assert.equal(200, (get(form:find "::1" and form:format(port) or "localhost:" .. port)), form)
        assert(w.pid)
      end
    end
  end)

  it("says what is wrong with an address", function()
    for _, bad in ipairs { "x", "a:b", "1:2:3", "unix:", "localhost:70000", "http://localhost:1" } do
      local r = proc.mare_command { "run", "--metrics", bad, "-e", "print(1)" }
      assert.equal(2, r.code, bad)
      assert.matches("^mare: %-%-metrics needs an address, [^\n]*got '", r.err)
      assert.equal("", r.out)
    end
    assert.matches("'%-%-metrics' needs argument", proc.mare_command({ "run", "--metrics" }).err)
    local taken <close> = assert(net.listen "127.0.0.1:0")
    local _, port = taken:address()
    for where, why in pairs { ["127.0.0.1:" .. port] = "in use", ["unix:/no/such/folder/x"] = "No such file", ["no-such-host.invalid:1"] = "" } do
      local r = proc.mare_command { "run", "--metrics", where, "-e", "print(1)", "-" }
      assert.equal(1, r.code, where)
      assert.matches("^mare: can't serve metrics at [^\n]*" .. why, r.err)
      assert.equal("", r.out)
    end
  end)
end)
