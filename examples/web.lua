-- A small web service: routes with parameters, a function before all of them, a folder of files, a dictionary that all processes share.
--   mare run examples/web.lua [PORT]        8080; TERM or Ctrl-C ends it, after what was asked is answered
--     curl -X PUT -d 'buy milk' http://localhost:8080/notes/1 ; curl http://localhost:8080/notes/1
--   mare run examples/web.lua try           asks itself, on any free port, and ends
-- test: try
-- needs: llhttp
-- expect: PUT /notes/1 -> 201
-- expect: GET /notes/1 -> 200 buy milk
-- expect: GET /notes/2 -> 404 there is no note 2
-- expect: POST /notes/1 -> 405 Method Not Allowed
-- expect: GET /files/web.lua -> 200 -- A small web service
local mare = require "mare"
local http, dict = require "mare.http", require "mare.dict"

local notes = dict.new()
local app = http.router()

app:use(function(request, go)
  if #request.target > 200 then http.fail(414) end
  return go(request)
end)

app:get("/notes/:id", function(request)
  local text = notes:get(request.params.id)
  if not text then http.fail(404, "there is no note " .. request.params.id) end
  return text
end)

app:put("/notes/:id", function(request)
  notes:set(request.params.id, request:body(10000))
  return 201
end)

app:get("/files/*path", http.files(arg[0]:match "^(.*)/" or "."))

local trying = arg[1] == "try"
local server = assert(http.serve(trying and "127.0.0.1:0" or tonumber(arg[1] or 8080), app, { log = not trying and http.log() or nil }))
if not trying then
  print("http://localhost:" .. select(2, server:address()) .. "/notes/1")
  return server:run()
end

local function ask(method, target, body)
  local conn <close> = assert(mare.net.connect(server:address()))
  body = body or ""
  conn:write(("%s %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s"):format(method, target, #body, body))
  local status, text = conn:read("a"):match "^HTTP/1.1 (%d+).-\r\n\r\n([^:\n]*)"
  print(("%s %s -> %s %s"):format(method, target, status, text):match "^(.-)%s*$")
end
ask("PUT", "/notes/1", "buy milk")
ask("GET", "/notes/1")
ask("GET", "/notes/2")
ask("POST", "/notes/1")
ask("GET", "/files/web.lua")
server:stop()
