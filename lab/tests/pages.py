"""A made-up choice with an explanation, written as `mare lab choose` writes it; and a browser that looks at its page."""

import csv
import json
import random
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote

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


def seen(page: Path, script: str, width: int = 1000):
    """What the script, whose value is JSON, finds in the page when all is drawn."""
    browser = next((b for b in map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")) if b), None)
    if not browser:
        pytest.skip("no Chromium here: tools/setup test")
    copy = page.with_name("scripted.html")
    step = f"setTimeout(() => {{ let found; try {{ found = (() => {{ {script} }})(); }} catch (e) {{ found = 'failed: ' + e.stack; }} " \
           "document.body.dataset.found = encodeURIComponent(JSON.stringify(found)); }, 100);"
    copy.write_text(page.read_text().replace("</body>", f"<script>{step}</script></body>"))
    r = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900", "--virtual-time-budget=3000", f"--user-data-dir={page.parent}/browser",
                        "--dump-dom", copy.as_uri()], capture_output=True, text=True, timeout=120)
    said = re.search(r'data-found="([^"]*)"', r.stdout)
    assert said, r.stderr
    return json.loads(unquote(said[1]))
