-- browser: a page in headless Chromium, driven through its DevTools pipe (JSON messages, each ended by a NUL).
--
--   local browser = require "spec.support.browser"
--   browser.find()                      the program, or nil
--   local page = browser.open(url)      a to-be-closed value
--   page:eval "document.title"          a JavaScript expression, its value as text; a promise is waited for
--   page:wait "expression"              until it is true
--   page:screenshot "file.png"
--   page.log                            what the page wrote on its console, and its errors
local mare = require "mare"
local subprocess = require "mare.subprocess"
local proc = require "spec.support.proc"
local temporary = require "spec.support.temporary"

local browser, page = {}, {}
page.__index = page

local LIMIT = 60 * proc.slow             -- seconds for one answer: a browser on a loaded machine takes its time

function browser.find()
  for _, name in ipairs { "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome" } do
    local r = subprocess.run { "sh", "-c", "command -v " .. name }
    if r.code == 0 then return (r.out:gsub("\n", "")) end
  end
end

local function quote(text)
  return '"' .. text:gsub('[%c"\\]', function(c) return ("\\u%04x"):format(c:byte()) end) .. '"'
end

local function note(self, message)
  if message:find('"Runtime.exceptionThrown"', 1, true) or message:find('"Runtime.consoleAPICalled"', 1, true) or
    message:find('"Log.entryAdded"', 1, true) then
    self.log[#self.log + 1] = message
  end
end

-- One command and its answer; what else comes meanwhile is noted.
local function call(self, method, parameters)
  self.id = self.id + 1
  local session = self.session and (',"sessionId":"%s"'):format(self.session) or ""
  assert(self.child.stdin:write(('{"id":%d,"method":"%s","params":{%s}%s}\0'):format(self.id, method, parameters or "", session)))
  local limit, start = mare.clock() + LIMIT, ('{"id":%d,'):format(self.id)
  while true do
    local message, why = self.child.stdout:read_until("\0", nil, math.max(0, limit - mare.clock()))
    if not message then error(("the browser did not answer %s: %s"):format(method, why), 3) end
    if message:sub(1, #start) == start then
      if message:find(start .. '"error"', 1, true) then error(("%s: %s"):format(method, message), 3) end
      return message
    end
    note(self, message)
  end
end

function browser.open(url, width, height)
  local folder = temporary()
  os.remove(folder)
  local child = assert(subprocess.spawn {
    "sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null', "sh", assert(browser.find()),
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars", "--lang=en",
    "--remote-debugging-pipe", "--user-data-dir=" .. folder, ("--window-size=%d,%d"):format(width or 1100, height or 1000),
    stderr = "null",
  })
  local self = setmetatable({ child = child, id = 0, folder = folder, log = {} }, page)
  local target = call(self, "Target.createTarget", '"url":"about:blank"'):match('"targetId":"([^"]+)"')
  self.session = call(self, "Target.attachToTarget", ('"targetId":"%s","flatten":true'):format(target)):match('"sessionId":"([^"]+)"')
  for _, part in ipairs { "Runtime", "Log", "Page" } do call(self, part .. ".enable") end
  call(self, "Page.navigate", '"url":' .. quote(url))
  self:wait('document.readyState == "complete" && location.href != "about:blank"')
  return self
end

function page:eval(expression)
  local text = ("(async () => encodeURIComponent(String(await (%s))))()"):format(expression)
  local message = call(self, "Runtime.evaluate", ('"expression":%s,"awaitPromise":true,"returnByValue":true'):format(quote(text)))
  local value = message:match('"value":"([^"]*)"')
  if not value or message:find('"exceptionDetails"', 1, true) then error("JavaScript: " .. expression .. ": " .. message, 2) end
  return (value:gsub("%%(%x%x)", function(h) return string.char(tonumber(h, 16)) end))
end

-- The condition is asked anew, not awaited inside the page: a page that navigates loses its promises.
function page:wait(condition)
  local limit = mare.clock() + LIMIT
  while true do
    local fine, value = pcall(self.eval, self, "!!(" .. condition .. ")")
    if fine and value == "true" then return end
    if mare.clock() > limit then error("it never was so: " .. condition .. (fine and "" or ": " .. value), 2) end
    mare.sleep(0.05)
  end
end

function page:screenshot(path)
  local data = call(self, "Page.captureScreenshot", '"format":"png"'):match('"data":"([^"]+)"')
  assert(subprocess.run { "sh", "-c", 'base64 -d > "$1"', "sh", path, input = data }.code == 0)
end

function page:__close()
  self.child.stdin:close()                 -- the end of the pipe is the end of the browser
  if not self.child:wait(10) then self.child:kill "KILL" end
  self.child:wait()
  self.child.stdout:close()
  subprocess.run { "rm", "-rf", self.folder }
end

return browser
