--[[
mare.ludo.oil: what OiL 0.4 to 0.6 call LuDO: messages that are Lua source, "LENGTH\nreturn 1,\"key\",\"operation\",…". Nothing of it is run.

decode reads literals, tables, and what OiL's serialiser writes for a table: serial:value(ID,'table',{…}[,CLASS]), and serial:value(ID) where
that comes again, perhaps before its content has. A class is a name, and left out. Functions, userdata, calls of anything else, operators: an
error. What is read is bounded by `most` bytes, about, and DEPTH levels. LOOP 3 ends messages by a zero byte; a reply ends as its request did.
]]
local oil = {}

local DEPTH, MOST = 200, 64 << 20
local NEAR, FAR = 1 << 16, 4096                   -- see scattered
local PATIENT_LINE = 12                          -- digits of a length, and the line's end
local KEYWORDS = { ["nil"] = true, ["true"] = true, ["false"] = true, inf = true, nan = true }
local ESCAPES = { n = "\n", r = "\r", t = "\t", a = "\a", b = "\b", f = "\f", v = "\v", ["\\"] = "\\", ['"'] = '"', ["'"] = "'", ["\n"] = "\n" }

-- ---- reading ----

local reader = {}
reader.__index = reader

local function bad(self, what) error(("%s, at byte %d"):format(what, self.at), 0) end

local function charge(self, n)
  self.left = self.left - n
  if self.left < 0 then bad(self, "its values would take more memory than is allowed") end
end

-- What follows blanks, if it is that: the match, taken.
local function take(self, pattern)
  local at = self.text:find("[^%s]", self.at) or #self.text + 1
  local from, to, found = self.text:find("^(" .. pattern .. ")", at)
  if not from then return nil end
  self.at = to + 1
  return found
end

local function need(self, pattern, what) return take(self, pattern) or bad(self, what .. " expected") end

