"""Measurements that take two programs: a server that prints "port N", and a client that is told the port.

A scene has the interface of commands.Command: `run()` gives {metric: value} or raises Failure. Both programs run in sessions of
their own, and none of them outlives the scene.
"""
import os
import re
import resource
import signal
import socket
import ssl
import subprocess
import tempfile
import time

from .commands import BENCH, BUILD, ROOT, TIME_LIMIT, Command, Failure, find_tool

WRK, OPENSSL, NODE, TASKSET = (find_tool(name) for name in ("wrk", "openssl", "node", "taskset"))
TICKS = os.sysconf("SC_CLK_TCK")


def pinned(command):
    """The same on the first CPU that is allowed."""
    cpu = str(min(os.sched_getaffinity(0)))
    return Command((TASKSET or "taskset", "-c", cpu, *command.argv), command.env)


def node(name, *args):
    return Command((NODE or "node", os.path.join(BENCH, "node", name + ".js"), *map(str, args)))


def cpu_seconds(session):
    """What the running processes of a session have used, their threads together."""
    ticks = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
        except OSError:     # it has ended meanwhile
            continue
        if int(fields[3]) == session:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS


def end(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()
    process.wait()


def most_files():
    """Servers and clients with many connections need as many descriptors as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def launch(command, **more):
    try:
        return subprocess.Popen(command.argv, env={**os.environ, **command.env}, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, start_new_session=True, **{"cwd": ROOT, **more})
    except OSError as error:
        raise Failure(f"{command.argv[0]}: {error.strerror}") from None


def line(process, command):
    text = process.stdout.readline()
    if not text:
        raise Failure(f"said nothing: {command}")
    return text


def port_of(process, command):
    text = line(process, command)
    found = re.match(r"port (\d+)|http://127\.0\.0\.1:(\d+)/", text)
    if not found:
        raise Failure(f"no port in '{text.strip()}': {command}")
    return int(found[1] or found[2])


def with_arguments(command, *args):
    return Command((*command.argv, *map(str, args)), command.env)


def make_certificate(folder):
    """The paths of a certificate for localhost and of its key."""
    if not OPENSSL:
        raise Failure("openssl is not installed")
    certificate, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    subprocess.run([OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                    "-out", certificate, "-days", "2", "-subj", "/CN=localhost"], check=True, capture_output=True)
    return certificate, key


class Scene:
    """`client(port)` gives the client's Command, which reports the figures."""

    def __init__(self, server, client):
        self.server, self.client = server, client

    def run(self):
        return self.run_with(self.measure)

    def run_with(self, measure):
        server = launch(self.server)
        try:
            return measure(server, port_of(server, self.server))
        finally:
            end(server)

    def measure(self, _, port):
        return self.client(port).run()


class Web(Scene):
    """wrk with 64 connections on a small page: requests per second, and the server's CPU time for each, in µs."""

    def __init__(self, server, seconds=4, path="/small"):
        super().__init__(server, None)
        self.seconds, self.path = seconds, path

    def load(self, url, seconds):
        done = subprocess.run([WRK or "wrk", "-t1", "-c64", f"-d{seconds}s", url], capture_output=True, text=True, timeout=TIME_LIMIT)
        requests, rate = re.search(r"(\d+) requests in", done.stdout), re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
        if not requests or not rate:
            raise Failure(f"wrk: {(done.stderr or done.stdout).strip()[:200]}")
        if "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
            raise Failure(f"wrk met errors: {self.server}")
        return int(requests[1]), float(rate[1])

    def measure(self, server, port):
        if not WRK:
            raise Failure("wrk is not installed")
        url = f"http://127.0.0.1:{port}{self.path}"
        self.load(url, 1)
        before = cpu_seconds(server.pid)
        requests, rate = self.load(url, self.seconds)
        return {"requests": rate, "cpu": 1e6 * (cpu_seconds(server.pid) - before) / requests}


class Pages(Web):
    """The same for a server that is told a folder with a small page, `small.html`, and has a string at /const."""
    PAGE = "<!DOCTYPE html><title>small</title><p>A small page, served by mare.</p>\n"

    def run(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)     # a server that becomes another user reads it, too
            with open(os.path.join(folder, "small.html"), "w") as page:
                page.write(self.PAGE)
            return Scene(with_arguments(self.server, folder), None).run_with(self.measure)


class Spread(Web):
    """The same load on several processes that accept from one server: how many times as many requests the busiest serves as the idlest.
    With `tls` the server is told a certificate and its key as well."""

    def __init__(self, server, seconds=3, tls=False):
        super().__init__(server, seconds, "/")
        self.tls = tls

    def run(self):
        if not self.tls:
            return super().run()
        with tempfile.TemporaryDirectory() as folder:
            return Scene(with_arguments(self.server, *make_certificate(folder)), None).run_with(self.measure)

    def measure(self, server, port):
        if not WRK:
            raise Failure("wrk is not installed")
        _, rate = self.load(f"http{'s' * self.tls}://127.0.0.1:{port}{self.path}", self.seconds)
        server.send_signal(signal.SIGINT)
        served = [int(n) for n in line(server, self.server).split()[1:]]
        return {"requests": rate, "spread": max(served) / max(1, min(served))}


class Held(Scene):
    """A client holds connections open while the server measures itself."""

    def __init__(self, server, count):
        super().__init__(server, lambda port: Command((os.path.join(BUILD, "net"), "hold", str(port), str(count + 100))))
        self.count = count

    def run(self):
        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < self.count + 200:
            raise Failure(f"needs {self.count + 200} descriptors: ulimit -Hn")
        server = launch(self.server, preexec_fn=most_files)
        client = None
        try:
            command = self.client(port_of(server, self.server))
            client = launch(command, stdin=subprocess.PIPE)
            line(client, command)
            name, value, *_ = line(server, self.server).split()
            return {name: float(value)}
        finally:
            if client:
                end(client)
            end(server)


class Tls(Scene):
    """TLS against OpenSSL's own server, which is meant when `server` is None."""

    def __init__(self, server=None, megabytes=0, seconds=0):
        super().__init__(server, None)
        self.megabytes, self.seconds = megabytes, seconds

    def run(self):
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = make_certificate(folder)
            if self.server:
                command = with_arguments(self.server, certificate, key, self.megabytes)
            else:
                with open(os.path.join(folder, "bulk"), "wb") as file:
                    for _ in range(self.megabytes):
                        file.write(b"x" * (1 << 20))
                command = Command((OPENSSL, "s_server", "-accept", "127.0.0.1:0", "-cert", certificate, "-key", key, "-WWW"))
            server = launch(command, stdin=subprocess.DEVNULL, cwd=ROOT if self.server else folder)
            try:
                return self.measure(server, self.port(server, command))
            finally:
                end(server)

    def port(self, server, command):
        if self.server:
            return port_of(server, command)
        while True:                                       # "ACCEPT 127.0.0.1:40123" stands among other lines
            found = re.match(r"ACCEPT .*:(\d+)$", line(server, command).strip())
            if found:
                return int(found[1])

    def measure(self, server, port):
        before = cpu_seconds(server.pid)
        if self.megabytes:
            seconds = self.bulk(port)
            return {"megabytes": self.megabytes / seconds, "cpu": 1000 * (cpu_seconds(server.pid) - before) / self.megabytes}
        count, seconds = self.handshakes(port)
        return {"handshakes": count / seconds, "cpu": 1000 * (cpu_seconds(server.pid) - before) / count}

    def bulk(self, port):
        """The client is OpenSSL again, by Python's ssl: it does little besides decrypting."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        count, buffer, start = 0, bytearray(1 << 16), time.monotonic()
        with socket.create_connection(("127.0.0.1", port), TIME_LIMIT) as plain, context.wrap_socket(plain) as conn:
            conn.sendall(b"GET /bulk HTTP/1.0\n\n")
            while n := conn.recv_into(buffer):
                count += n
        seconds = time.monotonic() - start
        if count < self.megabytes << 20:
            raise Failure(f"only {count} bytes came: {self.server or 's_server'}")
        return seconds

    def handshakes(self, port):
        start = time.monotonic()
        done = subprocess.run([OPENSSL, "s_time", "-connect", f"127.0.0.1:{port}", "-new", "-time", str(self.seconds)],
                              capture_output=True, text=True, timeout=TIME_LIMIT)
        seconds = time.monotonic() - start
        found = re.search(r"(\d+) connections in \d+ real seconds", done.stdout)
        if not found or int(found[1]) == 0:
            raise Failure(f"s_time: {(done.stderr or done.stdout).strip()[:200]}")
        return int(found[1]), seconds
