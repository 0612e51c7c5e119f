--[[
generate: marshalling as generated Lua (string.pack and string.unpack), from the same types as the programs of mare.orb.cdr and with the same
bytes. For comparison with those, and for VMs with a compiler of their own.

  local program = generate.program({ T… }, fail)     fail(exception, minor, text) raises
  program:encode(codec, …) -> bytes                  program:decode(bytes, at, codec) -> …

Each type becomes text once, for both byte orders. In it `n` pieces are in the list `out`, which have `at` bytes so far; reading, `at` is the next
byte, from 1. Nothing but sizes, numbers and quoted names of a type gets into the text; other constants are in the table K. Runs of numbers in a
struct are one pack each: which padding they need depends on where they begin, modulo 8, so there is a format for each of the eight places, made
when it is first met.

Supported: integers, float, double, boolean, octet, char, string, enum, struct, except, sequence, array, alias, recursive types. Any other kind is
refused by its name. Text goes as it is: the code set must be UTF-8. Errors name no path.
]]
local support = require "spec.support.generate_parts"

local generate = {}

local MAX_DEPTH, RUN = 10000, 50                 -- of types inside themselves: calls of Lua's own, which take none of C's stack

-- letter of string.pack, size, range
local numbers = {
  short = { "h", 2, -32768, 32767 }, ushort = { "H", 2, 0, 65535 }, long = { "i4", 4, -2147483648, 2147483647 }, ulong = { "I4", 4, 0, 4294967295 },
  longlong = { "i8", 8 }, ulonglong = { "i8", 8 }, octet = { "B", 1, 0, 255 }, int8 = { "b", 1, -128, 127 }, float = { "f", 4 }, double = { "d", 8 },
  boolean = { "B", 1 }, char = { "B", 1 }, enum = { "I4", 4 },
}
local put, get = {}, {} -- kind -> function(writer, type, expression or target)

local function unaliased(T)
  while T.kind == "alias" do T = T.type end
  return T
end

-- ---- a writer of text ----

local Writer = {}
Writer.__index = Writer

