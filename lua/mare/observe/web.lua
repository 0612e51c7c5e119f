-- mare.observe.web: `mare top --web`: starts the process that serves the page (mare.observe.pages), and waits for the program's end, or a signal.
local mare = require "mare"
local terminal = require "mare.cli.terminal"

local LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

-- 192 bits that nobody can guess, as letters of an address.
local function random()
  local file <close> = assert(io.open("/dev/urandom", "rb"))
  local bytes = assert(file:read(32), "no random bytes are to be had")
  return (bytes:gsub(".", function(c)
    local i = (c:byte() & 63) + 1
    return LETTERS:sub(i, i)
  end))
end

local function quoted(text) return (text:gsub("[&<>\"']", function(c) return ("&#%d;"):format(c:byte()) end)) end

-- Who starts a browser with the address as an argument shows it to all users of the machine. So it gets the path of a file, in a folder that nobody
-- else can enter, which leads there. The path, or nil and why not.
local function write_way(address, pid)
  for _, door in ipairs(terminal.doors(pid)) do
    local path = door:gsub("/%d+$", "/top-") .. address:match ":(%d+)/" .. ".html"
    local file = io.open(path, "w")
    if file then
      local to = quoted(address)
      file:write(('<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=%s"><a href="%s">mare top</a>\n'):format(to, to))
      file:close()
      return path
    end
  end
  return nil, "there is no folder for the file that leads to the page"
end

local function open_browser(address, pid)
  local path, why = write_way(address, pid)
  if not path then return nil, why end
  local browser = os.getenv "BROWSER"
  local words = { browser and browser:match "^[^:]+" or "xdg-open", path, stdout = "null", stderr = "null" }
  local child, err = mare.subprocess.spawn(words)
  if not child then return path, ("can't start %s: %s"):format(words[1], err) end
  return path
end

--- Serves until the program ends, or TERM or INT comes: an exit code, and perhaps what is to be said.
return function(pid, options)
  local has, http = pcall(require, "mare.http")
  if not has then return 1, (tostring(http):gsub("^.-: ", "")) end
  local ended, token = mare.channel.new(1), random()
  local settings = { pid = pid, token = token, interval = options.interval, limit = options.limit, ended = ended, random = random }
  local ok, server, err = pcall(http.serve, "127.0.0.1:" .. (options.port or 0), {
    workers = 1, name = "mare top", limits = { grace = 0.3, connections = 64, idle = 30 },
    start = function() return require "mare.observe.pages"(settings) end })
  if not ok then return 1, tostring(server) end
  if not server then return 1, ("can't serve at port %d: %s"):format(options.port or 0, err) end
  local _, port = server:address()
  local address = ("http://127.0.0.1:%d/%s/"):format(port, token)
  io.stdout:write(address, "\n")
  io.stdout:flush()
  local way, why
  if options.open then way, why = open_browser(address, pid) end
  if why then io.stderr:write("mare top: ", why, "\n") end
  local text
  mare.fiber.spawn { daemon = true, main = function()
    text = ended:receive()
    mare.sleep(0.2)               -- pages are told first
    server:stop()
  end }
  server:run()
  if way then os.remove(way) end
  if text then return 1, ("process %d: %s"):format(pid, text) end
  return 0
end
