"""Programs under measurement: how each is built, started and read.

A command is started, prints "metric value unit" lines and ends with code 0; anything else is a Failure with the
reason in one line. Every command runs in a session of its own, so that a time limit ends all of it.
"""
import glob
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, "bench")
BUILD = os.path.join(ROOT, "build", "bench")
TIME_LIMIT = 60  # seconds for one program


class Failure(Exception):
    """A program that could not be built or run; the message says which and why."""


def find_tool(name, *places):
    found = shutil.which(name)
    for place in places:
        if not found and os.access(os.path.join(place, name), os.X_OK):
            found = os.path.join(place, name)
    return found


LUA = find_tool("lua5.4") or find_tool("lua")
GO = find_tool("go", "/usr/local/go/bin")
ERL, ERLC = find_tool("erl"), find_tool("erlc")
CC = find_tool(os.environ.get("CC", "cc")) or find_tool("gcc")
MARE = os.environ.get("MARE", os.path.join(ROOT, "bin", "mare"))
MIMALLOC = next((path for pattern in ("/usr/lib/*/libmimalloc.so*", "/usr/local/lib/libmimalloc.so") for path in sorted(glob.glob(pattern))), None)


@dataclass(frozen=True)
class Command:
    argv: tuple
    env: dict = field(default_factory=dict, hash=False)
    copies: int = 1  # > 1: that many OS processes at the same time, their rates summed

    def twice(self):
        return Command(self.argv, self.env, 2)

    def start(self):
        return subprocess.Popen(self.argv, env={**os.environ, **self.env}, cwd=ROOT, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def run(self, limit=TIME_LIMIT):
        """Returns {metric: value}; raises Failure."""
        try:
            running = [self.start() for _ in range(self.copies)]
        except OSError as error:
            raise Failure(f"{self.argv[0]}: {error.strerror}") from None
        results = [self._finish(process, time.monotonic() + limit, limit) for process in running]
        for result in results:
            if isinstance(result, Failure):
                raise result
        return {metric: sum(r[metric] for r in results) for metric in results[0]}

    def _finish(self, process, deadline, limit):
        try:
            out, err = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return Failure(f"no end within {limit} s: {self}")
        if process.returncode != 0:
            lines = err.strip().splitlines() or ["no message"]
            return Failure(f"exit {process.returncode}: {self}: {lines[0]}")
        metrics = {}
        for line in out.splitlines():
            words = line.split(None, 2)
            if len(words) == 3:
                metrics[words[0]] = float(words[1])
        return metrics or Failure(f"no figures: {self}")

    def __str__(self):
        return " ".join(os.path.relpath(a, ROOT) if a.startswith(ROOT) else a for a in self.argv)


def _lua_env(directory):
    """Where a script of bench/ finds its helpers, and plain Lua finds mare."""
    shared = os.environ.get("MARE_LIB", os.path.join(ROOT, "build", "plain", "lib"))
    return {
        "LUA_PATH": ";".join([f"{BENCH}/{directory}/?.lua", f"{ROOT}/lua/?.lua", f"{ROOT}/lua/?/init.lua", ";"]),
        "LUA_CPATH": f"{shared}/?.so;{BUILD}/luabins/?.so;;",
        "LUA_INIT": "",
    }


def _script(directory, name):
    return os.path.join(BENCH, directory, name + ".lua")


def mare(name, *args, workers=1, directory="mare", options=()):
    return Command((MARE, "run", "-w", str(workers), *options, _script(directory, name), *map(str, args)), _lua_env(directory))


def lua(name, *args, directory="cpu"):
    return Command((LUA or "lua5.4", _script(directory, name), *map(str, args)), _lua_env(directory))


def script(directory, name, *args, env=None):
    """A program in plain Lua that needs nothing of ours."""
    return Command((LUA or "lua5.4", _script(directory, name), *map(str, args)), {"LUA_INIT": ""} | (env or {}))


def luaproc(name, *args, workers=1):
    """A program written for luaproc, by mare's module; its last argument says how many workers."""
    return mare(name, *args, workers, workers=workers, directory="luaproc")


def go(row, *args, workers=1):
    return Command((os.path.join(BUILD, "peers"), row, *map(str, args)), {"GOMAXPROCS": str(workers)})


def erlang(row, *args, workers=1):
    return Command((ERL or "erl", "+S", f"{workers}:{workers}", "-noshell", "-pa", os.path.join(BUILD, "erlang"),
                    "-run", "peers", "main", row, *map(str, args)))


def c(name, *args):
    return Command((os.path.join(BUILD, name), *map(str, args)))


def build():
    """Builds the peers; returns {language: reason} for those that can't run here."""
    os.makedirs(os.path.join(BUILD, "erlang"), exist_ok=True)
    missing = {}
    sources = glob.glob(os.path.join(BENCH, "erlang", "*.erl"))
    steps = {
        "go": GO and [GO, "build", "-o", os.path.join(BUILD, "peers"), "."],
        "erlang": ERL and ERLC and [ERLC, "-Werror", "-o", os.path.join(BUILD, "erlang"), *sources],
        "c": CC and ["sh", "-ec", "for name; do \"$0\" -std=c11 -D_DEFAULT_SOURCE -O2 -o \"$name\" \"../../bench/c/$name.c\"; done",
                     CC, "strings", "net"],
        "mpi": find_tool("mpirun") and find_tool("mpicc") and [find_tool("mpicc"), "-std=c11", "-O2", "-o", os.path.join(BUILD, "allreduce"),
                                                               os.path.join(BENCH, "mpi", "allreduce.c")],
        "node": find_tool("node") and ["node", "--version"],
        "openssl": find_tool("openssl") and ["openssl", "version"],
        "lua": LUA and [LUA, "-v"],
        "luaproc": LUA and [LUA, "-v"],
        "luabins": ["tools/fetch-luabins"],
        "mimalloc": MIMALLOC and ["test", "-r", MIMALLOC],
        "mare": os.access(MARE, os.X_OK) and [MARE, "--version"],
    }
    for language, argv in steps.items():
        if not argv:
            missing[language] = "not installed" if language != "mare" else f"{os.path.relpath(MARE, ROOT)} is not built (make build)"
            continue
        cwd = {"go": os.path.join(BENCH, "go"), "c": BUILD}.get(language, ROOT)
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True)
        if done.returncode != 0:
            missing[language] = (done.stderr or done.stdout).strip().splitlines()[0]
    return missing


def language(label):
    """The language of a run's label: "go 2" → "go"."""
    return label.split()[0]
