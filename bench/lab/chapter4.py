"""Chapter 4 of the study on this machine: real programs from packages, traced and described, beside the published values.

    python bench/lab/chapter4.py DIR [--replications N] [--only NAME,…]

Each program is traced N times (3). DIR gets tables.txt (tables 4.21 to 4.23, shares and patterns as in figures 4.19 and 4.20, their averages), the
same as CSV, programs.json (the measures of every replication) and figures (SVG): sizes and long-lived allocations of each program (4.3 to 4.18),
4.19 and 4.20. Counts don't depend on how busy the machine is; which allocations are long-lived does, a little.
"""

import argparse
import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from marelab import describe, env, progress, published, recordings, trace
from marelab.scenarios import desktop, servers

PUBLISHED = {p["short_name"]: p for p in published.programs().values()}
AVERAGES = published.study()["averages"]
SERVERS_START = 60.0  # seconds, on a busy machine


# ---- the programs ----

@dataclass(frozen=True)
class Program:
    name: str
    like: str | None  # the study's program of the same kind
    what: str
    needs: tuple[str, ...]
    argv: Callable[[Path], list[str]]  # in a folder of its own
    drive: Callable[[Path], None] | None = None  # for a server: waits for it, sends requests, ends it


def lua(place: Path) -> list[str]:
    return ["lua5.4", str(Path(__file__).with_name("tables.lua"))]


def python(place: Path) -> list[str]:
    (place / "work.py").write_text("import json, re\n"
                                   "rows = [{'id': i, 'name': f'x{i % 977}', 'v': [i, i * 2.5, str(i)]} for i in range(150000)]\n"
                                   "text = json.dumps(rows)\ncopy = json.loads(text)\nseen = {}\n"
                                   "for m in re.finditer(r'\"x\\d+\"', text): seen[m.group()] = seen.get(m.group(), 0) + 1\n"
                                   "assert len(copy) == 150000 and len(seen) == 977\n")
    return ["/usr/bin/python3", "-I", str(place / "work.py")]


def sqlite(place: Path) -> list[str]:
    (place / "q.sql").write_text(
        "create table t(a integer primary key, b text, c real);\n"
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000) insert into t select i, 'name' || (i * 7919 % 100003), "
        "i * 1.5 from n;\ncreate index tb on t(b);\nselect count(*) from t where b like 'name1%';\n"
        "select substr(b, 1, 6) k, sum(c) from t group by k order by 2 desc limit 5;\ndelete from t where a % 3 = 0;\n"
        + "".join(f"select max(c) from t where b = 'name{i * 37 % 100003}';\n" for i in range(3000)))
    return ["sqlite3", ":memory:", f".read {place / 'q.sql'}"]


def gcc(place: Path) -> list[str]:
    body = ("int f{n}(int n, const char *s) {{ int r = {n}; for (int i = 0; i < n; i++) {{ switch (s[i] & 7) {{ case 0: r += i * {n}; break;\n"
            "case 1: r ^= i; break; case 3: r = r * 31 + s[i]; break; default: r -= s[i]; }} if (r > 1000) r /= {n} + 1; }}\n"
            "return r + strlen(s); }}\n")
    (place / "f.c").write_text("#include <string.h>\n#include <stdio.h>\n#include <stdlib.h>\n" + "".join(body.format(n=i) for i in range(300)))
    return ["gcc", "-O2", "-c", str(place / "f.c"), "-o", str(place / "f.o")]


def lynx(place: Path) -> list[str]:
    return desktop.lynx(place).argv


def wait_for(ready: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SERVERS_START
    while not ready():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} did not start")
        time.sleep(0.05)


def end_server(place: Path) -> None:
    """By the number it wrote into its file: it is ours."""
    os.kill(int((place / "pid").read_text()), signal.SIGTERM)


