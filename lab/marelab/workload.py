"""workload: runs the synthetic workload program under an allocator (lab/workload/README.md says what its options and answers mean)."""

import argparse
import json
import os
import subprocess

from marelab import allocators, native
from marelab.errors import LabError

EPILOG = """examples:
  mare lab workload -- --allocations 1000000 --threads 2
  mare lab workload --under jemalloc -- --alive 1000 --death random
  mare lab workload --under bump            the floor: an allocator that only counts up
  mare lab workload -- --help               all its options"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--under", default="glibc", metavar="A", help="the allocator (default glibc); bump is the floor")
    parser.add_argument("--catalogue", action="append", default=[], metavar="FILE", help="a further catalogue (TOML)")
    parser.add_argument("--allocator", action="append", default=[], metavar="NAME=LIB", help="one more allocator: a name and a shared object")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="-- options of the workload program")


def run(args: argparse.Namespace) -> int:
    options = args.options[1:] if args.options[:1] == ["--"] else args.options
    env = environment(args.under, args.catalogue, args.allocator)
    return subprocess.run([native.path("workload"), *options], env=env).returncode


# ---- for other modules ----

def floor() -> allocators.Allocator:
    return allocators.Allocator("bump", native.path("bump"), what="an allocator that only counts up: the floor")


def environment(name: str, catalogues=(), extra=()) -> dict[str, str]:
    """The environment in which a program runs under this allocator."""
    found = allocators.load(catalogues, extra)
    chosen = floor() if name == "bump" and name not in found else allocators.select(found, name)[0]
    return os.environ | chosen.environment(os.environ)


def response(options: list[str], env: dict[str, str]) -> dict:
    """One run's responses."""
    try:
        return native.answer("workload", *options, env=env)
    except json.JSONDecodeError:
        raise LabError(f"the workload program said nothing usable (options: {' '.join(options)})", code=1) from None
