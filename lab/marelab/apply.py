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
DOCKERFILE = re.compile(r"(docker|container)file([._-].*)?|.*\.(docker|container)file", re.I)
DROP_INS = re.compile(r".+\.service\.d")
SHELL = re.compile(r"#!\s*(/\S*/)?(env\s+(-S\s+)?)?(ba|da|a|k|mk|z)?sh(\s.*)?")
SETTING = re.compile(r"\s*([A-Za-z_]\w*=.*|[#;].*)?")
PLACES = "it can be written into a Dockerfile, a shell script, a systemd unit's drop-in, or a file of NAME=value lines"

EPILOG = """  mare lab apply DIR                    says the lines
  mare lab apply DIR Dockerfile         writes them behind its last FROM; so for Dockerfile.*, *.Dockerfile, Containerfile*
  mare lab apply DIR start.sh           export lines behind the first line; so for what begins with #!/bin/sh or another shell
  mare lab apply DIR service.env        an environment file, as systemd and docker run --env-file read it
  mare lab apply DIR app.service        a drop-in beside the unit: app.service.d/allocator.conf; so for the folder app.service.d

A file that is none of these is left as it is, with exit code 2.
"""


# ---- what a file is ----

def place(file: str) -> Path:
    """The file itself: a unit and a folder of drop-ins have one of ours."""
    path = Path(file)
    if path.suffix == ".service" and not path.is_dir():
        return path.with_name(path.name + ".d") / "allocator.conf"
    if DROP_INS.fullmatch(path.name):
        return path / "allocator.conf"
    if path.is_dir() or file.endswith("/"):
        raise LabError(f"{file}: a folder; name a file, or a unit's folder of drop-ins, as in app.service.d")
    return path


def kind(path: Path, text: str) -> str:
    """What this text is under this name; an error where that isn't known, as a line in the wrong place breaks the file or does nothing."""
    first = text.split("\n", 1)[0]
    if DOCKERFILE.fullmatch(path.name):
        if not re.search(r"^\s*FROM\s", text, re.I | re.M):
            raise LabError(f"{path}: there is no FROM line in it")
        return "Dockerfile"
    if SHELL.fullmatch(first) or path.suffix == ".sh" and not first.startswith("#!"):
        return "shell"
    if first.startswith("#!"):
        raise LabError(f"{path}: a script, but not one of a shell; {PLACES}")
    section = re.search(r"^\[(Unit|Service)\]", text, re.M) or not text.strip() and path.parent.name != "environment.d"
    if path.suffix == ".conf" and (section or DROP_INS.fullmatch(path.parent.name)):
        return "systemd"
    strange = next((n for n, line in enumerate(text.splitlines(), 1) if not SETTING.fullmatch(line)), None)
    if strange:
        raise LabError(f"{path}: line {strange} is not NAME=value, so this is no environment file; {PLACES}")
    return "environment"


def check(file: str | None) -> None:
    """Before anything is measured: that it could be written."""
    if not file:
        return
    path, unit = place(file), Path(file)
    folder = path.parent.parent if DROP_INS.fullmatch(path.parent.name) else path.parent
    if not folder.is_dir():
        raise LabError(f"{file}: there is no folder {folder}")
    if unit.suffix == ".service":
        read(unit)
    kind(path, present(path))


def read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise LabError(f"{path}: {getattr(e, 'strerror', None) or 'it is no text'}") from e


def present(path: Path) -> str:
    return read(path) if path.exists() else ""


# ---- what is written ----

def into(text: str, block: str, after: int) -> str:
    """The text with the block at this place, or where the last one was."""
    old = BLOCK.search(text)
    return text[:old.start()] + block + text[old.end():] if old else text[:after] + block + text[after:]


def behind_from(text: str) -> int:
    """Behind the last FROM: where a stage's user still is root."""
    at = [m.end() for m in re.finditer(r"^[ \t]*FROM[ \t](?:.*\\\n)*.*(?:\n|\Z)", text, re.I | re.M)]
    return at[-1]


def block_of(result: dict, form: str) -> str:
    found, settings = paste.lines(result), paste.chosen(result)["env"]
    words = found[form] if form in ("Dockerfile", "systemd") else paste.exports(settings) if form == "shell" \
        else [f"{k}={v}" for k, v in settings.items()]
    return "\n".join([BEGIN, *words, END]) + "\n"


def write(result: dict, file: str) -> Path:
    """The file is written where a link leads, so that the link stays one."""
    check(file)
    path = place(file)
    text = present(path)
    form = kind(path, text)
    if text and not text.endswith("\n"):
        text += "\n"
    after = behind_from(text) if form == "Dockerfile" else len(text) if form != "shell" \
        else text.index("\n") + 1 if text.startswith("#!") else 0
    path.parent.mkdir(exist_ok=True)
    output.write(path.resolve(), into(text, block_of(result, form), after))
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
    parser.add_argument("--apply", metavar="FILE", help="write the answer into a Dockerfile, a shell script, beside a systemd unit, or into an environment file")


def add_arguments(parser) -> None:
    parser.add_argument("result", help="the folder of a choice")
    parser.add_argument("files", nargs="*", metavar="FILE", help="where to write it: a Dockerfile, a shell script, a *.service, its *.conf, an environment file")
    parser.add_argument("--json", action="store_true", help="JSON on standard output")


def run(args) -> int:
    result = answer.load(Path(args.result))
    found = paste.lines(result)
    try:
        for file in args.files:
            check(file)
    except LabError as error:
        raise LabError(f"{error}\nTo paste by hand:\n{paste.text(found)}" if found else str(error)) from error
    if not found:
        raise LabError(f"nothing to apply: {result['verdict']['sentence']}", code=1)
    written = [str(write(result, file)) for file in args.files]
    if args.json:
        print(output.text({"lines": found, "written": written}))
    else:
        print("\n".join(f"written: {w}" for w in written) or paste.text(found))
    return 0
