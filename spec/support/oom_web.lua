-- Works for src/module/oom_test.c, see oom.lua: what the server of mare.http does in C.
local work, ok, with = ...
local net, buffer = require "mare.net", require "mare".buffer
local PATIENCE = 10                                -- seconds, as there

local frames = require "mare.http.frames"
local masked = "\x81\xfe\x08\0\0\0\0\0" .. ("x"):rep(2048) .. "\x89\x82\1\1\1\1hi"
function work.frames()
  with({ ok(net.listen("127.0.0.1:0")) }, function(things)
    local host, port = things[1]:address()
    things[2] = ok(net.connect(host, port, { timeout = PATIENCE }))
    things[3] = ok(things[1]:accept(PATIENCE))
    ok(things[2]:write(masked))
    assert(#ok(frames.receive(things[3], 4096, PATIENCE)) == 2048)
    assert(ok(frames.receive(things[3], 4096, PATIENCE)) == "ih")
    assert(frames.accept(("A"):rep(22) .. "==") == "ICX+Yqv66kxgM0FcWaLWlFLwTAI=" and #frames.head(1, 5, "hello") == 7)
  end)
end

local llhttp, http = pcall(require, "mare.http.core")
local shape, reply
if llhttp then shape, reply = http.shape({}) end
local routes = { false, { users = { false, false, { { "a handler" }, false, false, false }, false } }, false, false }
local asked = "GET /users/%s?q HTTP/1.1\r\nHost: me\r\nAccept: *\r\n\r\n"
local function answered(strict)                    -- answers that are begun whole, one whose rest is left, and one that is not ordinary
  with({ ok(net.listen("127.0.0.1:0")) }, function(things)
    local host, port = things[1]:address()
    things[2] = ok(net.connect(host, port, { timeout = PATIENCE }))
    things[3] = ok(things[1]:accept(PATIENCE))
    for _, answer in ipairs { "small", ("x"):rep(2000), ("x"):rep(1 << 18), 7 } do
      ok(things[2]:write(asked:format("seven")))
      local head, request = http.begin(things[3], 4096, PATIENCE, 10, shape)
      if not head then error(request, 0) end
      assert(request.raw_path == "/users/seven" and request.head == head and http.fields(head).accept == "*")
      local found, id = http.find(routes, request.raw_path)
      assert(found[1] == "a handler" and id == "seven")
      local left = reply(request, false, answer, nil, { A = "b" })
      assert(answer ~= 7 or left == nil)
      assert(not strict or answer == 7 or left ~= nil)           -- without memory for a request of the usual shape nil is right, too
      if type(left) == "string" then break end     -- the connection's other end reads nothing here
    end
  end)
end
if llhttp then answered(true) end
work.answered = llhttp and answered

local zlib, deflate = pcall(require, "mare.http.deflate")
work.shortened = zlib and function()
  local stream = deflate.new(1)
  assert(#stream(("x"):rep(5000), false) + #stream(buffer.of "y", true) < 100)
end
