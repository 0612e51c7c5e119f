"""A made-up choice with an explanation, written as `mare lab choose` writes it; and a browser that looks at its page."""

import csv
import json
import random
import select
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from traces import Writer

from marelab import answer, describe, env, format, report, sites

COLUMNS = ("block", "order", "warm_up", "allocator", "problem", "wall_s", "cpu_s", "peak_kib", "minor_faults", "load", "steal_ticks", "preempted", "when", "affinity")
SLOW = {"glibc": 1.2, "jemalloc": 1.0, "mimalloc": 1.1}


def rows() -> list[dict[str, str]]:
    rng, out = random.Random(5), []
    for block in range(1, 13):
        for order, (name, slow) in enumerate(SLOW.items()):
            wall = slow * rng.uniform(0.99, 1.01)
            values = (block, order, 0, name, "", wall, wall * 0.9, 20000 * slow, 3000, 0.5, 0, 1, f"2026-01-01T00:{block:02d}:{order:02d}", "0,1")
            out.append(dict(zip(COLUMNS, map(str, values))))
    return out


def described(place: Path) -> dict:
    w = Writer()
    for i in range(6000):
        w.clock = i * 100
        w.malloc(i, 16 << i % 12)
        if i >= 100:
            w.free(i - 100)
    return describe.describe(format.load(w.save(place / "made")))


def stacks(number: int, depth: int = 3) -> dict:
    """So many different chains of calls, each of one allocation more than the one before it."""
    names = [f"f{k} (prog)" for k in range(400)]
    rng = random.Random(9)
    paths = [[rng.randrange(9), *(rng.randrange(400) for _ in range(depth - 1)), 0] for _ in range(number)]
    return sites.trees(names, paths, [(i + 1, 100 * (i + 1), i + 1) for i in range(number)]) | {
        "every": 1, "samples": number, "stacks": number, "peak": 0, "cut": 0, "limit": False, "nameless": ["libx.so"]}


def made(place: Path, found: dict, program: str = "prog") -> Path:
    """The page."""
    place.mkdir()
    text, d = rows(), described(place)
    with open(place / "runs.csv", "w", newline="") as f:
        w = csv.DictWriter(f, COLUMNS)
        w.writeheader()
        w.writerows(text)
    shared = {"samples": 100, "allocator": 0.2, "allocator_low": 0.15, "allocator_high": 0.25, "kernel_memory": 0.1, "most": 0.3, "by": "symbols", "top": []}
    about = {"kind": "choose", "version": answer.VERSION, "command": shlex.join(["mare", "lab", "choose", "--", program]), "program": [program], "response": "wall", "margin": 0.05, "seed": 1,
             "stopped": "all is narrow", "machine": env.machine(), "share": shared, "out": {}, "present": "glibc", "repeated": 0, "service": None, "gain": [],
             "allocators": [{"name": n, "library": None, "version": "1", "package": None, "is": "", "env": {}, "seen": []} for n in SLOW],
             **answer.assess(list(SLOW), text, "wall", 0.05, "glibc")}
    by = {n: {"seconds": [0.01 * i for i in range(100)], "kib": [1000 + 50 * i for i in range(100)]} for n in SLOW}
    about["explanation"] = {"description": d, "sentences": ["It asks for 1,234,567 bytes."], "problem": None, "replay": None, "fit": None, "study": None, "sites": found,
                            "memory": {"by": by, "missing": {}}}
    (place / "choose.json").write_text(json.dumps(about))
    report.write(place, place / "report.html")
    return place / "report.html"


class Browser:
    """Chromium without a window, driven through its DevTools pipe: JSON messages, each ended by a NUL. One browser looks at several pages, one after another."""

    LIMIT = 120  # seconds for one answer, or until a page is drawn

    def __init__(self, folder: Path):
        program = next((b for b in map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")) if b), None)
        if not program:
            pytest.skip("no Chromium here: tools/setup test")
        self.stderr = folder / "stderr"
        with open(self.stderr, "wb") as err:  # its pipe is descriptors 3 and 4
            self.process = subprocess.Popen(["sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null', "sh", program, "--headless", "--no-sandbox", "--disable-gpu",
                                             "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={folder}/profile"],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, bufsize=0)
        self.got, self.last = b"", 0

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        try:
            self.process.stdin.close()  # the end of the pipe is the end of the browser
            self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

    def fail(self, why: str):
        raise AssertionError(f"{why}; the browser (status {self.process.poll()}) said: {self.stderr.read_text(errors='replace')[-2000:]}")

    def message(self, deadline: float) -> dict:
        while b"\0" not in self.got:
            if not select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                self.fail("no answer in time")
            more = self.process.stdout.read(1 << 16)
            if not more:
                self.fail("it ended")
            self.got += more
        text, _, self.got = self.got.partition(b"\0")
        return json.loads(text)

    def answer(self, method: str, session: str | None = None, **parameters) -> dict:
        """The answer to a command, which may be an error; what is told of its own accord meanwhile is not needed."""
        self.last += 1
        deadline, words = time.monotonic() + self.LIMIT, {"id": self.last, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        try:
            self.process.stdin.write(json.dumps(words).encode() + b"\0")
        except BrokenPipeError:
            self.fail("it ended")
        while (m := self.message(deadline)).get("id") != self.last:
            pass
        return m

    def call(self, method: str, session: str | None = None, **parameters) -> dict:
        m = self.answer(method, session, **parameters)
        if "error" in m or m["result"].get("errorText"):
            self.fail(f"{method}: {m}")
        return m["result"]

    def run(self, session: str, script: str):
        """What a JavaScript function with this body returns."""
        r = self.call("Runtime.evaluate", session, expression=f"(() => {{ {script} }})()", returnByValue=True)
        if "exceptionDetails" in r:
            self.fail(f"{r['exceptionDetails'].get('exception', {}).get('description')} in {script}")
        return r["result"].get("value")

    def seen(self, page: Path, script: str, width: int = 1000):
        """What the script, whose value is JSON, finds in the page when all is drawn: charts are, once the browser has told them their width."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Emulation.setDeviceMetricsOverride", session, width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", session, url=page.as_uri())
        deadline = time.monotonic() + self.LIMIT
        drawn = f"""location.href === {json.dumps(page.as_uri())} && document.readyState === 'complete' && innerWidth === {width} &&
                    [...document.querySelectorAll('.chart')].every(c => c.querySelector('svg'))"""
        while (m := self.answer("Runtime.evaluate", session, expression=drawn)).get("result", {}).get("result", {}).get("value") is not True:  # an error between two pages
            if time.monotonic() > deadline:
                self.fail(f"{page} was not drawn: {m}; it has {self.run(session, 'return document.documentElement.outerHTML.slice(-1000);')}")
            time.sleep(0.05)
        found = self.run(session, script)
        self.call("Target.closeTarget", targetId=target)
        return found
