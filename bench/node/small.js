// small: the page /small of examples/webserver.lua by Node's http. Prints "port N"; ends when it is killed.
"use strict";
const body = "<!DOCTYPE html><title>small</title><p>A small page, served by mare.</p>\n";
const server = require("http").createServer((request, response) => {
  if (request.url !== "/small") {
    response.writeHead(404);
    return response.end();
  }
  response.writeHead(200, { "Content-Type": "text/html", "Content-Length": body.length });
  response.end(body);
});
server.listen(0, "127.0.0.1", () => console.log("port " + server.address().port));
