"""The rows of computing together: allreduce beside Open MPI, what an item of parallel.map costs. See rows.py for what a row is."""
import os

from .commands import BUILD, Command, find_tool, mare
from .model import Experiment, Finding, ratio

MPIRUN = find_tool("mpirun")
ENV = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MEMBERS = 8


def mpi(size, rounds, yields):
    """Eight ranks on whatever cores there are. Left alone they spin where there are fewer cores; `yields`: Open MPI's own setting against that."""
    options = ("--mca", "mpi_yield_when_idle", "1") if yields else ("--mca", "mpi_yield_when_idle", "0")
    return Command((MPIRUN or "mpirun", "-q", "--oversubscribe", *options, "-n", str(MEMBERS), os.path.join(BUILD, "allreduce"), str(size), str(rounds)),
                   ENV)


def allreduce(name, size, rounds, spinning, kind=""):
    made = {"mare 2": mare("allreduce", size, rounds, *kind.split(), workers=2), "mpi yield": mpi(size, spinning, True), "mpi spin": mpi(size, max(10, spinning // 10), False)}
    work = f"allreduce of {MEMBERS} members, {name}{', in buffers' if kind else ''}"
    return Experiment(f"allreduce-{size}{'-' * bool(kind)}{kind}", made, [
        Finding(work, ratio("mare 2", "mpi yield", "rounds"), ">=", 1.0, mare=("mare 2",), peers=("mpi yield", "mpi spin"),
                source="Open MPI, yielding when idle"),
        Finding(f"{work}, spinning", ratio("mare 2", "mpi spin", "rounds"), ">=", 1.0, mare=("mare 2",), peers=("mpi spin",), source="Open MPI"),
    ], "rounds")


def parallel():
    made = {"mare 1": mare("parallel", 1, 500000, 0, workers=2), "mare 1 work": mare("parallel", 1, 4000, 20000, workers=2),
            "mare 2 work": mare("parallel", 2, 4000, 20000, workers=2)}
    return Experiment("parallel", made, [
        Finding("parallel.map, what an item that costs nothing takes", lambda m: 1e6 / m["mare 1"]["items"], unit="µs", mare=("mare 1",)),
        Finding("parallel.map of items of some 100 µs, one worker against a plain loop", lambda m: m["mare 1 work"]["items"] / m["mare 1 work"]["loop"], ">=",
                0.95, mare=("mare 1 work",), source="a loop"),
        Finding("the same, two workers against one", ratio("mare 2 work", "mare 1 work", "items"), ">=", 1.8, mare=("mare 2 work",),
                peers=("mare 1 work",), source="one worker"),
    ], "items")


def experiments():
    return [allreduce("8 B", 8, 200000, 5000), allreduce("1 KiB", 1024, 100000, 5000), allreduce("64 KiB", 65536, 5000, 1000),
            allreduce("1 MiB", 1048576, 300, 100), allreduce("64 KiB", 65536, 5000, 1000, "view"), allreduce("1 MiB", 1048576, 300, 100, "view"),
            parallel()]
