"""Results as JSON and as files. JSON is strict: what is no finite number (an F over no error at all) is null, as other programs' readers refuse
NaN and Infinity. A file is there as a whole or not at all, whenever we are killed. What can't be read or written is an error of one line."""

import contextlib
import json
import math
import os
import stat
import tempfile
from pathlib import Path

from marelab.errors import LabError


def finite(x):
    """The same with None for numbers that are none."""
    if isinstance(x, float):
        return x if math.isfinite(x) else None
    if isinstance(x, dict):
        return {k: finite(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [finite(v) for v in x]
    return x


def text(data, indent: int = 2) -> str:
    return json.dumps(finite(data), indent=indent, allow_nan=False)


def write(path: Path, words: str) -> None:
    """Under another name first, then renamed. A file that was there keeps its mode: a script starts, a secret stays one."""
    path, made = Path(path), None
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as f:
            made = f.name
            f.write(words)
        os.chmod(made, stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~mask())
        os.replace(made, path)
    except OSError as error:
        if made:
            with contextlib.suppress(OSError):
                os.unlink(made)
        raise LabError(f"can't write {path}: {error.strerror}", code=1) from None


def mask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


def save(path: Path, data, indent: int = 2) -> None:
    write(path, text(data, indent) + "\n")


def read(path: Path, kind: str, version: int, keys, remedy: str) -> dict:
    """A result that we wrote: an object of this kind and version with these members."""
    try:
        data = json.loads(Path(path).read_text())
    except OSError as e:
        raise LabError(f"{path}: {e.strerror}; {remedy}") from e
    except json.JSONDecodeError as e:
        raise LabError(f"{path}: line {e.lineno}: it is not JSON; the folder is damaged") from e
    except UnicodeDecodeError as e:
        raise LabError(f"{path}: byte {e.start}: it is not JSON; the folder is damaged") from e
    if isinstance(data, dict) and data.get("kind") == kind and data.get("version") in range(1, version):
        raise LabError(f"{path}: written by an older mare lab (version {data['version']}, now {version}): measure again")
    if not isinstance(data, dict) or data.get("kind") != kind or data.get("version") != version:
        raise LabError(f"{path}: this is no {kind} of version {version}")
    lost = [k for k in keys if k not in data]
    if lost:
        raise LabError(f"{path}: '{lost[0]}' is missing; the folder is damaged")
    return data
