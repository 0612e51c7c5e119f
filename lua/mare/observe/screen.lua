-- mare.observe.screen: the live table of `mare top`.
--
-- Fibers: one reads keys, one hears of each signal, one asks the program; each sends what it has to `events`, and the main one alone changes what is
-- shown. So keys work while the program is slow to answer. A frame is written by one call, and only lines that have changed.
local mare = require "mare"
local signal = require "mare.signal"
local terminal = require "mare.cli.terminal"
local view = require "mare.observe.view"
local channel, fiber = mare.channel, mare.fiber

local help = [[
Keys

  p  h  m  i        sort by CPU, heap, messages a second, id
  up  down          choose a process; also PgUp, PgDn, Home, End
  Enter             look into it: what it waits for, traceback
  c                 cancel it: an error is raised in it where it waits or computes
  k                 kill it: it ends, and none of its Lua code runs any more
  f                 failures that nobody waited for
  space             look again now
  Esc               back
  q                 quit

CPU% is of one CPU, over the last seconds. RST: how often a supervisor has
started the process again. "running" holds a worker, "ready" waits for one.]]

-- ---- keys ----

local sequences = {
  ["[A"] = "up", ["[B"] = "down", OA = "up", OB = "down", ["[5~"] = "page up", ["[6~"] = "page down", ["[H"] = "home", ["[F"] = "end",
  OH = "home", OF = "end", ["[1~"] = "home", ["[4~"] = "end", ["[7~"] = "home", ["[8~"] = "end",
}
local letters = {
  ["\r"] = "enter", ["\n"] = "enter", ["\127"] = "escape", ["\b"] = "escape", ["\3"] = "quit", q = "quit", ["\26"] = "stop", ["\f"] = "redraw",
}

