// spread N [CERTIFICATE KEY]: a small page by N processes of Node's cluster, which share one server; with a certificate, over TLS. Prints "port P"; on
// SIGINT how many requests the processes served, "served 10 20 …", and ends. Each connection is answered as it stands: the head of a request is read up
// to its empty line, and nothing in it is looked at.
"use strict";
const cluster = require("cluster"), fs = require("fs");
const [count, certificate, key] = process.argv.slice(2);
const page = "<p>A small page</p>\n";
const reply = `HTTP/1.1 200 OK\r\nContent-Length: ${page.length}\r\n\r\n${page}`;

function serve() {
  let served = 0;
  function connection(socket) {
    let rest = "";
    socket.setNoDelay(true);
    socket.setEncoding("latin1");
    socket.on("error", () => socket.destroy());
    socket.on("data", (text) => {
      const heads = (rest + text).split("\r\n\r\n");
      rest = heads.pop();
      served += heads.length;
      if (heads.length > 0) socket.write(reply.repeat(heads.length));
    });
  }
  const server = certificate
    ? require("tls").createServer({ cert: fs.readFileSync(certificate), key: fs.readFileSync(key) }, connection)
    : require("net").createServer(connection);
  server.on("tlsClientError", () => {});
  server.listen(0, "127.0.0.1", () => process.send({ port: server.address().port }));
  process.on("message", () => process.send({ served }));
}

function lead() {
  const workers = [], counts = [];
  let ready = 0;
  for (let i = 0; i < Number(count); i++) {
    workers[i] = cluster.fork();
    workers[i].on("message", (said) => {
      if (said.port !== undefined && ++ready === workers.length) console.log("port " + said.port);
      if (said.served !== undefined && counts.push(said.served) === workers.length) {
        console.log("served " + counts.join(" "));
        process.exit(0);
      }
    });
  }
  process.on("SIGINT", () => workers.forEach((worker) => worker.send("tell")));
}

if (cluster.isPrimary) lead(); else serve();
