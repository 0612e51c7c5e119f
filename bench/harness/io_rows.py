"""The rows of waiting and I/O: sockets, TLS, the web server, select, sleepers. See rows.py for what a row is."""
import os

from .commands import BENCH, Command, c, go, lua, mare
from .model import Experiment, Finding, ratio
from .scenes import Held, Pages, Scene, Spread, Tls, Web, node, pinned


def pingpong(trips):
    """Both programs on one CPU: the cost of a trip is the system calls, the switch, and what mare adds."""
    made = {
        "mare 1": Scene(pinned(mare("netecho")), lambda port: pinned(mare("netping", port, trips))),
        "c 1": Scene(pinned(c("net", "echo")), lambda port: pinned(c("net", "ping", port, trips))),
    }
    return Experiment("tcp-pingpong", made, [
        Finding("64-byte TCP ping-pong, both programs on one core", lambda m: m["c 1"]["trips"] / m["mare 1"]["trips"], "<=", 1.2,
                mare=("mare 1",), peers=("c 1",), source="the time of C"),
    ], "trips")


def luasocket(trips, kind):
    """One program over LuaSocket and over mare.socket; both ends on one CPU, so that the cost of a trip is all that counts."""
    def scene(run, module, client_run=None, client_module=None):
        return Scene(pinned(run("socketecho", module, kind)),
                     lambda port: pinned((client_run or run)("socketping", client_module or module, kind, port, trips)))

    def plain(name, *args):
        return lua(name, *args, directory="mare")

    made = {"luasocket": scene(plain, "socket"), "mare 1": scene(mare, "mare.socket"), "lua 1": scene(plain, "mare.socket"),
            "mare 1 client": scene(plain, "socket", mare, "mare.socket")}
    name = f"mare.socket, ping-pong of 16 bytes by {kind}"
    return Experiment(f"luasocket-{kind}", made, [
        Finding(f"{name}{how}", ratio(what, "luasocket", "trips"), ">=", 0.95, mare=(what,), peers=("luasocket",), source="LuaSocket")
        for how, what in ((", mare run", "mare 1"), (", plain lua5.4", "lua 1"), (", the client only", "mare 1 client"))
    ], "trips")


def web():
    """The example itself, not a program made for this."""
    made = {
        "mare 2": Web(mare("webserver", 0, 2, workers=2, directory="../examples")),
        "node 1": Web(node("small")),
        "go 2": Web(go("serve", workers=2)),
    }
    name = "wrk with 64 connections on a small page, 2 workers"
    return Experiment("web", made, [
        Finding(name, ratio("mare 2", "node 1", "requests"), ">=", 1.5, mare=("mare 2",), peers=("node 1",), source="Node's http"),
        Finding(name, ratio("mare 2", "go 2", "requests"), ">=", 0.7, mare=("mare 2",), peers=("go 2",), source="Go's net/http"),
        Finding("the same: CPU time of the server for a request", lambda m: m["mare 2"]["cpu"], unit="µs", mare=("mare 2",),
                peers=("node 1", "go 2"), metric="cpu"),
    ], "requests")


def http():
    """mare.http with its router, limits and a log; nginx without a log, and its two ways: what it has in its configuration, and a file."""
    nginx = Command((os.path.join(BENCH, "nginx", "serve"),))
    made = {f"{language} 2 {what}": Pages(server, path=path) for what, path in (("string", "/const"), ("file", "/small.html"))
            for language, server in (("mare", mare("http", workers=2)), ("nginx", nginx))}
    made["go 2"] = Web(go("serve", workers=2))
    name = "mare.http, wrk with 64 connections, 2 workers"

    def beside(what, peer, target, source):
        return Finding(f"{name}: a {what}", ratio(f"mare 2 {what}", peer, "requests"), ">=", target, mare=(f"mare 2 {what}",), peers=(peer,), source=source)

    return Experiment("http", made, [
        beside("string", "nginx 2 string", 0.8, "nginx's `return 200`"), beside("file", "nginx 2 file", 1.0, "nginx's file"),
        beside("string", "go 2", 1.4, "Go's net/http"),
        Finding(f"{name}: CPU time of the server for a string", lambda m: m["mare 2 string"]["cpu"], unit="µs", mare=("mare 2 string",),
                peers=("nginx 2 string", "go 2"), metric="cpu"),
    ], "requests")


