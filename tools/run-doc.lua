-- run-doc.lua FILE.md: runs the programs in a document, so that it stays true.
--
--   ```lua            runs under bin/mare and must end with 0
--   ```sh             runs under sh -e in the source folder, with bin/mare on the path
--   ```output         what the block before it prints, exactly
--   ```lua fragment   must only compile        ```sh fragment, and every other language: not run
-- Line numbers in error messages are the document's. What a document calls /tmp is a folder of its own, so that several may be run at once.
package.path = (os.getenv("MARE_ROOT") or ".") .. "/?.lua;" .. package.path
local proc = require "spec.support.proc"
local path = arg[1]
local LIMIT = 300                                -- seconds a block may take: only one that hangs does

local function blocks()
  local found, open = {}, nil
  local n = 0
  for line in io.lines(path) do
    n = n + 1
    local info = line:match("^```(.*)$")
    if open and info == "" then
      found[#found + 1] = open
      open = nil
    elseif open then
      open[#open + 1] = line
    elseif info then
      open = { info = info:match("^%s*(.-)%s*$"), line = n }
    end
  end
  if open then error(("%s:%d: this block has no end"):format(path, open.line), 0) end
  return found
end

local scratch                                    -- what stands for /tmp
local function put(text, from, to) return (text:gsub(from:gsub("%p", "%%%0"), (to:gsub("%%", "%%%%")))) end

local bad = 0
local function complain(block, text)
  io.stderr:write(("%s:%d: %s\n"):format(path, block.line, text))
  bad = bad + 1
end

local function text_of(block) return #block > 0 and table.concat(block, "\n") .. "\n" or "" end

local function run(block, expected)
  local r
  local text = put(text_of(block), "/tmp/", scratch .. "/")
  if block.info == "lua" then
    r = proc.mare(("\n"):rep(block.line) .. text, {}, { timeout = LIMIT })
  else
    local env = { TMPDIR = scratch, PATH = proc.bin:match("^(.*)/") .. ":" .. os.getenv("PATH") }
    r = proc.run({ "sh", "-e", "-c", text }, { timeout = LIMIT, env = env })
  end
  r.out, r.err = put(r.out, scratch .. "/", "/tmp/"), put(r.err, scratch .. "/", "/tmp/")
  if r.code ~= 0 then
    complain(block, ("ended with %s\n%s"):format(r.timeout and "its time limit" or r.code or "signal " .. r.signal, r.out .. r.err))
  elseif expected and r.out ~= text_of(expected) then
    complain(expected, "the output differs; it is\n" .. r.out)
  end
end

local all = blocks()
scratch = proc.run({ "mktemp", "-d" }).out:match("[^\n]+")
for i, block in ipairs(all) do
  local follower = all[i + 1]
  local expected = follower and follower.info == "output" and follower or nil
  if block.info == "lua" or block.info == "sh" then
    run(block, expected)
  elseif block.info == "lua fragment" then
    local ok, err = load(("\n"):rep(block.line) .. text_of(block), "@" .. path, "t")
    if not ok then complain(block, err) end
  elseif block.info == "output" and not (all[i - 1] and (all[i - 1].info == "lua" or all[i - 1].info == "sh")) then
    complain(block, "no program stands before this output")
  end
end
proc.run { "rm", "-rf", scratch }
os.exit(bad == 0)
