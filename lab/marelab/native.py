"""Where the native parts are: build/lab/bin, made by `make lab`."""

import json
import subprocess
from pathlib import Path

from marelab.errors import LabError

FOLDER = Path(__file__).resolve().parents[2] / "build" / "lab" / "bin"
FILES = {"launcher": "launch-trace", "tracer": "tracer.so", "describe": "describe-trace", "script": "script-trace", "workload": "workload",
         "bump": "bump.so", "measure": "measure"}


def path(name: str) -> str:
    """The file of a native part: launcher, tracer, describe, script, workload, bump, measure."""
    file = FOLDER / FILES[name]
    if not file.exists():
        raise LabError(f"{file} is missing: run `make lab` in mare's source folder")
    return str(file)


def output(name: str, *arguments: str, env: dict[str, str] | None = None) -> str:
    """Runs a native program; what it says on failure becomes our error."""
    r = subprocess.run([path(name), *arguments], capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL)
    if r.returncode != 0:
        said = r.stderr.strip().removeprefix("mare lab: ") or f"{FILES[name]} ended with status {r.returncode}"
        raise LabError(said, code=2 if r.returncode == 2 else 1)
    return r.stdout


def answer(name: str, *arguments: str, env: dict[str, str] | None = None) -> dict:
    """The same for programs that answer in JSON."""
    return json.loads(output(name, *arguments, env=env))
