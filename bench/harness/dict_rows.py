"""A dictionary that all share: mare.dict beside an ETS table and Go's sync.Map, on a thousand keys and on one that everybody wants."""
from .commands import erlang, go, mare
from .model import Experiment, Finding, ratio

OPERATIONS = {"incr": (1, "update_counter"), "get": (2, "lookup"), "set": (3, "insert")}


def experiments():
    made = []
    for name, (number, ets) in OPERATIONS.items():
        for keys in (1000, 1):
            commands = {}
            for n in (1, 2):
                args = (number, n, keys, 4000000)
                commands.update({f"mare {n}": mare("dict", *args, workers=n), f"go {n}": go("dict", *args, workers=n),
                                 f"erlang {n}": erlang("dict", *args, workers=n)})
            what = f"dict {name}, {'a thousand keys' if keys > 1 else 'one key'}"
            made.append(Experiment(f"dict-{name}-{keys}", commands, [
                Finding(f"{what}, {n} worker{'s'[:n - 1]}", ratio(f"mare {n}", f"erlang {n}", "ops"), ">=" if name == "incr" else "", 1.0 if name == "incr" else None,
                        mare=(f"mare {n}",), peers=(f"erlang {n}", f"go {n}"), source=f"ETS {ets}") for n in (1, 2)
            ], "ops"))
    return made
