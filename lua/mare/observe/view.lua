-- mare.observe.view: what a program has said of itself, as lines of text. Knows no terminal: a line is a list of pieces, { text, style }, or a
-- string, and `width` the columns there are.
--
-- Names come from the program that is looked at, so nothing of them reaches a terminal but what can be printed.
local view = {}

-- ---- width ----

-- Ranges of characters that take two columns, and none.
local wide = { { 0x1100, 0x115f }, { 0x2e80, 0xa4cf }, { 0xac00, 0xd7a3 }, { 0xf900, 0xfaff }, { 0xfe30, 0xfe6f }, { 0xff00, 0xff60 },
  { 0xffe0, 0xffe6 }, { 0x1f300, 0x1faff }, { 0x20000, 0x3fffd } }
local none = { { 0x0300, 0x036f }, { 0x200b, 0x200f }, { 0x202a, 0x202e }, { 0x2060, 0x206f }, { 0xfe00, 0xfe0f } }

local function is_in(ranges, c)
  for _, r in ipairs(ranges) do
    if c >= r[1] and c <= r[2] then return true end
  end
  return false
end

local function columns_of(c)
  if c < 0x300 then return 1 end
  return is_in(none, c) and 0 or is_in(wide, c) and 2 or 1
end

--- What of a text may be shown: no control characters, nothing that turns the writing direction, only UTF-8.
function view.clean(s)
  if not utf8.len(s) then s = s:gsub("[\128-\255]", "?") end
  if not s:find("[\194-\244]") then return (s:gsub("%c", "?")) end
  local parts = {}
  for _, c in utf8.codes(s) do
    local bad = c < 32 or (c >= 127 and c < 160) or (c >= 0x200b and c <= 0x200f) or (c >= 0x202a and c <= 0x202e) or (c >= 0x2060 and c <= 0x206f)
    parts[#parts + 1] = bad and "?" or utf8.char(c)
  end
  return table.concat(parts)
end

--- The beginning of a clean text that fits, and how many columns it takes.
function view.cut(s, width)
  if #s <= width and not s:find("[\128-\255]") then return s, #s end
  local used = 0
  for at, c in utf8.codes(s) do
    local n = columns_of(c)
    if used + n > width then return s:sub(1, at - 1), used end
    used = used + n
  end
  return s, used
end

--- Cut or filled up to exactly that width; `right`: what is filled up stands in front.
function view.fit(s, width, right)
  local text, used = view.cut(s, width)
  local space = (" "):rep(width - used)
  return right and space .. text or text .. space
end

-- ---- numbers ----

local function scaled(n, step, units)
  local i = 1
  while n >= step * 0.9995 and i < #units do
    n = n / step
    i = i + 1
  end
  if i == 1 then return ("%d%s"):format(n // 1, units[1]) end
  return (n < 9.95 and "%.1f%s" or "%.0f%s"):format(n, units[i])
end

function view.bytes(n) return n and scaled(n, 1024, { "B", "K", "M", "G", "T" }) or "-" end
function view.count(n) return n and scaled(n, 1000, { "", "k", "M", "G", "T" }) or "-" end

--- A share of a CPU as a percentage.
function view.percent(x)
  if not x then return "-" end
  return (x < 0.0995 and "%.1f" or "%.0f"):format(x * 100)
end

function view.seconds(s)
  if not s then return "-" end
  if s < 10 then return ("%.2fs"):format(s) end
  if s < 60 then return ("%.1fs"):format(s) end
  local whole = s // 1 | 0
  if s < 3600 then return ("%d:%02d"):format(whole // 60, whole % 60) end
  if s < 100 * 3600 then return ("%d:%02d:%02d"):format(whole // 3600, whole // 60 % 60, whole % 60) end
  return ("%dd%02dh"):format(whole // 86400, whole // 3600 % 24)
end

-- ---- the head ----

local function per_second(now, before, field)
  if not before or not now[field] or not before[field] or now.clock <= before.clock then return nil end
  return (now[field] - before[field]) / (now.clock - before.clock)
end

-- How busy each worker was between two looks, 0 … 1; nil: not known yet.
local function loads(now, before)
  local list = {}
  for i, w in ipairs(now.workers) do
    local old = before and before.workers[i]
    local time = old and now.clock - before.clock or 0
    if w.active then list[#list + 1] = time > 0 and math.max(0, math.min(1, (w.busy - old.busy) / time)) or false end
  end
  return list
end

local BAR = 10

local function bar(load)
  if not load then return { { "[" .. (" "):rep(BAR) .. "   -%]", "dim" } } end
  local full = math.floor(load * BAR + 0.5)
  return { { "[", "dim" }, { ("|"):rep(full), load > 0.9 and "hot" or "good" }, { (" "):rep(BAR - full) },
    { ("%4.0f%%]"):format(load * 100), "dim" } }
end

-- A bar each, as many as fit in two lines; of more workers how many are how busy.
local function worker_lines(now, before, width)
  local list = loads(now, before)
  local first = ("Workers %d: "):format(#list)
  local each = BAR + 8
  local fit = math.max(1, (width - #first) // each)
  if #list > 2 * fit then
    local busy, known = 0, 0
    for _, load in ipairs(list) do
      if load then busy, known = busy + load, known + 1 end
    end
    local line = { { first } }
    for _, piece in ipairs(bar(known > 0 and busy / known)) do line[#line + 1] = piece end
    return { line }
  end
  local lines, line = {}, { { first } }
  for i, load in ipairs(list) do
    for _, piece in ipairs(bar(load)) do line[#line + 1] = piece end
    line[#line + 1] = { " " }
    if i == fit and i < #list then
      lines[1] = line
      line = { { (" "):rep(#first) } }
    end
  end
  lines[#lines + 1] = line
  return lines
end

local function process_line(s)
  local line = { { ("Processes %d: "):format(s.list.count) } }
  for i, state in ipairs { "running", "ready", "waiting", "failed" } do
    local n = s.list.states[state] or 0
    line[#line + 1] = { ("%s%d %s"):format(i > 1 and ", " or "", n, state), state == "failed" and n > 0 and "hot" or nil }
  end
  return line
end

local function rate_line(now, before)
  local messages, turns, cpu = per_second(now, before, "messages"), per_second(now, before, "dispatches"), per_second(now, before, "cpu")
  return { { ("Messages sent %s/s, turns %s/s   CPU %s%%   heaps %s, resident %s"):format(view.count(messages), view.count(turns), view.percent(cpu),
    view.bytes(now.heap), view.bytes(now.resident)) } }
end

local function channel_line(s)
  local parts = {}
  for i, c in ipairs(s.channels or {}) do
    if i > 4 then break end
    local waits = c.senders > 0 and ("%s sending"):format(view.count(c.senders)) or
      c.receivers > 0 and ("%s receiving"):format(view.count(c.receivers)) or nil
    if c.length > 0 or waits then
      parts[#parts + 1] = ("%s %s%s"):format(view.clean(c.name), view.count(c.length), waits and " (" .. waits .. ")" or "")
    end
  end
  if #parts > 0 then return { { "Channels: " .. table.concat(parts, ", ") } } end
end

local function failure_line(s)
  local n = s.totals.failures or 0
  if n == 0 then return { { "Failures that nobody waited for: none" } } end
  local last = s.failures and s.failures[1]
  return { { ("Failures %d: "):format(n), "hot" }, { last and view.clean(last.text:match "^[^\n]*") or "" } }
end

--- s: { program, totals, list, failures, channels }, before: the totals of the look before, or nil.
function view.head(s, before, width)
  local p = s.program
  local up = s.now and p.started and math.max(0, s.now - p.started)
  local lines = { { { ("mare top  %d  "):format(p.pid), "bold" }, { view.clean(p.command or "") }, { "  up " .. view.seconds(up), "dim" } } }
  for _, line in ipairs(worker_lines(s.totals, before, width)) do lines[#lines + 1] = line end
  lines[#lines + 1] = process_line(s)
  lines[#lines + 1] = rate_line(s.totals, before)
  lines[#lines + 1] = channel_line(s)
  lines[#lines + 1] = failure_line(s)
  return lines
end

-- ---- the table ----

local function number(field, f) return function(p) return (f or tostring)(p[field]) end end

local function name_of(p) return view.clean(p.name or (p.kind and "the main process") or "-") end

-- title, width, text of a process, key by which it is sorted. The last one takes what is left; where that is less than its width, the one of the
-- others with the greatest `spare` is left out, and so on.
local columns = {
  { "ID", 7, function(p) return tostring(p.id) end, "id", right = true },
  { "STATUS", 8, function(p) return p.status end },
  { "CPU%", 6, number("load", view.percent), "cpu", right = true },
  { "TIME", 8, number("cpu", view.seconds), right = true, spare = 4 },
  { "HEAP", 6, number("heap", view.bytes), "heap", right = true, spare = 2 },
  { "MSG/S", 6, number("rate", view.count), "messages", right = true, spare = 3 },
  { "IN", 6, number("received", view.count), right = true, spare = 6 },
  { "OUT", 6, number("sent", view.count), right = true, spare = 7 },
  { "RST", 4, number("restarts", view.count), right = true, spare = 5 },
  { "WAITS IN", 12, function(p) return p.waits or "" end, spare = 1 },
  { "NAME", 16, name_of },
}

local function width_of(list)
  local sum = #list - 1
  for _, c in ipairs(list) do sum = sum + c[2] end
  return sum
end

local fitting = {}     -- width -> columns: the same for every row

local function columns_for(width)
  if fitting[width] then return fitting[width] end
  local list = table.move(columns, 1, #columns, 1, {})
  while width_of(list) > width do
    local least = #list
    for i, c in ipairs(list) do
      if (c.spare or 0) > (list[least].spare or 0) then least = i end
    end
    if least == #list then break end
    table.remove(list, least)
  end
  fitting[width] = list
  return list
end

local function row(width, text)
  local parts, left, list = {}, width, columns_for(width)
  for i, c in ipairs(list) do
    local w = i == #list and left or math.min(c[2], left)
    if w <= 0 then break end
    parts[i] = view.fit(text(c), w, c.right)
    left = left - w - 1
  end
  return table.concat(parts, " ")
end

function view.titles(width, sort)
  return { { row(width, function(c) return (c[4] and c[4] == sort and "*" or "") .. c[1] end), "title" } }
end

local styles = { running = "good", failed = "hot", ready = "warm" }

function view.row(p, width, chosen)
  return { { row(width, function(c) return c[3](p) end), chosen and "chosen" or styles[p.status] } }
end

-- ---- one process ----

local function field(lines, title, text)
  if text then lines[#lines + 1] = { { view.fit(title, 12), "dim" }, { view.clean(tostring(text)) } } end
end

local function text_lines(text)
  local lines = {}
  for s in (text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = { { view.clean((s:gsub("\t", "    "))) } } end
  while #lines > 0 and lines[#lines][1][1] == "" do lines[#lines] = nil end
  return lines
end

function view.process(p, traceback)
  local lines = { { { ("Process #%d  %s"):format(p.id, name_of(p)), "bold" } } }
  field(lines, "status", p.status .. (p.waits and (" in %s%s"):format(p.waits, p.on and ", " .. p.on or "") or ""))
  field(lines, "at", p.where and p.where .. ((p.there or 0) > 1 and (" (%d fibers there)"):format(p.there) or ""))
  field(lines, "priority", p.priority)
  field(lines, "CPU", ("%s, now %s%%"):format(view.seconds(p.cpu), view.percent(p.load)))
  field(lines, "heap", view.bytes(p.heap))
  field(lines, "messages", ("%s in, %s out"):format(view.count(p.received), view.count(p.sent)))
  field(lines, "fibers", p.fibers)
  field(lines, "restarts", p.restarts)
  field(lines, "parent", p.parent and "#" .. p.parent)
  field(lines, "owner", p.owner and "#" .. p.owner)
  lines[#lines + 1] = { { "" } }
  for _, line in ipairs(text_lines(traceback or "")) do lines[#lines + 1] = line end
  return lines
end

function view.failures(list)
  local lines = { { { "Failures that nobody waited for, the newest first", "bold" } } }
  for _, f in ipairs(list) do
    lines[#lines + 1] = { { "" } }
    if f.ago then lines[#lines + 1] = { { view.seconds(f.ago) .. " ago", "dim" } } end
    for _, line in ipairs(text_lines(f.text)) do lines[#lines + 1] = line end
  end
  if #list == 0 then lines[2] = { { "There were none." } } end
  return lines
end

return view
