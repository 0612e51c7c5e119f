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

from marelab import describe, env, progress, trace

# From the study's tables 4.5 to 4.23. Shares in per cent. (Of the VLC player's audio the text says 76.11 for the ten sizes where the table says
# 76.41, of MySQL's distinct sizes 775 where the table says 755; here stand the tables.)
COLUMNS = ("allocations", "megabytes", "mean_bytes", "distinct_sizes", "top_ten", "malloc", "realloc", "calloc", "frees", "null_frees", "short",
           "medium", "long", "pattern")
PUBLISHED = {name: dict(zip(COLUMNS, row)) for name, *row in [
    ("MySQL", 467348, 686, 1467.40, 755, 87.9, 99.91, 0.06, 0.03, 493965, 11.80, 87.65, 5.31, 7.04, "peak"),
    ("Cherokee", 31727, 14, 420.13, 114, 92.12, 87.49, 12.38, 0.14, 29017, 0.02, 85.16, 5.28, 9.56, "peak"),
    ("Code::Blocks", 12412302, 2493, 200.92, 3806, 86.56, 92.51, 7.18, 0.31, 11001975, 2.27, 81.96, 3.74, 14.31, "growing"),
    ("VLC audio", 138747, 335, 2410.82, 911, 76.41, 75.40, 4.71, 19.89, 120051, 2.37, 63.43, 20.57, 15.99, "peak"),
    ("VLC video", 1513223, 1885, 1245.42, 4020, 59.27, 79.72, 5.49, 14.79, 1397594, 2.05, 49.84, 16.88, 33.28, "growing"),
    ("Octave", 579606, 100, 172.07, 789, 70.14, 99.71, 0.08, 0.21, 464206, 0.96, 74.81, 4.49, 20.70, "growing"),
    ("Inkscape", 12172463, 564, 46.31, 1441, 73.99, 95.61, 2.93, 1.46, 11430033, 0.11, 89.49, 4.24, 6.27, "peak"),
    ("Lynx", 31303, 9, 268.51, 554, 50.37, 72.84, 15.72, 11.44, 14234, 0.84, 40.75, 2.27, 56.98, "growing"),
]}
AVERAGES = {"top_ten": 75.2, "malloc": 87.9, "realloc": 6.07, "calloc": 6.03, "short": 71.6, "medium": 7.85, "long": 20.51, "distinct_sizes": 1548}
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
    env: tuple[tuple[str, str], ...] = ()


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
    row = "<tr><td>{i}.{k}</td><td><a href='#{k}'>link {n}</a></td><td>{words}</td></tr>"
    for page in range(5):
        rows = ("<table>" + "".join(row.format(i=i, k=k, n=k * i, words="word " * (k % 9)) for k in range(30)) + "</table>" for i in range(60 + page))
        text = "".join(f"<h2>{i}</h2>{t}" for i, t in enumerate(rows))
        (place / f"p{page}.html").write_text(f"<html><body><h1>{page}</h1>{text}</body></html>")
    keys = "".join(f"key g\n{''.join(f'key {c}{chr(10)}' for c in f'file://localhost{place}/p{page}.html')}key ^J\n" for page in range(1, 5))
    (place / "script").write_text(keys + "key q\nkey y\n")
    return ["lynx", "-accept_all_cookies", f"-cmd_script={place / 'script'}", f"file://localhost{place}/p0.html"]


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
    (place / "data").mkdir()
    return ["/usr/sbin/mariadbd", "--no-defaults", f"--user={'root' if os.getuid() == 0 else os.getlogin()}", f"--datadir={place}/data",
            "--skip-grant-tables", "--skip-networking", f"--socket={place}/s", f"--pid-file={place}/pid", "--innodb-buffer-pool-size=16M",
            "--lc-messages-dir=/usr/share/mysql"]


def drive_mariadb(place: Path) -> None:
    wait_for(lambda: (place / "s").exists() and (place / "pid").exists(), "mariadbd")
    subprocess.run(["mariadb-slap", "--no-defaults", f"--socket={place}/s", "--user=root", "--auto-generate-sql",
                    "--auto-generate-sql-load-type=mixed", "--concurrency=50",
                    "--number-of-queries=1800", "--create-schema=slap"], check=True, capture_output=True)
    end_server(place)


PROGRAMS = [
    Program("mariadbd", "MySQL", "50 clients of mariadb-slap, 36 queries each (as the study's, over generated tables)", ("mariadbd", "mariadb-slap"),
            mariadb, drive_mariadb),
    Program("apache2", "Cherokee", "ab, 20 clients, 4000 requests of one page; its busiest forked child", ("apache2", "ab"), apache, drive_apache),
    Program("gcc", None, "the compiler proper, -O2 on 300 functions", ("gcc",), gcc),
    Program("python3", None, "JSON written, read and searched; pymalloc serves its small objects itself", ("/usr/bin/python3",), python),
    Program("lua5.4", None, "tables and strings (bench/lab/tables.lua)", ("lua5.4",), lua),
    Program("sqlite3", None, "300,000 rows in memory: insert, index, group, delete, 3000 queries", ("sqlite3",), sqlite),
    Program("lynx", "Lynx", "five pages in one session, from disk", ("lynx",), lynx, env=(("TERM", "vt100"), ("LINES", "40"), ("COLUMNS", "100"))),
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
    t = trace.record(argv, place / "trace", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300,
                     env=os.environ | dict(program.env))
    if driver:
        driver.join()
    if problems:
        raise RuntimeError(f"{program.name}: {problems[0]}")
    d = describe.describe(t)
    if t.header["status"] not in (0, -signal.SIGTERM):
        raise RuntimeError(f"{program.name} ended with status {t.header['status']}")
    return d


def measures(d: dict) -> dict:
    a, f, r = d["allocations"], d["frees"], d["retention"]
    return {"allocations": a["number"], "megabytes": a["megabytes"], "mean_bytes": a["mean"], "distinct_sizes": a["distinct_sizes"],
            "top_ten": 100 * a["top_ten_share"], **{k: 100 * a["routines"][k]["share"] for k in ("malloc", "realloc", "calloc", "aligned")},
            "frees": f["number"], "null_frees": 100 * f["null_share"], **{k: 100 * r[k]["share"] for k in ("short", "medium", "long")},
            "never_freed": 100 * r["never_freed"]["share"], "pattern": d["pattern"]["name"], "seconds": d["seconds"],
            "live_peak_mb": d["live"]["peak_bytes"] / 1e6, "impossible_steps": d["order"]["impossible_steps"]}


def mean_of(runs: list[dict]) -> dict:
    out = {k: float(np.mean([r[k] for r in runs])) for k in runs[0] if k != "pattern"}
    patterns = [r["pattern"] for r in runs]
    return out | {"pattern": max(sorted(set(patterns)), key=patterns.count)}


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
                runs.setdefault(p.name, []).append(measures(d))
                if i == 0:
                    draw_program(args.out / f"{p.name}.svg", p, d)
                bar.update(1)
    found = {n: mean_of(r) for n, r in runs.items()}
    draw_comparison(args.out, found)
    what = {p.name: {"like": p.like, "what": p.what, "mean": found[p.name], "runs": runs[p.name]} for p in chosen if p.name in found}
    result = {"replications": args.replications, "programs": what, "machine": env.machine()}
    (args.out / "programs.json").write_text(json.dumps(result, indent=1) + "\n")
    print(write_tables(args.out, found, args.replications), end="")


if __name__ == "__main__":
    main()