def apache(place: Path) -> list[str]:
    """In a session of its own: when it ends it signals its whole process group."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    (place / "port").write_text(str(port))
    (place / "www").mkdir()
    (place / "www/index.html").write_text("<p>hello " * 400)
    modules = "".join(f"LoadModule {m}_module /usr/lib/apache2/modules/mod_{m}.so\n" for m in ("mpm_prefork", "authz_core", "mime", "dir"))
    (place / "conf").write_text(f"ServerRoot {place}\nServerName localhost\nListen 127.0.0.1:{port}\n{modules}PidFile {place}/pid\n"
                                f"ErrorLog {place}/log\n"
                                "StartServers 1\nMinSpareServers 1\nMaxSpareServers 2\nMaxRequestWorkers 2\nTypesConfig /etc/mime.types\n"
                                f"DocumentRoot {place}/www\nUser {user()}\nGroup {group()}\n")
    for f in (place, *place.rglob("*")):
        f.chmod(0o755)
    return ["setsid", "/usr/sbin/apache2", "-f", str(place / "conf"), "-D", "FOREGROUND"]


def user() -> str:
    return "www-data" if os.getuid() == 0 else f"#{os.getuid()}"


def group() -> str:
    return "www-data" if os.getuid() == 0 else f"#{os.getgid()}"


def drive_apache(place: Path) -> None:
    port = int((place / "port").read_text())
    wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0 and (place / "pid").exists(), "apache2")
    subprocess.run(["ab", "-q", "-n", "4000", "-c", "20", f"http://127.0.0.1:{port}/"], check=True, capture_output=True)
    end_server(place)


def mariadb(place: Path) -> list[str]:
    made = servers.mysql(place)
    (place / "load").write_text(made.load)
    return made.argv


def drive_mariadb(place: Path) -> None:
    wait_for(lambda: (place / "s").exists() and (place / "pid").exists(), "mariadbd")
    subprocess.run(["sh", str(place / "load")], check=True, capture_output=True)
    end_server(place)


PROGRAMS = [
    Program("mariadbd", "MySQL", "50 clients of mariadb-slap, 36 operations each on a video rental (as the study's)", ("mariadbd", "mariadb-slap"),
            mariadb, drive_mariadb),
    Program("apache2", "Cherokee", "ab, 20 clients, 4000 requests of one page; its busiest forked child", ("apache2", "ab"), apache, drive_apache),
    Program("gcc", None, "the compiler proper, -O2 on 300 functions", ("gcc",), gcc),
    Program("python3", None, "JSON written, read and searched; pymalloc serves its small objects itself", ("/usr/bin/python3",), python),
    Program("lua5.4", None, "tables and strings (bench/lab/tables.lua)", ("lua5.4",), lua),
    Program("sqlite3", None, "300,000 rows in memory: insert, index, group, delete, 3000 queries", ("sqlite3",), sqlite),
    Program("lynx", "Lynx", "five pages in one session, from disk", ("lynx",), lynx),
]


# ---- tracing ----

def traced(program: Program, place: Path) -> dict:
    """One replication: the description of the program's busiest process."""
    argv = program.argv(place)
    problems = []

    def drive():
        try:
            program.drive(place)
        except Exception as error:
            problems.append(error)
            if (place / "pid").exists():
                end_server(place)

    driver = threading.Thread(target=drive) if program.drive else None
    if driver:
        driver.start()
    t = trace.record(argv, place / "trace", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
    if driver:
        driver.join()
    if problems:
        raise RuntimeError(f"{program.name}: {problems[0]}")
    d = describe.describe(t)
    if t.header["status"] not in (0, -signal.SIGTERM):
        raise RuntimeError(f"{program.name} ended with status {t.header['status']}")
    return d


# ---- tables ----

TABLES = {
    "4.21 Memory": ("allocations", "megabytes", "mean_bytes", "distinct_sizes", "top_ten"),
    "4.22 Routines, %": ("malloc", "realloc", "calloc"),
    "4.23 Frees": ("frees", "null_frees"),
    "4.20 Retention, %, and pattern": ("short", "medium", "long", "pattern"),
}
HEADS = {"megabytes": "MB", "mean_bytes": "mean bytes", "distinct_sizes": "sizes", "top_ten": "ten sizes %", "null_frees": "null %"}


def shown(name: str, value) -> str:
    if value is None or isinstance(value, str):
        return value or "–"
    return f"{value:,.0f}" if name in ("allocations", "frees", "distinct_sizes") else f"{value:,.2f}"


def average(rows: list[dict], name: str):
    return None if name in ("pattern", "allocations", "megabytes", "mean_bytes", "frees", "null_frees") else float(np.mean([r[name] for r in rows]))


def table_rows(found: dict[str, dict], names: tuple) -> list[list]:
    rows = [["program", *(HEADS.get(n, n) for n in names)]]
    for p in PROGRAMS:
        if p.name not in found:
            continue
        rows.append([p.name, *(found[p.name][n] for n in names)])
        if p.like:
            rows.append([f"  published: {p.like}", *(PUBLISHED[p.like][n] for n in names)])
    rows.append(["average here", *(average(list(found.values()), n) for n in names)])
    rows.append(["average published", *(AVERAGES.get(n) if n in AVERAGES else None for n in names)])
    return rows


def write_tables(out: Path, found: dict[str, dict], replications: int) -> str:
    parts = [f"Means of {replications} replications. Beside a program that is of the same kind as one of the study's: the published row.",
             "The study's averages: ten sizes cover 75 % of the allocations, 88 % are by malloc, 72 % are short-lived, 20.5 % long-lived."]
    for title, names in TABLES.items():
        rows = table_rows(found, names)
        with open(out / f"table-{title.split()[0]}.csv", "w", newline="") as f:
            csv.writer(f).writerows(rows)
        cells = [rows[0], *([r[0], *(shown(n, v) for n, v in zip(names, r[1:]))] for r in rows[1:])]
        widths = [max(map(len, column)) for column in zip(*cells)]
        lines = ("  ".join(v.ljust(w) if i == 0 else v.rjust(w) for i, (v, w) in enumerate(zip(row, widths))).rstrip() for row in cells)
        parts.append("\n".join([f"Table {title}" if not title.startswith("4.20") else f"Figure {title}", *lines]))
    text = "\n\n".join(parts) + "\n"
    (out / "tables.txt").write_text(text)
    return text


# ---- figures ----

INK, SOFT = "#1b4f72", "#d98c5f"


def thinned(x, y, most: int = 400):
    keep = np.unique(np.linspace(0, len(x) - 1, most).astype(int)) if len(x) > most else np.arange(len(x))
    return np.asarray(x, dtype=float)[keep], np.asarray(y, dtype=float)[keep]


def draw_program(path: Path, p: Program, d: dict) -> None:
    """As figures 4.3 and 4.4, of one program."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    number = np.array(d["sizes"]["number"], dtype=float)
    left.step(*thinned(d["sizes"]["size"], 100 * np.cumsum(number) / number.sum()), where="post", color=INK)
    left.set_xscale("symlog", base=2, linthresh=1)
    left.set(title=f"{p.name}: sizes", xlabel="bytes", ylabel="allocations up to it (%)", ylim=(0, 101))
    long = d["long_lived"]["cumulative"]
    right.plot(*thinned(np.arange(1, len(long) + 1), long), color=INK)
    right.set(title=f"long-lived ({d['pattern']['name']}" + (f"; published {p.like}: {PUBLISHED[p.like]['pattern']})" if p.like else ")"),
              xlabel="blocks of 1000 operations", ylabel="allocations, cumulated")
    right.set_ylim(bottom=0)
    save(figure, path)


def bars(axes, labels: list[str], values: list[float], colours: list[str]) -> None:
    axes.barh(labels, values, color=colours)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)


def draw_comparison(out: Path, found: dict[str, dict]) -> None:
    """Figures 4.19 and 4.20: ours, then the published programs."""
    rows = [(n, m, INK) for n, m in found.items()] + [(f"{n} (published)", m, SOFT) for n, m in PUBLISHED.items()]
    figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
    bars(axes, [n for n, _, _ in rows], [m["top_ten"] for _, m, _ in rows], [c for _, _, c in rows])
    axes.set(title="Share of the ten most frequent sizes (figure 4.19)", xlabel="%", xlim=(0, 100))
    save(figure, out / "figure-4.19.svg")
    figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
    left = np.zeros(len(rows))
    for kind, colour in (("short", "#85c1e9"), ("medium", "#2e86c1"), ("long", "#1b2631")):
        values = np.array([m[kind] for _, m, _ in rows])
        axes.barh([n for n, _, _ in rows], values, left=left, color=colour, label=kind)
        left += values
    axes.invert_yaxis()
    axes.set(title="Retention (figure 4.20)", xlabel="share of the allocations (%)", xlim=(0, 100))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, -0.2), ncol=3, frameon=False)
    save(figure, out / "figure-4.20.svg")


def save(figure, path: Path) -> None:
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "mare"}):
        figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


# ---- all ----

def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--replications", type=int, default=3)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    chosen = [p for p in PROGRAMS if not args.only or p.name in args.only.split(",")]
    args.out.mkdir(parents=True, exist_ok=True)
    runs: dict[str, list[dict]] = {}
    with progress.bar(len(chosen) * args.replications, "chapter 4", "run") as bar:
        for p in chosen:
            missing = [n for n in p.needs if not shutil.which(n) and not shutil.which(n, path="/usr/sbin")]
            if missing:
                print(f"left out: {p.name}: {', '.join(missing)} is not here", file=sys.stderr)
                bar.update(args.replications)
                continue
            for i in range(args.replications):
                with tempfile.TemporaryDirectory(prefix="mare-lab-chapter4-", dir="/var/tmp") as place:
                    d = traced(p, Path(place).resolve())
                runs.setdefault(p.name, []).append(recordings.measures(d))
                if i == 0:
                    draw_program(args.out / f"{p.name}.svg", p, d)
                bar.update(1)
    found = {n: recordings.mean_of(r) for n, r in runs.items()}
    draw_comparison(args.out, found)
    what = {p.name: {"like": p.like, "what": p.what, "mean": found[p.name], "runs": runs[p.name]} for p in chosen if p.name in found}
    result = {"replications": args.replications, "programs": what, "machine": env.machine()}
    (args.out / "programs.json").write_text(json.dumps(result, indent=1) + "\n")
    print(write_tables(args.out, found, args.replications), end="")


if __name__ == "__main__":
    main()