local function quoted(self)
  local quote = take(self, "[\"']")
  if not quote then return nil end
  local pieces, stop = {}, "[\\\n" .. quote .. "]"
  while true do
    local at = self.text:find(stop, self.at) or bad(self, "a string does not end")
    pieces[#pieces + 1] = self.text:sub(self.at, at - 1)
    charge(self, at - self.at + 32)
    local c = self.text:sub(at, at)
    self.at = at + 1
    if c == quote then return table.concat(pieces) end
    if c == "\n" then bad(self, "a string does not end") end
    local digits = self.text:match("^%d%d?%d?", self.at)
    if digits then
      if tonumber(digits) > 255 then bad(self, "an escape is too large") end
      pieces[#pieces + 1] = string.char(tonumber(digits))
      self.at = self.at + #digits
    else
      local e = self.text:sub(self.at, self.at)
      pieces[#pieces + 1] = ESCAPES[e] or bad(self, "there is no such escape")
      self.at = self.at + 1
    end
  end
end

-- Lua chains numbers by their value alone: whoever sends a table's could put all into one chain, and each would be compared with all before it.
-- Those near zero are too few for a long one, those of a sequence never meet; of others a message may have so many.
local function scattered(self, key, length)
  if math.type(key) == "integer" and (key == length + 1 or key > -NEAR and key < NEAR) then return end
  self.far = self.far + 1
  if self.far > FAR then bad(self, ("it has more than %d keys that are numbers and in no sequence"):format(FAR)) end
end

local value

local function content(self, into)
  need(self, "{", "'{'")
  self.depth = self.depth + 1
  if self.depth > DEPTH then bad(self, "its tables nest too deep") end
  local n, length = 0, 0                         -- values without a key; the sequence that keys give
  while not take(self, "}") do
    charge(self, 40)
    local key
    if take(self, "%[") then
      key = value(self)
      need(self, "%]", "']'")
      need(self, "=", "'='")
    else
      local name = self.text:match("^%s*([%a_][%w_]*)%s*=[^=]", self.at)
      if name and not KEYWORDS[name] then
        key = name
        need(self, "[%a_][%w_]*", "a name")
        need(self, "=", "'='")
      end
    end
    if key ~= key then bad(self, "a key is not a number") end
    if type(key) == "number" then
      scattered(self, key, length)
      if key == length + 1 then length = key end
    end
    local v = value(self)
    if key ~= nil then into[key] = v else
      n = n + 1
      into[n] = v
    end
    if not take(self, "[,;]") then
      need(self, "}", "'}'")
      break
    end
  end
  self.depth = self.depth - 1
  return into
end

-- serial:value(ID …) behind its bracket.
local function numbered(self)
  local id = take(self, "[%w.]+") or quoted(self) or bad(self, "a table's number expected")
  local t = self.tables[id]
  if not t then
    charge(self, 96)
    t = {}
    self.tables[id] = t
  end
  if take(self, ",") then
    if quoted(self) ~= "table" then bad(self, "only tables can be read, no functions and no userdata") end
    if take(self, ",") then
      content(self, t)
      if take(self, ",") then need(self, "[%a_][%w_.]*", "a class") end
    end
  end
  need(self, "%)", "')'")
  local away = self.resolve and t.__reference
  if type(away) == "table" and type(away.host) == "string" and math.type(away.port) == "integer" and type(away.object) == "string" then
    t = self.resolve(away)
    self.tables[id] = t
  end
  return t
end

local function number_of(self, text) return tonumber(text) or bad(self, "a number expected") end

function value(self)
  charge(self, 16)
  local s = quoted(self)
  if s then return s end
  if self.text:find("^%s*{", self.at) then
    charge(self, 56)
    return content(self, {})
  end
  local minus = take(self, "%-")
  local digits = take(self, "%d[%w.]*[eE][+-]%d+") or take(self, "%d[%w.]*") or take(self, "%.%d[%w.]*")
  if digits then
    local n = number_of(self, digits)
    return minus and -n or n
  end
  if take(self, "inf%f[^%w_]") then return minus and -math.huge or math.huge end
  if take(self, "nan%f[^%w_]") then return 0 / 0 end
  if minus then bad(self, "a number expected") end
  if take(self, "nil%f[^%w_]") then return nil end
  if take(self, "true%f[^%w_]") then return true end
  if take(self, "false%f[^%w_]") then return false end
  if take(self, "serial%s*:%s*value%s*%(") then return numbered(self) end
  bad(self, "a literal expected, and no other code")
end

local function values(self)
  need(self, "return%f[^%w_]", "'return'")
  local list, n = {}, 0
  if self.text:find("[^%s%z]", self.at) then
    repeat
      n = n + 1
      list[n] = value(self)
    until not take(self, ",")
  end
  self.zero = take(self, "%z") ~= nil
  if self.text:find("[^%s%z]", self.at) then bad(self, "more follows behind the last value") end
  return n, list, self.zero
end

--- How many values, a list of them, and whether a zero followed | nil, what is wrong. resolve(reference): what stands for an object's reference,
--- { host =, port =, object = }, that is in a table's field __reference
function oil.decode(text, most, resolve)
  local self = setmetatable({ text = text, at = 1, left = most or MOST, depth = 0, far = 0, tables = {}, zero = false, resolve = resolve }, reader)
  local fine, n, list, zero = pcall(values, self)
  if fine then return n, list, zero end
  return nil, "what came is no message of OiL's LuDO: " .. tostring(n)
end

-- ---- writing ----

local function literal(v)
  if v ~= v then return "0/0" end
  if v == math.huge then return "1/0" elseif v == -math.huge then return "-1/0" end
  if math.type(v) == "integer" then return ("%d"):format(v) end
  local text = ("%.17g"):format(v)
  return text:find "[%.eE]" and text or text .. ".0"
end

local function text_of(s)
  return '"' .. s:gsub('[%c"\\]', function(c) return c == "\n" and "\\n" or c:find '["\\]' and "\\" .. c or ("\\%03d"):format(c:byte()) end) .. '"'
end

local write
local function write_table(out, t, known, depth)
  if depth > DEPTH then error("tables nest too deep for OiL's LuDO", 0) end
  if getmetatable(t) and not known.refer then error("a table with a metatable cannot be sent by OiL's LuDO", 0) end
  known.n = known.n + 1
  known[t] = known.n
  out[#out + 1] = ("serial:value(%d,'table',{"):format(known.n)
  for k, v in next, t do
    out[#out + 1] = "["
    write(out, k, known, depth + 1)
    out[#out + 1] = "]="
    write(out, v, known, depth + 1)
    out[#out + 1] = ","
  end
  out[#out + 1] = "})"
end

function write(out, v, known, depth)
  local kind = type(v)
  local away = known.refer and not known[v] and v ~= nil and known.refer(v)
  if away then
    known.n = known.n + 1
    known[v] = known.n
    out[#out + 1] = ("serial:value(%d,'table',{[\"__reference\"]="):format(known.n)
    write_table(out, { host = away.host, port = away.port, object = away.object }, known, depth)
    out[#out + 1] = ",})"
    return
  end
  if kind == "string" then out[#out + 1] = text_of(v)
  elseif kind == "number" then out[#out + 1] = literal(v)
  elseif kind == "nil" or kind == "boolean" then out[#out + 1] = tostring(v)
  elseif known[v] then out[#out + 1] = ("serial:value(%d)"):format(known[v])
  elseif kind ~= "table" then error(("a %s cannot be sent by OiL's LuDO"):format(kind), 0)
  else write_table(out, v, known, depth) end
end

--- Values as OiL writes them; raises what can't be. refer(value) -> the reference that stands for it | nil; with it metatables are left out
function oil.encode_with(refer, ...)
  local out, known, list = { "return " }, { n = 0, refer = refer }, table.pack(...)
  for i = 1, list.n do
    if i > 1 then out[#out + 1] = "," end
    write(out, list[i], known, 0)
  end
  return table.concat(out)
end

--- The same without references.
function oil.encode(...) return oil.encode_with(nil, ...) end

-- ---- serving: `self` is the pool. broker.dispatcher, of mare.oil, serves otherwise: { call(key, operation, …), refer, resolve } ----

local function call(self, job, key, operation, ...)
  local dispatcher = self.broker.dispatcher
  if dispatcher then
    job.key, job.operation, job.running = key, operation, true
    return dispatcher.call(key, operation, ...)
  end
  local object = type(key) == "string" and self.broker.objects[key] or error(("there is no object '%s'"):format(tostring(key):sub(1, 60)), 0)
  local f = type(operation) == "string" and not operation:find "^_" and object[operation]
  if type(f) ~= "function" then error(("object '%s' has no operation '%s'"):format(key:sub(1, 60), tostring(operation):sub(1, 60)), 0) end
  job.key, job.operation, job.running = key, operation, true
  return f(object, ...)
end

local function answer(self, id, zero, fine, ...)
  local dispatcher = self.broker.dispatcher
  local refer = dispatcher and dispatcher.refer
  local ok, text = fine, nil
  if fine then ok, text = pcall(oil.encode_with, refer, id, true, ...)
  elseif dispatcher then ok, text = pcall(oil.encode_with, refer, id, false, ...) end
  if not ok then text = oil.encode(id, false, tostring(text or (...))) end
  if #text > self.limits.message then text = oil.encode(id, false, "the reply is too long") end
  if zero then text = text .. "\0" end
  return ("%d\n"):format(#text) .. text
end

-- The size of the next message: "LENGTH\n"; a client without a request may wait for ever.
local function size_of(self, peer, head)
  if not head then
    peer.idle = true                             -- it may give its place to others
    head = peer.socket:read(1, self.limits.idle)
    peer.idle = false
    if not head then return nil end
  end
  local line = peer.socket:read_until("\n", PATIENT_LINE, self.limits.arrive)
  local size = line and math.tointeger(tonumber((head .. line):match "^(%d+)\r?\n$"))
  if not size or size > self.limits.message then return nil, "it sent no length, or one beyond the limit" end
  return size
end

-- Whether the reply was written. The request counts until then: a shutdown waits for it, and the servant knows who calls.
local function request(self, job, peer, zero, list, n)
  local text = answer(self, list[1], zero, pcall(call, self, job, table.unpack(list, 2, n)))
  job.running = false
  return peer.socket:write(text)
end

--- Serves a connection whose first byte is `head`, by the fiber of `job`, until it ends.
function oil.serve(self, job, peer, head)
  local socket, purse = peer.socket, peer.purse
  socket:timeout(self.limits.reply)
  while not peer.gone and not peer.closing do
    local size, why = size_of(self, peer, head)
    if not size then
      if why then self.broker:note("a client of OiL's LuDO was closed: " .. why) end
      return
    end
    head = nil
    if not purse:want(size + 1024) then return end
    local text = socket:read(size, self.limits.arrive)
    local n, list, zero = oil.decode(text or "", self.limits.values, self.broker.dispatcher and self.broker.dispatcher.resolve)
    if not n or n < 3 then
      self.broker:note("a client of OiL's LuDO was closed: " .. (n and "a request has an id, a key and an operation" or list))
      return
    end
    self.enter(job, peer, false)
    job.size = size + 1024
    local fine, ok = pcall(request, self, job, peer, zero, list, n)
    job.running = false
    self.depart(job, peer)
    if not fine then error(ok, 0) end
    if not ok then return end
  end
end

return oil
