"""TOML files, which users write: what is wrong with one is said in one line."""

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from marelab.errors import LabError


def read(path: Path) -> tuple[dict, bytes]:
    """What the file says, and its bytes."""
    try:
        raw = Path(path).read_bytes()
        return tomllib.loads(raw.decode()), raw
    except OSError as e:
        raise LabError(f"{path}: {e.strerror}") from e
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise LabError(f"{path}: {e}") from e
