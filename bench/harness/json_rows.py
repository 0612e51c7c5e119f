"""JSON: mare.json beside lua-cjson (Debian: lua-cjson), both in one program that lets them work by turns."""
from .commands import mare
from .model import Experiment, Finding

DOCUMENTS = {"records": "500 records", "numbers": "5,000 numbers", "texts": "200 long strings", "small": "a small object"}


def experiments():
    made = []
    for name, title in DOCUMENTS.items():
        label = "mare 1"
        made.append(Experiment(f"json-{name}", {label: mare("json", name, 0.8)}, [
            Finding(f"JSON, {title}, {done}", lambda m, what=what: m["mare 1"][f"{what}-ratio"], ">=", 1.5, mare=(label,), metric=f"{what}-mare",
                    source="lua-cjson") for what, done in (("encode", "written"), ("decode", "read"))
        ], "encode-mare", "MB/s"))
    return made
