-- run-example.lua FILE: runs an example under bin/mare and compares it with what its comments say.
--
--   -- test: arguments    in the first lines: it is a test, run with these (split at spaces)
--   -- expect: line       the next line of output is exactly this
--   -- expect~ pattern    the next line of output matches this Lua pattern as a whole
--   -- expect any order   the lines may come in any order
--   -- exit: 3            the exit code, else 0
package.path = (os.getenv("MARE_ROOT") or ".") .. "/?.lua;" .. package.path
local proc = require "spec.support.proc"
local path = arg[1]

local args, expected, any_order, code = {}, {}, false, 0
for line in io.lines(path) do
  local words = line:match("^%-%- test:(.*)")
  for word in (words or ""):gmatch("%S+") do args[#args + 1] = word end
  local text = line:match("^%s*%-%- expect: ?(.*)") or line:match("%s%-%- expect: ?(.*)")
  local pattern = line:match("%-%- expect~ ?(.*)")
  if pattern then expected[#expected + 1] = { pattern = "^" .. pattern .. "$", text = pattern }
  elseif text then expected[#expected + 1] = { text = text } end
  if line:find("^%-%- expect any order") then any_order = true end
  code = tonumber(line:match("^%-%- exit: (%d+)")) or code
end

local r = proc.run({ proc.bin, "run", path, table.unpack(args) }, { timeout = 50 })
local complaints = {}
local function complain(...) complaints[#complaints + 1] = (...):format(select(2, ...)) end

local function fits(e, line)
  if e.pattern then return line:find(e.pattern) end
  return line == e.text
end

local got = {}
for line in r.out:gmatch("([^\n]*)\n") do got[#got + 1] = line end
if r.out ~= "" and r.out:sub(-1) ~= "\n" then got[#got + 1] = r.out:match("[^\n]*$") end
if any_order then
  for _, e in ipairs(expected) do
    local at
    for i, line in ipairs(got) do if fits(e, line) then at = i break end end
    if at then table.remove(got, at) else complain("no line is '%s'", e.text) end
  end
  for _, line in ipairs(got) do complain("unexpected line '%s'", line) end
else
  for i = 1, math.max(#got, #expected) do
    local e, line = expected[i], got[i]
    if not e then complain("line %d: unexpected '%s'", i, line)
    elseif not line then complain("line %d: missing '%s'", i, e.text)
    elseif not fits(e, line) then complain("line %d: expected '%s', got '%s'", i, e.text, line) end
  end
end
if r.timeout then complain("it did not end in time")
elseif r.signal then complain("signal %d ended it", r.signal)
elseif r.code ~= code then complain("exit code %d, expected %d", r.code, code) end

if #complaints > 0 then
  io.stderr:write(path, ":\n  ", table.concat(complaints, "\n  "), "\n", r.err)
  os.exit(1)
end
