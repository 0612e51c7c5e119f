"""The statistics need NumPy and SciPy, which not every Python has."""
import importlib.util
import os
import sys

from .commands import ROOT

VENV = os.path.join(ROOT, "build", "lab", "venv")


def ensure():
    """Goes on in the laboratory's Python where this one lacks a package; where there is none, says what to do."""
    missing = [name for name in ("numpy", "scipy") if importlib.util.find_spec(name) is None]
    if not missing:
        return
    other = os.path.join(VENV, "bin", "python")
    if os.access(other, os.X_OK) and os.path.realpath(sys.prefix) != os.path.realpath(VENV):
        os.execv(other, [other, *sys.argv])
    sys.exit(f"{sys.argv[0]}: {sys.executable} has no {missing[0]}; `tools/setup bench` installs it (Debian: python3-scipy), "
             "and `make lab` makes a Python that has it")
