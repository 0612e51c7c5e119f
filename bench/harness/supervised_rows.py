"""The rows of supervisors. See rows.py for what a row is."""
from .commands import mare
from .model import Experiment, Finding


def restart(count):
    made = {"mare 1": mare("supervised", "restart", count), "mare 2": mare("supervised", "restart", count, workers=2)}
    return Experiment("supervised-restart", made, [
        Finding(f"restart of a supervised child above a spawn, {n} worker{'s'[:n - 1]}", lambda m, n=n: m[f"mare {n}"]["above"], "<=", 20, "µs",
                (f"mare {n}",)) for n in (1, 2)
    ], "above", "µs")


def many(count):
    made = {"mare 1": mare("supervised", "many", count)}
    return Experiment("supervised-many", made, [
        Finding(f"{count:,} supervised children: started", lambda m: m["mare 1"]["started"], unit="/s", mare=("mare 1",)),
        Finding(f"{count:,} supervised children: memory of each", lambda m: m["mare 1"]["memory"], unit="KiB", mare=("mare 1",), metric="memory"),
        Finding(f"{count:,} supervised children: ended", lambda m: m["mare 1"]["ended"], unit="/s", mare=("mare 1",), metric="ended"),
    ], "started")


def storm(count, seconds):
    made = {"mare 2": mare("supervised", "storm", count, seconds, workers=2)}
    name = f"{count:,} children, a tenth fails each second"
    return Experiment("supervised-storm", made, [
        Finding(f"{name}: started again", lambda m: m["mare 2"]["restarts"], ">=", 0.9 * count / 10, "/s", ("mare 2",)),
        Finding(f"{name}: alive at the end", lambda m: m["mare 2"]["alive"], ">=", 0.99, "", ("mare 2",), metric="alive"),
        Finding(f"{name}: the supervisor answers", lambda m: m["mare 2"]["answer"], unit="ms", mare=("mare 2",), metric="answer"),
    ], "restarts")


def experiments():
    return [restart(20000), many(100000), storm(100000, 5)]