def spread(tls=False):
    """Beside them: goroutines that accept from one listener; Node's cluster, whose first process hands the connections round."""
    sizes = [(workers, n) for workers in ((2,) if tls else (1, 2)) for n in (2, 4)]
    made = {}
    for workers, n in sizes:
        made[f"mare {workers} {n}"] = Spread(mare("spread", n, workers=workers), tls=tls)
        made[f"go {workers} {n}"] = Spread(go("spread", n, workers=workers), tls=tls)
        cluster = node("spread", n)
        made[f"node {workers} {n}"] = Spread(pinned(cluster) if workers == 1 else cluster, tls=tls)
    work = f"wrk with 64 connections{', TLS' * tls}"
    findings = []
    for workers, n in sizes:
        mine, peers = (f"mare {workers} {n}",), (f"go {workers} {n}", f"node {workers} {n}")
        where = f"{work}, on {n} processes that accept from one server, {workers} worker{'s'[:workers - 1]}"
        findings += [
            Finding(f"{where}: requests served, most / least", lambda m, k=mine[0]: m[k]["spread"], "<=", 1.5, "", mine, peers, metric="spread"),
            Finding(f"{where}: requests", ratio(mine[0], peers[0], "requests"), mare=mine, peers=peers, source="Go"),
        ]
    return Experiment("accept-spread" + "-tls" * tls, made, findings, "requests")


def idle(count):
    made = {f"mare 2 {kind}": Held(mare("netidle", kind, count, workers=2), count) for kind in ("process", "fiber")}
    return Experiment("connections", made, [
        Finding(f"{count:,} idle connections, served by a {kind} each", lambda m, k=kind: m[f"mare 2 {k}"]["memory"], "<=", most, "KiB",
                (f"mare 2 {kind}",), metric="memory", source="each") for kind, most in (("process", 12.0), ("fiber", 3.0))
    ], "memory", "KiB")


def tls():
    server = mare("tlsserve", workers=1)
    bulk = {"mare 1": Tls(server, megabytes=512), "openssl 1": Tls(megabytes=512)}
    shake = {"mare 1": Tls(server, seconds=4), "openssl 1": Tls(seconds=4)}
    return [
        Experiment("tls-bulk", bulk, [
            Finding("TLS: bulk transfer", ratio("mare 1", "openssl 1", "megabytes"), ">=", 0.8, mare=("mare 1",), peers=("openssl 1",),
                    source="openssl s_server")], "megabytes", "MB/s"),
        Experiment("tls-handshakes", shake, [
            Finding("TLS: handshakes of openssl s_time", ratio("mare 1", "openssl 1", "handshakes"), ">=", 0.8, mare=("mare 1",),
                    peers=("openssl 1",), source="openssl s_server")], "handshakes"),
    ]


def select2(count):
    made = {}
    for n in (1, 2):
        made.update({f"mare {n}": mare("select2", count, workers=n), f"mare {n} selector": mare("select2", count, "selector", workers=n),
                     f"go {n}": go("select2", count, workers=n)})
    return Experiment("select-2", made, [
        Finding(f"select over 2 channels{', by a selector' * bool(kind)}, {n} worker{'s'[:n - 1]}",
                ratio(f"mare {n}{kind}", f"go {n}", "messages"), ">=", 1.0, mare=(f"mare {n}{kind}",), peers=(f"go {n}",),
                source="Go's select") for kind in ("", " selector") for n in (1, 2)
    ], "messages")


def select_many(count):
    """How many others wait must not matter; 0.9, because 1,000 waiters with 1,000 places each don't fit into any cache."""
    made = {f"mare 1 {n} call": mare("selectmany", 1000, n, count) for n in (10, 100, 1000)}
    made.update({f"mare 1 {n}": mare("selectmany", 1000, n, 10 * count, "selector") for n in (10, 100, 1000)})
    return Experiment("select-1000", made, [
        Finding(f"select over 1,000 channels{how}: wake-ups with {n:,} waiting against 10",
                ratio(f"mare 1 {n}{kind}", f"mare 1 10{kind}", "wakes"), ">=", 0.9, mare=(f"mare 1 10{kind}", f"mare 1 {n}{kind}"),
                source="10 waiting") for kind, how in (("", ", by a selector"), (" call", "")) for n in (100, 1000)
    ], "wakes")


def sleepers(count, seconds):
    made = {"mare 1": mare("sleepers", count, seconds), "go 1": go("sleepers", count, seconds)}
    name = f"{count:,} sleepers due over {seconds} s"
    return Experiment("sleepers", made, [
        Finding(f"{name}: woken", lambda m: m["mare 1"]["woken"], ">=", count, "sleepers", ("mare 1",), ("go 1",), metric="woken"),
        Finding(f"{name}: median lateness", lambda m: m["mare 1"]["late"], "<=", 1.0, "ms", ("mare 1",), ("go 1",)),
    ], "late", "ms")


def experiments():
    return [pingpong(100000), luasocket(100000, "lines"), luasocket(100000, "bytes"), web(), http(), spread(), spread(tls=True), idle(10000), *tls(),
            select2(1000000), select_many(20000), sleepers(100000, 10)]
