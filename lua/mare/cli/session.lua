-- session: carries out a plan (see options.lua) in the main process.
--
-- The returned function hands out what is to run next: a function and its arguments. It is called again with true and the results, or
-- false and a message with traceback; and ends with nil and the exit code. The caller runs the functions outside of
-- it, so that nothing of this file is in their tracebacks. What it needs of the libraries is kept in locals: the program may change them.
-- A Ctrl-C is raised in what is handed out, never in here: interrupted() tells of one that waits, and takes it. outlived() makes the next Ctrl-C a
-- first one again; a second one ends the program.
-- At a terminal with a line editor it gets two functions more: edit(prompt) -> line, an error at Ctrl-C; and keep(statement) for its history.
local plan, outlived, interrupted, edit, keep = ...
local load, loadfile, require, type, tostring, print, warn, pcall = load, loadfile, require, type, tostring, print, warn, pcall
local error, rawget = error, rawget
local write, out, input = io.stderr.write, io.stdout, io.stdin
local stderr, read, flush = io.stderr, io.stdin.read, io.stdout.flush
local unpack, yield = table.unpack, coroutine.yield
local find, sub = string.find, string.sub
local globals = _G

local name = "mare: "

local loaded = package.loaded
local asks                                      -- somebody types at a prompt

-- In the log, if the program uses mare.log.
local function in_log(message)
  local core = not asks and rawget(loaded, "mare.log.core")
  return core and core.says(message)
end

local function report(message)
  if type(message) ~= "string" then message = tostring(message) end
  if in_log(message) then return false end
  write(stderr, name, message, "\n")
  return false
end

-- Runs f outside; true and its results, of which the last may be nil, or false after the message was shown.
local function finished(ok, ...)
  if not ok then return report((...)) end
  return true, ...
end

local function run(f, ...) return finished(yield(f, ...)) end

local function chunk(f, err)
  if not f then return report(err) end
  return run(f)
end

local function script()
  local f, err = loadfile(plan.script ~= "" and plan.script or nil)
  if not f then return report(err) end
  local arguments = globals.arg
  if type(arguments) ~= "table" then return report("'arg' is not a table") end
  return run(f, unpack(arguments))
end

local step = {
  run = function(s) return chunk(load(s[2], s[3])) end,
  file = function(s) return chunk(loadfile(s[2])) end,
  warn = function() warn("@on") return true end,
  require = function(s)
    local ok, module = run(require, s[3])
    if ok then globals[s[2]] = module end
    return ok
  end,
}

-- ---- interactive mode ----

local function prompt(global, default)
  local value = globals[global]
  local text = value == nil and default or tostring(value)
  if edit then return edit(text) end
  write(out, text)
  flush(out)
  local line = read(input, "L")
  if interrupted() then error "interrupted!" end -- while it waited: a read can't be left
  return line
end

local function strip(line) return sub(line, -1) == "\n" and sub(line, 1, -2) or line end

-- Reads a statement or an expression, which may take several lines; nil at the end of input.
local function statement()
  local line = prompt("_PROMPT", "> ")
  if not line then return nil end
  line = strip(line)
  if sub(line, 1, 1) == "=" then line = "return " .. sub(line, 2) end
  local f = load("return " .. line .. ";", "=stdin")
  if f then
    if keep and line ~= "" then keep(line) end
    return f
  end
  while true do
    local err
    f, err = load(line, "=stdin")
    if f or not find(err, "<eof>$") then
      if keep and line ~= "" then keep(line) end
      return f or false, err
    end
    local more = prompt("_PROMPT2", ">> ")
    if not more then return false, err end
    line = line .. "\n" .. strip(more)
  end
end

local function show(ok, ...)
  if not ok or select("#", ...) == 0 then return end
  local printed, err = yield(globals.print or print, ...)
  if not printed then report("error calling 'print' (" .. tostring(err) .. ")") end
end

local function interact()
  name, asks = "", true
  local left                                    -- by a Ctrl-C, the prompt before; what is typed since then is the editor's to see
  while true do
    if not left or not edit then outlived() end
    local ok, f, err = pcall(statement)         -- Ctrl-C ends the line, not the program
    left = not ok and find(tostring(f), "interrupted!", 1, true)
    if left then
      report "interrupted!"
    elseif not ok then
      report(f)
    elseif f == nil then
      break
    elseif f then
      show(run(f))
    else
      report(err)
    end
  end
  write(out, "\n")
  flush(out)
end

-- ---- all of it ----

-- A subcommand: its module's function gives the exit code.
local function command(which, ...)
  local ok, main = run(require, "mare.cli." .. which)
  if not ok then return nil, 1 end
  local code
  ok, code = run(main, ...)
  return nil, ok and code or 1
end

local function session()
  if plan.command then return command(unpack(plan.command)) end
  globals.arg = plan.arg
  if plan.init and not step[plan.init[1]](plan.init) then return nil, 1 end
  for _, s in ipairs(plan.steps) do
    if not step[s[1]](s) then return nil, 1 end
  end
  if plan.script and not script() then return nil, 1 end
  if plan.repl then interact() end
  return nil, 0
end

local co = coroutine.wrap(function()
  yield()
  return session()
end)
co()
return co
