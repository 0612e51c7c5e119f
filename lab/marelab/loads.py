"""What load generators say: requests per second and latencies, read from their output.

Known are wrk, ab, oha, redis-benchmark, memtier_benchmark, pgbench and mysqlslap. Any other is read by regular expressions (`--read KEY=REGEX`), whose first
group is a number: rps, requests (how many in all), or p50, p99, p999 in milliseconds.
"""

import re
from dataclasses import dataclass

from marelab.errors import LabError

KEYS = ("rps", "requests", "p50", "p99", "p999")
UNIT = {"us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3, "secs": 1e3, "m": 6e4, "min": 6e4}


@dataclass(frozen=True)
class Said:
    rps: float
    latency: dict[str, float]  # p50, p99, p999 in milliseconds, those that were said
    failed: str | None = None  # what it says of requests that failed
    requests: float | None = None  # in all, where it says so


def number(text: str) -> float:
    return float(text.replace(",", ""))


def total(pattern: str, text: str) -> float | None:
    return sum(map(float, re.findall(pattern, text, re.M))) or None


def wrk(text: str) -> Said | None:
    rate = re.search(r"^Requests/sec:\s+([\d.]+)", text, re.M)
    if not rate or "Thread Stats" not in text:
        return None
    at = {p: float(x) * UNIT[u] for p, x, u in re.findall(r"^\s+(50|99|99\.9)(?:\.0+)?%\s+([\d.]+)(us|ms|s|m)\b", text, re.M)}
    bad = re.search(r"^\s*(Non-2xx or 3xx responses: \d+|Socket errors: .*)", text, re.M)
    return Said(float(rate[1]), {k: at[p] for p, k in (("50", "p50"), ("99", "p99"), ("99.9", "p999")) if p in at}, bad and bad[1].strip(),
                total(r"^\s*(\d+) requests in ", text))


def ab(text: str) -> Said | None:
    rate = re.search(r"^Requests per second:\s+([\d.]+)", text, re.M)
    if not rate:
        return None
    at = {p: float(x) for p, x in re.findall(r"^\s+(50|99)%\s+(\d+)", text, re.M)}
    bad = re.search(r"^(Failed requests:|Non-2xx responses:)\s+([1-9]\d*)", text, re.M)
    return Said(float(rate[1]), {f"p{p}": x for p, x in at.items() if x > 0}, bad and f"{bad[1]} {bad[2]}", total(r"^Complete requests:\s+(\d+)", text))


def oha(text: str) -> Said | None:
    rate = re.search(r"^\s*Requests/sec:\s+([\d.]+)", text, re.M)
    at = {p: float(x) * UNIT[u] for p, x, u in re.findall(r"^\s*(50|99|99\.9)(?:\.?0+)?% in ([\d.]+) (secs|sec|ms|us)", text, re.M)}
    if not rate or not at:
        return None
    bad = re.search(r"^\s*\[([45]\d\d)\] (\d+) responses", text, re.M)
    return Said(float(rate[1]), {k: at[p] for p, k in (("50", "p50"), ("99", "p99"), ("99.9", "p999")) if p in at},
                bad and f"{bad[2]} responses {bad[1]}")


def redis_benchmark(text: str) -> Said | None:
    """Of several tests the mean time of a request counts: they are one load together."""
    rates = [number(x) for x in re.findall(r"throughput summary: ([\d.]+) requests per second", text)]
    rows = [r.split() for r in re.findall(r"^\s+avg\s+min\s+p50\s+p95\s+p99\s+max\s*\n\s*([\d. ]+)$", text, re.M)]
    if not rates:
        quiet = re.findall(r": ([\d.]+) requests per second, p50=([\d.]+) msec", text)
        rates, rows = [float(r) for r, _ in quiet], [[0, 0, p, 0, 0, 0] for _, p in quiet]
    if not rates:
        return None
    latency = {k: max(float(r[i]) for r in rows) for k, i in (("p50", 2), ("p99", 4)) if rows and any(float(r[i]) for r in rows)}
    return Said(len(rates) / sum(1 / r for r in rates), latency, None, total(r"^\s*(\d+) requests completed in ", text))


def memtier(text: str) -> Said | None:
    head, total = re.search(r"^Type\s+(.*)$", text, re.M), re.search(r"^Totals\s+(.*)$", text, re.M)
    if not head or not total:
        return None
    names, values = re.split(r"\s{2,}", head[1].strip()), total[1].split()
    row = dict(zip(names, values))
    at = {k: float(row[n]) for n, k in (("p50 Latency", "p50"), ("p99 Latency", "p99"), ("p99.9 Latency", "p999")) if n in row}
    return Said(float(row["Ops/sec"]), at) if "Ops/sec" in row else None


def pgbench(text: str) -> Said | None:
    rate = re.search(r"^tps = ([\d.]+)", text, re.M)
    bad = re.search(r"^number of failed transactions: ([1-9]\d*)", text, re.M)
    return Said(float(rate[1]), {}, bad and bad[0], total(r"^number of transactions actually processed: (\d+)", text)) if rate else None


def mysqlslap(text: str) -> Said | None:
    average = re.search(r"Average number of seconds to run all queries: ([\d.]+)", text)
    clients, each = re.search(r"Number of clients running queries: (\d+)", text), re.search(r"Average number of queries per client: (\d+)", text)
    if not (average and clients and each) or not float(average[1]):
        return None
    return Said(int(clients[1]) * int(each[1]) / float(average[1]), {})


READERS = {"wrk": wrk, "ab": ab, "oha": oha, "redis-benchmark": redis_benchmark, "memtier_benchmark": memtier, "pgbench": pgbench, "mysqlslap": mysqlslap}


# ---- others ----

def patterns(words: list[str]) -> dict[str, re.Pattern]:
    found = {}
    for word in words:
        key, equals, text = word.partition("=")
        if key not in KEYS or not equals:
            raise LabError(f"--read {word}: write KEY=REGEX with a key of {', '.join(KEYS)}, as in  --read 'rps=handled ([0-9.]+) per second'")
        try:
            found[key] = re.compile(text, re.M)
        except re.error as e:
            raise LabError(f"--read {word}: {e}") from None
        if not found[key].groups:
            raise LabError(f"--read {word}: put parentheses around the number")
    if found and "rps" not in found:
        raise LabError("--read: rps is needed, requests per second")
    return found


def by_patterns(text: str, found: dict[str, re.Pattern]) -> Said | None:
    at = {}
    for key, pattern in found.items():
        m = pattern.search(text)
        try:
            at[key] = number(m[1])
        except (TypeError, ValueError):
            return None
    rate, requests = at.pop("rps"), at.pop("requests", None)
    return Said(rate, at, None, requests) if rate > 0 else None


def served_nothing(text: str) -> bool:
    """Whether a known one says so: a rate of 0."""
    return any(s and not s.rps for s in (f(text) for f in READERS.values()))


def read(text: str, found: dict[str, re.Pattern] | None = None) -> Said | None:
    """What a load generator said; None where nobody knows its words."""
    if found:
        return by_patterns(text, found)
    return next((s for s in (f(text) for f in READERS.values()) if s and s.rps > 0), None)
