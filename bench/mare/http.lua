-- http FOLDER: a server of mare.http: /const is a string, everything else a file of FOLDER. The router, all limits and a log that is told of
-- each request are on. Prints "port P"; ends when it is killed.
local http = require "mare.http"
local app = http.router():get("/const", function() return "hello\n" end):get("/*path", http.files(arg[1]))
local server = assert(http.serve("127.0.0.1:0", app, { log = function(request, status) return request.target, status end }))
print("port " .. select(2, server:address()))
io.stdout:flush()
server:run()