function Writer:line(text, ...) self.lines[#self.lines + 1] = select("#", ...) > 0 and text:format(...) or text end

function Writer:constant(value)
  self.K[#self.K + 1] = value
  return ("K[%d]"):format(#self.K)
end

-- A number for names of variables of this nesting.
function Writer:name(prefix)
  self.count = self.count + 1
  return prefix .. self.count
end

-- The functions of a type that contains itself are written when all else is.
function Writer:own(T)
  if not self.numbers[T] then
    self.pending[#self.pending + 1] = T
    self.numbers[T] = #self.pending
  end
  return self.numbers[T]
end

function Writer:put(T, expression)
  T = unaliased(T)
  if self.recursive[T] then self:line("n, at = puts[%d](out, n, at, %s, fail)", self:own(T), expression)
  elseif numbers[T.kind] then self:put_run({ T }, { expression })
  else put[T.kind](self, T, expression) end
end

function Writer:get(T, target)
  T = unaliased(T)
  if self.recursive[T] then self:line("%s, at = gets[%d](bytes, at, fail)", target, self:own(T))
  elseif numbers[T.kind] then self:get_run({ T }, { target })
  else get[T.kind](self, T, target) end
end

-- ---- numbers ----

-- Where a run begins, modulo 8 -> { format, bytes }
local function formats(order, list)
  return setmetatable({}, { __index = function(t, place)
    local format, at = { order }, place
    for _, T in ipairs(list) do
      local letter, size = numbers[T.kind][1], numbers[T.kind][2]
      local gap = -at % size
      format[#format + 1] = ("x"):rep(gap) .. letter
      at = at + gap + size
    end
    t[place] = { table.concat(format), at - place }
    return t[place]
  end })
end

local function checked(w, T, expression)
  local kind = numbers[T.kind]
  if T.kind == "boolean" or T.kind == "char" then return ("%s(%s, fail)"):format(T.kind, expression) end
  if T.kind == "float" or T.kind == "double" then return ("number(%s, %q, fail)"):format(expression, T.kind) end
  if T.kind ~= "enum" then return ("integer(%s, %s, %s, %q, fail)"):format(expression, kind[3] or "nil", kind[4] or "nil", T.kind) end
  local ordinals = { [0] = #T.labels }
  for i, label in ipairs(T.labels) do ordinals[label] = i - 1 end
  return ("label(%s, %s, fail)"):format(w:constant(ordinals), expression)
end

local function value_of(w, T, name)
  if T.kind == "boolean" then return name .. " ~= 0" end
  if T.kind == "char" then return ("tochar(%s)"):format(name) end
  if T.kind ~= "enum" then return name end
  return ("%s[%s + 1] or nolabel(at, fail)"):format(w:constant(T.labels), name)
end

function Writer:put_run(list, expressions)
  local values = {}
  for i, T in ipairs(list) do values[i] = checked(self, T, expressions[i]) end
  self:line("do local f = %s[at %% 8] n = n + 1", self:constant(formats(self.order, list)))
  self:line("out[n] = pack(f[1], %s) at = at + f[2] end", table.concat(values, ", "))
end

function Writer:get_run(list, targets)
  local names = {}
  for i in ipairs(list) do names[i] = "x" .. i end
  self:line("do local f = %s[(at - 1) %% 8] need(bytes, at, f[2], fail)", self:constant(formats(self.order, list)))
  self:line("local %s = unpack(f[1], bytes, at)", table.concat(names, ", "))
  for i, T in ipairs(list) do self:line("%s = %s", targets[i], value_of(self, T, names[i])) end
  self:line "at = at + f[2] end"
end

-- One of the two directions of a struct: runs of numbers together, all else by itself.
local function members(w, T, v, run, one)
  local types, fields = {}, {}
  local function flush()
    if #types > 0 then run(w, types, fields) end
    types, fields = {}, {}
  end
  for _, m in ipairs(T.members) do
    local M, field = unaliased(m.type), ("%s[%q]"):format(v, m.name)
    if numbers[M.kind] then types[#types + 1], fields[#fields + 1] = M, field
    else
      flush()
      one(w, M, field)
    end
    if #types == RUN then flush() end
  end
  flush()
end

-- ---- the kinds that aren't numbers ----

local function put_length(w, expression)
  w:line("do local gap = -at %% 4 n = n + 1 out[n] = zeros[gap] .. pack(%q, %s) at = at + gap + 4 end", w.order .. "I4", expression)
end
local function get_length(w, name)
  w:line("at = at + (1 - at) %% 4 need(bytes, at, 4, fail) local %s = unpack(%q, bytes, at) at = at + 4", name, w.order .. "I4")
end

function put.string(w, T, expression)
  w:line("do local s = text(%s, %d, fail)", expression, T.bound or 0)
  put_length(w, "#s + 1")
  w:line "n = n + 1 out[n] = s .. zeros[1] at = at + #s + 1 end"
end
function get.string(w, T, target)
  w:line "do"
  get_length(w, "length")
  w:line "local s s, at = take(bytes, at, length, fail)"
  w:line "if s:byte(-1) ~= 0 then fail('a string without the zero that ends it', at) end"
  if (T.bound or 0) > 0 then w:line("if length - 1 > %d then fail('a string longer than its type allows', at) end", T.bound) end
  w:line("%s = s:sub(1, -2) end", target)
end

function put.struct(w, T, expression)
  local v = w:name "v"
  w:line("do local %s = fields(%s, %q, fail)", v, expression, T.name or "table")
  members(w, T, v, w.put_run, w.put)
  w:line "end"
end
function get.struct(w, T, target)
  local v = w:name "v"
  w:line("do local %s = {}", v)
  members(w, T, v, w.get_run, w.get)
  w:line("%s = %s end", target, v)
end

function put.except(w, T, expression)
  put.string(w, { kind = "string" }, ("%q"):format(T.id))
  put.struct(w, T, expression)
end
function get.except(w, T, target)
  local id = w:name "id"
  w:line("do local %s", id)
  get.string(w, { kind = "string" }, id)
  get.struct(w, T, target)
  w:line("%s._repid = %s end", target, id)
end

local function is_text(T) return T.kind == "octet" or T.kind == "char" end

function put.sequence(w, T, expression)
  local E, length = unaliased(T.element), T.kind == "array" and T.length or nil
  local list, n, i = w:name "l", w:name "n", w:name "i"
  if is_text(E) then
    w:line("do local %s = octets(%s, %d, %s, fail)", list, expression, T.bound or 0, length or "nil")
    if not length then put_length(w, "#" .. list) end
    w:line("n = n + 1 out[n] = %s at = at + #%s end", list, list)
    return
  end
  w:line("do local %s = %s local %s = count(%s, %d, %s, fail)", list, expression, n, list, T.bound or 0, length or "nil")
  if not length then put_length(w, n) end
  w:line("for %s = 1, %s do", i, n)
  w:put(E, ("%s[%s]"):format(list, i))
  w:line "end end"
end
put.array = put.sequence

-- The least bytes a value takes; recursion goes through sequences, which take four.
local function least(T)
  T = unaliased(T)
  if numbers[T.kind] then return numbers[T.kind][2] end
  if T.kind == "array" then return T.length * least(T.element) end
  if T.kind ~= "struct" and T.kind ~= "except" then return T.kind == "string" and 5 or 4 end
  local sum = T.kind == "except" and 5 or 0
  for _, m in ipairs(T.members) do sum = sum + least(m.type) end
  return sum
end

function get.sequence(w, T, target)
  local E = unaliased(T.element)
  local list, n, i = w:name "l", w:name "n", w:name "i"
  w:line "do"
  if T.kind == "array" then w:line("local %s = %d", n, T.length) else get_length(w, n) end
  w:line("fits(bytes, at, %s, %d, %d, fail)", n, least(E), T.bound or 0)
  if is_text(E) then w:line("%s, at = take(bytes, at, %s, fail) end", target, n)
  else
    w:line("local %s = {} for %s = 1, %s do", list, i, n)
    w:get(E, ("%s[%s]"):format(list, i))
    w:line("end %s = %s end", target, list)
  end
end
get.array = get.sequence

-- ---- whole programs ----

-- Refuses what isn't supported; `recursive` gets the types that are met inside themselves.
local function look(T, around, recursive, done)
  T = unaliased(T)
  if around[T] then recursive[T] = true return end
  if done[T] then return end
  if not numbers[T.kind] and not put[T.kind] then
    error(("generated marshalling has no values of kind '%s': use a program of mare.orb.cdr"):format(T.kind), 0)
  end
  around[T] = true
  if T.element then look(T.element, around, recursive, done) end
  for _, m in ipairs(T.members or {}) do look(m.type, around, recursive, done) end
  around[T], done[T] = nil, true
end

local function write_own(w, i)
  local T = w.pending[i]
  w:line("puts[%d] = function(out, n, at, value, fail)", i)
  w:line("depth = depth + 1 if depth > %d then fail('nested more than %d levels deep') end", MAX_DEPTH, MAX_DEPTH)
  put[T.kind](w, T, "value")
  w:line "depth = depth - 1 return n, at end"
  w:line("gets[%d] = function(bytes, at, fail) local value", i)
  w:line("depth = depth + 1 if depth > %d then fail('a value nested more than %d levels deep', at) end", MAX_DEPTH, MAX_DEPTH)
  get[T.kind](w, T, "value")
  w:line "depth = depth - 1 return value, at end"
end

local head = "local support, K = ...\nlocal puts, gets, depth = {}, {}, 0\n"
for name in pairs(support) do head = head .. ("local %s = support.%s\n"):format(name, name) end

-- The text of both directions in one byte order, and its constants.
local function write(types, order)
  local w = setmetatable({ lines = { head }, K = {}, order = order, count = 0, recursive = {}, numbers = {}, pending = {} }, Writer)
  for _, T in ipairs(types) do look(T, {}, w.recursive, {}) end
  w:line "local function encode(out, values, fail) local n, at = 0, 0 depth = 0"
  for i, T in ipairs(types) do w:put(T, ("values[%d]"):format(i)) end
  w:line "return n end"
  w:line "local function decode(bytes, at, values, fail) depth = 0"
  for i, T in ipairs(types) do w:get(T, ("values[%d]"):format(i)) end
  w:line "end"
  local done = 0
  while done < #w.pending do
    done = done + 1
    write_own(w, done)
  end
  w:line "return encode, decode"
  return table.concat(w.lines, "\n"), w.K
end

local Program = {}
Program.__index = Program

local function direction(program, codec)
  if codec & 8 == 0 then error("generated marshalling sends text in UTF-8 only", 0) end
  local little = codec & 1
  if not program[little] then
    local text, K = write(program.types, little == 1 and "<" or ">")
    local encode, decode = assert(load(text, "=marshalling", "t"))(support, K)
    program[little] = { encode = encode, decode = decode }
  end
  return program[little]
end

function Program:encode(codec, ...)
  local out = {}
  local n = direction(self, codec).encode(out, { ... }, self.unsent)
  return table.concat(out, "", 1, n)
end

function Program:decode(bytes, at, codec)
  local values = {}
  direction(self, codec).decode(bytes, at, values, self.unread)
  return table.unpack(values, 1, #self.types)
end

---@param types mare.orb.Type[]
---@param fail? fun(exception: string, minor: integer, text: string) raises
function generate.program(types, fail)
  fail = fail or function(name, _, text) error(name .. ": " .. text, 0) end
  for _, T in ipairs(types) do look(T, {}, {}, {}) end
  return setmetatable({
    types = types,
    unsent = function(text) fail("BAD_PARAM", 0, text) end,
    unread = function(text, at) fail("MARSHAL", 0, ("%s (at byte %d)"):format(text, at)) end,
  }, Program)
end

-- The generated text, to look at.
function generate.text(types, little) return (write(types, little and "<" or ">")) end

return generate
