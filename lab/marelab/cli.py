"""The command line. A subcommand is a module with `add_arguments(parser)` and `run(args) -> int`; only the one asked for is imported."""

import difflib
import importlib
import importlib.util
import signal
import sys

from marelab import __version__
from marelab.arguments import Parser
from marelab.errors import LabError, Terminated

# name, module, what it does; in the order in which `--help` shows them
COMMANDS = [
    ("choose", "marelab.choose", "find the allocator that serves a program best: measures the program itself, explains, recommends"),
    ("tune", "marelab.tune", "the same with the allocators' settings: searches, proves that each took effect, confirms the winner"),
    ("apply", "marelab.apply", "write a choice's answer into a Dockerfile, a systemd unit or an environment file"),
    ("allocators", "marelab.proof", "list the allocators of the catalogue that are here, and prove that they serve a program"),
    ("trace", "marelab.trace", "record every allocation of a program"),
    ("attach", "marelab.attach", "record a running program for a while, if it was started with the tracer asleep in it"),
    ("describe", "marelab.describe", "show what a trace contains: sizes, lifetimes, patterns, memory over time"),
    ("replay", "marelab.replay", "run a recorded trace against an allocator"),
    ("fit", "marelab.fit", "make a synthetic workload that resembles a trace, or say why there is none"),
    ("workload", "marelab.workload", "run the synthetic workload program"),
    ("study", "marelab.study", "run a designed experiment over allocators and workloads"),
    ("scenario", "marelab.scenario", "record the published study's programs, or choose an allocator for one"),
    ("paper", "marelab.paper", "print the published study's tables, made again from your own results, beside the published ones"),
    ("analyse", "marelab.analyse", "analyse a study: analysis of variance, Tukey groups, paired ratios"),
    ("rank", "marelab.rank", "rank a study's allocators by time and memory"),
    ("compare-builds", "marelab.builds", "compare two builds of a program in the same blocks, for CI: better, same, worse or undecided"),
    ("budget", "marelab.budget", "check that a program doesn't allocate more than recorded, for CI"),
    ("compare", "marelab.compare", "show how two results differ"),
    ("report", "marelab.report", "write one self-contained HTML page about a result"),
]


def available() -> list[tuple[str, str, str]]:
    return [c for c in COMMANDS if importlib.util.find_spec(c[1])]


def overview() -> str:
    lines = ["  mare lab choose -- ./service --its arguments    the main job", "", "usage: mare lab COMMAND [arguments]", "", "Commands are:"]
    lines += [f"  {name:<16}{what}" for name, _, what in available()]
    lines += ["", "mare lab COMMAND --help says more.", "", "Exit codes: 0, 1 if something that was measured failed, 2 for a mistake in the input."]
    if not importlib.util.find_spec("numpy"):
        lines += ["", f"Not ready yet: {REMEDY}."]
    return "\n".join(lines)


REMEDY = "run `make lab` in mare's source folder, which takes some minutes"


def subcommand(argv: list[str]):
    """The module that argv[0] names, and its parsed arguments."""
    found = [c for c in available() if c[0] == argv[0]]
    if not found:
        names = [c[0] for c in available()]
        meant = difflib.get_close_matches(argv[0], names, 1)
        raise LabError(f"no command '{argv[0]}'" + (f"; did you mean {meant[0]}?" if meant else f"; there are {', '.join(names)}"))
    name, module, what = found[0]
    try:
        command = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "marelab").startswith("marelab"):
            raise
        raise LabError(f"the laboratory's Python package {error.name} is not here: {REMEDY}") from None
    parser = Parser(name, what, command)
    tail = getattr(command, "TAIL", None)  # what stands behind `--`, where options may stand between it and other words
    at = argv.index("--") if tail and "--" in argv else len(argv)
    args = parser.parse_args(argv[1:at])
    if tail:
        setattr(args, tail, argv[at + 1:])
    return command, args


def terminated(*_) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
    raise Terminated


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(overview())
        return 0 if argv else 2
    if argv[0] == "--version":
        print(f"mare lab {__version__}")
        return 0
    signal.signal(signal.SIGTERM, terminated)
    try:
        command, args = subcommand(argv)
        return command.run(args)
    except LabError as error:
        print(f"mare lab: {error}", file=sys.stderr)
        return error.code
    except BrokenPipeError:  # the reader of our output left: `mare lab … | head`
        sys.stderr.close()
        return 0
    except KeyboardInterrupt as error:
        print("mare lab: interrupted; if anything was measured, it is kept", file=sys.stderr)
        return 143 if isinstance(error, Terminated) else 130
