"""mare's laboratory: from a program's allocations to a justified choice of allocator. See docs/lab.md."""

import re
from pathlib import Path

# The laboratory runs from mare's source folder and has its version.
__version__ = re.search(r'#define MARE_RELEASE "([0-9.]+)"', (Path(__file__).resolve().parents[2] / "include" / "mare.h").read_text())[1]
