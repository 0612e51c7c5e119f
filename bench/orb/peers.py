"""The ORBs that are measured: how their servers and clients are started, what they say, what the servers' memory was.

A server prints its reference and serves bench.idl's Sender until it is killed; a client prints a line "WORK ms ms …" for each work it was given
(cpp/client.cc has the arguments). Both run on a CPU if one is told, and in a network of wire.c's if its words stand before.
"""
import os
import struct
import subprocess
import tempfile
import threading

from harness import commands
from harness.commands import ROOT

HOST = "127.0.0.1"
LONGEST = ["-ORBgiopMaxMsgSize", "8388608"]
# what spec/orb_peers/build makes for each
BUILDS = {"omniORB": "bench-cpp", "JacORB": "bench-java", "GlassFish": "bench-glassfish"}


def java(host, program):
    return ["java", "-cp", "build/orb_peers/bench-java/classes:build/orb_peers/jars/*", f"-DOAIAddr={host}", program]


def glassfish(host, program):
    return ["java", "-cp", "build/orb_peers/bench-glassfish/classes:build/orb_peers/glassfish-jars/*", f"-Dcom.sun.corba.ee.ORBServerHost={host}",
            "-Dorg.omg.CORBA.ORBClass=com.sun.corba.ee.impl.orb.ORBImpl", "-Dorg.omg.CORBA.ORBSingletonClass=com.sun.corba.ee.impl.orb.ORBSingleton",
            "-Dcom.sun.corba.ee.transport.ORBMaximumReadByteBufferSize=8388608", program]


def mare(program, *words):
    return [commands.MARE, "run", f"bench/orb/mare/{program}.lua", *words]


def endpoint(host):
    return ["-ORBendPoint", f"giop:tcp:{host}:"]


SERVERS = {                                              # (host, further words)
    "omniORB": lambda host, more: ["build/orb_peers/bench-cpp/server", *(more or endpoint(host)), *LONGEST],
    "JacORB": lambda host, more: [*java(host, "Server"), *more],
    "GlassFish": lambda host, more: [*glassfish(host, "Server"), *more],
    "mare": lambda host, more: mare("server", *(more or ([] if host == HOST else endpoint(host)))),
}
CLIENTS = {
    "omniORB": lambda args: ["build/orb_peers/bench-cpp/client", *args, *LONGEST],
    "JacORB": lambda args: [*java(HOST, "Client"), *args],
    "GlassFish": lambda args: [*glassfish(HOST, "Client"), *args],
    "mare": lambda args: mare("client", *args),
}


def missing(names):
    """{name: why}, of those whose programs can't be built here."""
    found = {}
    for name in names:
        if name in BUILDS:
            done = subprocess.run(["spec/orb_peers/build", BUILDS[name]], cwd=ROOT, capture_output=True, text=True)
            if done.returncode:
                found[name] = done.stderr.strip()[-300:]
    return found


def tls_words(folder, name):
    """The options of a server or client that speaks TLS."""
    words = ["-ORBsslCAFile", f"{folder}/ca.pem", "-ORBsslKeyFile", f"{folder}/both.pem", "-ORBsslVerifyMode", "peer,fail",
             "-ORBendPoint", "giop:ssl:127.0.0.1:"]
    return words + ["-ORBsslKeyPassword", "none"] if name == "omniORB" else words


def string(text):
    data = text.encode() + b"\0"
    return struct.pack("<I", len(data)) + data


def aligned(data, size):
    return data + bytes(-len(data) % size)


def reference(key):
    """An IOR as an omniORB server would give, of an object that nobody asks for."""
    def component(tag, body):
        return struct.pack("<II", tag, len(body)) + aligned(body, 4)
    sets = b"\1\0\0\0" + struct.pack("<III", 0x00010001, 1, 0x05010001) + struct.pack("<III", 0x00010109, 1, 0x00010109)
    profile = aligned(b"\1\1\2\0" + string("127.0.0.1"), 2) + struct.pack("<H", 9)
    profile = aligned(profile, 4) + struct.pack("<I", len(key)) + key
    profile = aligned(profile, 4) + struct.pack("<I", 2) + component(0, b"\1\0\0\0\0TTA") + component(1, sets)
    ior = aligned(b"\1\0\0\0" + string("IDL:ORBTests/Sender:1.0"), 4) + struct.pack("<III", 1, 0, len(profile)) + profile
    return "IOR:" + ior.hex()


def references():
    """A file of ten references; who asks for it removes it."""
    with tempfile.NamedTemporaryFile("w", suffix=".refs", delete=False) as file:
        file.write("".join(reference(b"key %d" % k) + "\n" for k in range(10)))
    return file.name


def on(core):
    return ["taskset", "-c", str(core)] if core is not None else []


class Server:
    """A server of one ORB, on one core if told; with memory=True its sizes are sampled every 10 ms, their greatest kept."""

    def __init__(self, name, core=None, extra=(), memory=False, tls=None, place=(), host=HOST):
        command = [*place, *on(core), *SERVERS[name](host, [*extra, *(tls_words(tls, name) if tls else [])])]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.reference = self.process.stdout.readline().strip()
        if not self.reference.startswith("IOR:"):
            self.stop()
            raise RuntimeError(f"the server of {name} says {self.reference!r}")
        self.peak = {"SZ": 0, "VSZ": 0, "RSS": 0}
        self.stopped = threading.Event()
        self.sampler = threading.Thread(target=self.sample) if memory else None
        if self.sampler:
            self.sampler.start()

    def sample(self):
        page = os.sysconf("SC_PAGE_SIZE") / 1e6
        while not self.stopped.wait(0.01):
            with open(f"/proc/{self.process.pid}/statm") as file:
                total, resident, _, text, _, data, _ = (int(v) for v in file.read().split())
            for name, pages in (("VSZ", total), ("RSS", resident), ("SZ", text + data)):
                self.peak[name] = max(self.peak[name], pages * page)

    def stop(self):
        if getattr(self, "sampler", None):
            self.stopped.set()
            self.sampler.join()
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def run_client(name, args, core, seconds=600, place=()):
    command = [*place, *on(core), *CLIENTS[name](args)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds)
    if done.returncode != 0:
        raise RuntimeError(f"{name}'s client: {done.stderr.strip()[-400:] or done.stdout[-400:]}")
    lines = (line.split() for line in done.stdout.splitlines())
    return {line[0]: [float(v) for v in line[1:]] for line in lines if line}
