"""`mare lab apply`, and `choose --apply`: writes the answer of a choice where it takes effect.

What is written is a block between two marks, and replaces the one of last time: applying twice is applying once, and what is not ours stays. A file
is written whole or not at all. Only a verdict that names something better writes; keeping what is there needs no line.
"""

import re
from pathlib import Path

from marelab import answer, output, paste, progress
from marelab.errors import LabError
from marelab.verdict import BETTER

BEGIN, END = "# allocator, chosen by mare lab", "# end of the allocator chosen by mare lab"
BLOCK = re.compile(rf"^{re.escape(BEGIN)}.*?^{re.escape(END)}\n", re.S | re.M)
DOCKERFILE = re.compile(r"(Docker|Container)file|.*\.(docker|container)file", re.I)

EPILOG = """  mare lab apply DIR                    says the lines
  mare lab apply DIR Dockerfile         writes them behind its last FROM
  mare lab apply DIR service.env        an environment file, as systemd and docker run --env-file read it
  mare lab apply DIR app.service        a drop-in beside the unit: app.service.d/allocator.conf
"""


def kind(path: Path) -> str:
    return "Dockerfile" if DOCKERFILE.fullmatch(path.name) else "systemd" if path.suffix in (".service", ".conf") else "environment"


def check(file: str | None) -> None:
    """Before anything is measured: that it could be written."""
    if not file:
        return
    path = Path(file)
    if kind(path) == "Dockerfile" and not re.search(r"^\s*FROM\s", read(path), re.I | re.M):
        raise LabError(f"--apply {file}: there is no FROM line in it")
    if not path.parent.is_dir():
        raise LabError(f"--apply {file}: there is no folder {path.parent}")
    if path.suffix == ".service":
        read(path)


def read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise LabError(f"{path}: {getattr(e, 'strerror', None) or 'it is no text'}") from e


def into(text: str, block: str, after: int) -> str:
    """The text with the block at this place, or where the last one was."""
    old = BLOCK.search(text)
    return text[:old.start()] + block + text[old.end():] if old else text[:after] + block + text[after:]


def behind_from(text: str) -> int:
    """Behind the last FROM: where a stage's user still is root."""
    at = [m.end() for m in re.finditer(r"^[ \t]*FROM[ \t](?:.*\\\n)*.*(?:\n|\Z)", text, re.I | re.M)]
    return at[-1]


def write(result: dict, file: str) -> Path:
    path, found = Path(file), paste.lines(result)
    form = kind(path)
    words = found["Dockerfile"] if form == "Dockerfile" else found["systemd"] if form == "systemd" \
        else [f"{k}={v}" for k, v in paste.chosen(result)["env"].items()]
    block = "\n".join([BEGIN, *words, END]) + "\n"
    if path.suffix == ".service":
        path = path.with_name(path.name + ".d") / "allocator.conf"
        path.parent.mkdir(exist_ok=True)
    text = read(path) if path.exists() else ""
    if text and not text.endswith("\n"):
        text += "\n"
    output.write(path, into(text, block, behind_from(text) if form == "Dockerfile" else len(text)))
    return path


def apply(result: dict, file: str | None) -> None:
    if not file:
        return
    if result["verdict"]["word"] != BETTER:
        progress.note(f"nothing was written into {file}: {result['verdict']['sentence']}")
        return
    progress.note(f"written: {write(result, file)}")


# ---- the command ----

def add_apply_argument(parser) -> None:
    parser.add_argument("--apply", metavar="FILE", help="write the answer into a Dockerfile, beside a systemd unit, or into an environment file")


def add_arguments(parser) -> None:
    parser.add_argument("result", help="the folder of a choice")
    parser.add_argument("files", nargs="*", metavar="FILE", help="where to write it; by name: Dockerfile, *.service, *.conf, else an environment file")
    parser.add_argument("--json", action="store_true", help="JSON on standard output")


def run(args) -> int:
    result = answer.load(Path(args.result))
    for file in args.files:
        check(file)
    found = paste.lines(result)
    if not found:
        raise LabError(f"nothing to apply: {result['verdict']['sentence']}", code=1)
    written = [str(write(result, file)) for file in args.files]
    if args.json:
        print(output.text({"lines": found, "written": written}))
    else:
        print("\n".join(f"written: {w}" for w in written) or paste.text(found))
    return 0