-- Names of the keys in a text, and the beginning of a sequence whose rest is still to come.
local function keys_of(s)
  local list, at = {}, 1
  while at <= #s do
    local c = s:sub(at, at)
    local sequence = c == "\27" and (s:match("^%[[%d;]*[%a~]", at + 1) or s:match("^O%a", at + 1))
    if sequence then
      list[#list + 1] = sequences[sequence]
      at = at + 1 + #sequence
    elseif c == "\27" and s:find("^%[[%d;]*$", at + 1) then
      return list, s:sub(at)
    else
      list[#list + 1] = c == "\27" and "escape" or letters[c] or c
      at = at + 1
    end
  end
  return list, ""
end

local function read_keys(events)
  local rest = ""
  while true do
    mare.wait_fd(0, "r")
    local s = terminal.keys()
    if not s then return events:send "gone" end
    local list
    list, rest = keys_of(rest .. s)
    for _, key in ipairs(list) do events:send("key", key) end
    if s == "" then mare.sleep(0.02) end
  end
end

-- ---- drawing ----

local codes = { bold = "1", dim = "2", hot = "31;1", warm = "33", good = "32", title = "7", chosen = "7", ask = "1;7" }
local plain = { title = "7", chosen = "7", ask = "7", bold = "1" }   -- NO_COLOR: no colours, but one must see what is chosen

local function styled(line, width, styles)
  local parts, left = {}, width
  for _, piece in ipairs(line) do
    local text, used = view.cut(piece[1], left)
    local code = styles[piece[2]]
    parts[#parts + 1] = code and ("\27[%sm%s\27[0m"):format(code, text) or text
    left = left - used
    if left <= 0 then break end
  end
  return table.concat(parts)
end

local screen = {}
screen.__index = screen

function screen:size()
  local rows, width = terminal.size()
  if not rows or rows < 1 or width < 1 then rows, width = 24, 80 end
  if rows ~= self.rows or width ~= self.width then self.shown = {} end
  self.rows, self.width = rows, width
end

function screen:show(lines)
  local out = {}
  if not next(self.shown) then out[1] = "\27[2J" end
  for i = 1, self.rows do
    local text = lines[i] and styled(lines[i], self.width, self.styles) or ""
    if self.shown[i] ~= text then
      out[#out + 1] = ("\27[%d;1H%s\27[K"):format(i, text)
      self.shown[i] = text
    end
  end
  if #out > 0 then
    io.stdout:write(table.concat(out))
    io.stdout:flush()
  end
end

-- ---- what is shown ----

-- The part of a long text that is to be seen.
local function window(self, lines, room)
  self.scroll = math.max(0, math.min(self.scroll, #lines - room))
  return table.move(lines, self.scroll + 1, self.scroll + room, 1, {})
end

local function footer(self)
  if self.question then return { { self.question.text .. " y/n ", "ask" } } end
  if self.note then return { { self.note, "hot" } } end
  if self.mode ~= "table" then
    return { { "Esc back  q quit   up/down scroll" .. (self.mode == "process" and "   c cancel  k kill" or ""), "dim" } }
  end
  return { { "? help  q quit   Enter look into  c cancel  k kill   sort: p cpu  h heap  m messages  i id   f failures", "dim" } }
end

local function chosen_row(self)
  local list = self.snapshot.list.processes
  for i, p in ipairs(list) do
    if p.id == self.chosen then return i end
  end
  return math.max(1, math.min(self.row or 1, #list))
end

local function table_lines(self, room)
  local s = self.snapshot
  local lines = view.head(s, self.before, self.width)
  while #lines > 0 and #lines > room - 4 do lines[#lines] = nil end
  lines[#lines + 1] = view.titles(self.width, self.sort)
  local list, left = s.list.processes, room - #lines
  self.page = math.max(1, left)
  self.row = chosen_row(self)
  self.chosen = list[self.row] and list[self.row].id
  self.first = math.max(1, math.min(self.first, self.row, math.max(1, #list - left + 1)))
  if self.row >= self.first + left then self.first = self.row - left + 1 end
  for i = self.first, math.min(#list, self.first + left - 1) do lines[#lines + 1] = view.row(list[i], self.width, i == self.row) end
  return lines
end

local function text_of_mode(self)
  if self.mode == "help" then
    local lines = {}
    for s in (help .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = { { s } } end
    lines[1][1][2] = "bold"
    return lines
  end
  if self.mode == "failures" then return view.failures(self.snapshot.failures or {}) end
  local d = self.details
  if not d then return { { { ("Process #%d …"):format(self.into) } } } end
  if not d.process then return { { { ("Process #%d: %s"):format(self.into, d.error), "hot" } } } end
  return view.process(d.process, d.traceback)
end

local function draw(self)
  self:size()
  local room = math.max(0, self.rows - 1)
  local lines
  if not self.snapshot then lines = { { { "mare top …" } } }
  elseif self.mode == "table" then lines = table_lines(self, room)
  else
    lines = text_of_mode(self)
    self.page = math.max(1, room)
    lines = window(self, lines, room)
  end
  for i = #lines + 1, room do lines[i] = { { "" } } end
  lines[self.rows] = footer(self)
  self:show(lines)
end

-- ---- keys, and what they do ----

local function enter(self, mode)
  self.mode, self.scroll, self.note = mode, 0, nil
end

local function look_again(self) self.wishes:send "look" end

local function move(self, by)
  if self.mode ~= "table" then
    self.scroll = math.max(0, self.scroll + by)
    return
  end
  local list = self.snapshot and self.snapshot.list.processes or {}
  if #list == 0 then return end
  self.row = math.max(1, math.min(#list, chosen_row(self) + by))
  self.chosen = list[self.row].id
end

local function named(self, id)
  for _, p in ipairs(self.snapshot and self.snapshot.list.processes or {}) do
    if p.id == id and p.name then return ("#%d (%s)"):format(id, view.clean(p.name)) end
  end
  return "#" .. id
end

local function ask_to(self, verb)
  local id = self.mode == "process" and self.into or self.mode == "table" and self.chosen
  if id then self.question = { text = ("%s process %s?"):format(verb, named(self, id)), request = ("%s %d"):format(verb, id) } end
end

local sorts = { p = "cpu", h = "heap", m = "messages", i = "id" }
local actions = {
  up = function(self) move(self, -1) end,
  down = function(self) move(self, 1) end,
  ["page up"] = function(self) move(self, -self.page) end,
  ["page down"] = function(self) move(self, self.page) end,
  home = function(self) move(self, -math.maxinteger // 2) end,
  ["end"] = function(self) move(self, math.maxinteger // 2) end,
  escape = function(self) enter(self, "table") end,
  ["?"] = function(self) enter(self, self.mode == "help" and "table" or "help") end,
  f = function(self) enter(self, self.mode == "failures" and "table" or "failures") end,
  c = function(self) ask_to(self, "cancel") end,
  k = function(self) ask_to(self, "kill") end,
  [" "] = look_again,
  enter = function(self)
    if self.mode ~= "table" or not self.chosen then return end
    enter(self, "process")
    self.into, self.details = self.chosen, nil
    look_again(self)
  end,
  redraw = function(self) self.shown = {} end,
  stop = function() terminal.stop() end,         -- CONT tells when it goes on
}

-- false: quit.
local function press(self, key)
  if key == "quit" then return false end
  self.note = nil
  if self.question then
    if key == "y" or key == "Y" then self.wishes:send("do", self.question.request) end
    self.question = nil
  elseif sorts[key] and self.mode == "table" then
    self.sort, self.first, self.row, self.chosen = sorts[key], 1, 1, nil
    look_again(self)
  elseif actions[key] then
    actions[key](self)
  end
  return true
end

-- ---- asking ----

local function snapshot(self, client)
  local limit = math.max(self.rows or 24, 24) + (self.row or 1)
  local list, err, gone = client:ask(("list %s %d"):format(self.sort, limit))
  if not list then return nil, err, gone end
  local totals = client:ask "totals"
  local failures, channels = client:ask "failures", client:ask "channels 5"
  if not (totals and failures and channels) then return nil, "it has ended, or hung up", true end
  local now = os.time()
  for _, f in ipairs(failures.failures) do f.ago = math.max(0, now - f.when) end
  return { program = client.program, list = list, totals = totals, failures = failures.failures, channels = channels.channels, now = now }
end

local function details(client, id)
  local info, err = client:ask("info " .. id)
  if not info then return { error = err } end
  local trace, why = client:ask("traceback " .. id)
  return { process = info.process, traceback = trace and trace.traceback or why }
end

-- Looks every so often, and when somebody wishes it.
local function attend(self, client, events)
  while true do
    local into = self.mode == "process" and self.into
    local s, err, gone = snapshot(self, client)
    if not s then return events:send(gone and "over" or "error", err) end
    self.fresh = { snapshot = s, details = into and details(client, into), into = into }
    events:send "fresh"
    local wish, request = self.wishes:receive(self.interval)
    if wish == "do" then
      local answer, why = client:ask(request)
      events:send("done", answer and "" or why)
    end
  end
end

local function take_fresh(self)
  local f = self.fresh
  self.before = self.snapshot and self.snapshot.totals
  self.snapshot = f.snapshot
  if f.into and f.into == self.into then self.details = f.details end
end

-- ---- the loop ----

local function hear(events, names)
  for _, name in ipairs(names) do
    local listener = signal.on(name)
    if listener then
      fiber.spawn { daemon = true, main = function()
        while listener:wait() do events:send("signal", name) end
      end }
    end
  end
end

local happens = {}     -- event -> function(self, what): false ends, with a code and a text

function happens.key(self, key) if not press(self, key) then return false, 0 end end
function happens.fresh(self) take_fresh(self) end
function happens.done(self, why) self.note = why ~= "" and why or nil end
function happens.gone() return false, 1 end
function happens.over(self, why) return false, 1, ("process %d: %s"):format(self.client.pid, why) end
function happens.error(self, why) return false, 1, ("process %d: %s"):format(self.client.pid, why) end

function happens.signal(self, name)
  if name == "CONT" then
    terminal.open()
    self.shown = {}
  elseif name ~= "WINCH" then
    return false, 128 + (name == "INT" and 2 or name == "HUP" and 1 or 15)
  end
end

local function loop(self, events)
  draw(self)
  while true do
    local event, what = events:receive()
    local go_on, code, text = happens[event](self, what)
    if go_on == false then return code, text end
    if #events == 0 then draw(self) end
  end
end

--- Shows the table until the user or the program ends it: an exit code, and perhaps what is to be said.
return function(client, options)
  local events, wishes = channel.new(math.huge), channel.new(math.huge)
  local self = setmetatable({ client = client, wishes = wishes, interval = options.interval, sort = options.sort, mode = "table", first = 1,
    scroll = 0, page = 1, shown = {}, styles = options.colour and codes or plain }, screen)
  io.stdout:setvbuf "full"
  local opened, err = terminal.open()
  if not opened then return 1, "can't use the terminal: " .. err end
  local ok, code, text = xpcall(function()
    hear(events, { "INT", "TERM", "HUP", "WINCH", "CONT" })
    fiber.spawn { daemon = true, main = read_keys, args = { events } }
    fiber.spawn { daemon = true, main = function()
      local done, why = xpcall(attend, debug.traceback, self, client, events)
      if not done then events:send("error", why) end
    end }
    return loop(self, events)
  end, debug.traceback)
  io.stdout:flush()
  terminal.close()
  if not ok then return 1, code end
  return code, text
end
