"""The statistics need NumPy and SciPy, which not every Python has."""
import importlib.util
import os
import sys

from .commands import ROOT

VENV = os.path.join(ROOT, "build", "lab", "venv")


def elsewhere(*names):
    """Goes on in the laboratory's Python where this one lacks a package of these names; returns those that it lacks where there is none."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    other = os.path.join(VENV, "bin", "python")
    if missing and os.access(other, os.X_OK) and os.path.realpath(sys.prefix) != os.path.realpath(VENV):
        os.execv(other, [other, *sys.argv])
    return missing


def ensure():
    """As elsewhere; where there is none, says what to do."""
    missing = elsewhere("numpy", "scipy")
    if missing:
        sys.exit(f"{sys.argv[0]}: {sys.executable} has no {missing[0]}; `tools/setup bench` installs it (Debian: python3-scipy), "
                 "and `make lab` makes a Python that has it")
