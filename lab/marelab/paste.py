"""The answer of a choice as something to paste: the environment line, the Dockerfile's and the systemd unit's, the linker's flag."""

import os
import re
import shlex

from marelab.verdict import BETTER

STANDARD = re.compile(r"/(usr/)?lib(64|/[\w-]+-linux-gnu)?")

def chosen(result: dict) -> dict:
    return next(a for a in result["allocators"] if a["name"] == result["verdict"]["choice"])


def lines(result: dict) -> dict[str, list[str]]:
    """What to paste where; nothing where what is used today stays."""
    if result["verdict"]["word"] != BETTER:
        return {}
    a = chosen(result)
    out = {"environment": [shell(a["env"], result["program"])], "Dockerfile": docker(a), "systemd": systemd(a["env"])}
    return out | ({"linker": [linker(a["library"])]} if a["library"] else {})


def shell(settings: dict[str, str], program: list[str]) -> str:
    gone = [w for k, v in settings.items() if not v for w in ("-u", k)]
    words = ["env", *gone] if gone else []
    return " ".join([*map(shlex.quote, words), *(f"{k}={shlex.quote(v)}" for k, v in settings.items() if v), shlex.join(program)])


def exports(settings: dict[str, str]) -> list[str]:
    """Of a shell script."""
    return [f"export {k}={shlex.quote(v)}" if v else f"unset {k}" for k, v in settings.items()]


def docker(a: dict) -> list[str]:
    install = []
    if a["library"]:
        install = [f"# beside the Dockerfile: a copy of {a['library']}", f"COPY {os.path.basename(a['library'])} {a['library']}"]
    if a["package"]:  # which brings the library
        install = [f"RUN apt-get update && apt-get install -y --no-install-recommends {a['package']} && rm -rf /var/lib/apt/lists/*"]
    return install + [f"ENV {k}={quoted(v, '$')}" for k, v in a["env"].items()]


def systemd(settings: dict[str, str]) -> list[str]:
    keep = [f"Environment={quoted(f'{k}={v}', '')}".replace("%", "%%") for k, v in settings.items() if v]
    return ["[Service]", *keep, *(f"UnsetEnvironment={k}" for k, v in settings.items() if not v)]


def quoted(text: str, special: str) -> str:
    return '"' + re.sub(rf'(["\\{special}])' if special else r'(["\\])', r"\\\1", text) + '"'


def linker(library: str) -> str:
    folder, name = os.path.split(library)
    where = "" if STANDARD.fullmatch(folder) else f"-L{shlex.quote(folder)} -Wl,-rpath,{shlex.quote(folder)} "
    return f"{where}-Wl,--push-state,--no-as-needed -l:{name} -Wl,--pop-state"


def text(found: dict[str, list[str]]) -> str:
    return "\n".join(f"{name + ':':<13} {line}" if i == 0 else f"{'':<13} {line}" for name, words in found.items() for i, line in enumerate(words))
