"""Traces written by a test, in the format of lab/tracer/FORMAT.md: one stream, one thread, whatever sequence of events."""

import json
import struct
from pathlib import Path

CHUNK = 2048
MALLOC, REALLOC_BEGIN, REALLOC_END, FREE = 1, 3, 4, 5


def region(address: int) -> int:
    return ((address >> 16) * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> 48


class Writer:
    """Addresses are numbers of blocks; `clock` is in microseconds and may be raised between events."""

    def __init__(self):
        self.words, self.groups, self.clock, self.told, self.owned = [], [], 0, None, set()
        self.group([11 << 60 | 4242])

    def group(self, words):
        self.pending = words

    def event(self, kind: int, block: int, size: int = 0, label: int = 0):
        address = 0x10000000 + block * 16 if block is not None else 0
        words, self.pending = getattr(self, "pending", []), []
        if self.told != self.clock:
            words.append(7 << 60 | self.clock)
            self.told = self.clock
        if size >= 16383:
            words.append(8 << 60 | size)
        if address and region(address) not in self.owned:
            self.owned.add(region(address))
            words += [9 << 60 | 1 << 16 | region(address), 0, 0]
        words.append(kind << 60 | min(size, 16383) << 46 | label << 44 | address >> 3)
        self.groups.append(words)

    def malloc(self, block: int, size: int):
        self.event(MALLOC, block, size)

    def free(self, block: int | None):
        self.event(FREE, block)

    def realloc(self, block: int, to: int, size: int):
        self.event(REALLOC_BEGIN, block)
        self.event(REALLOC_END, to, size)

    def chunks(self):
        chunk, index = [], 0
        for g in self.groups:
            if len(chunk) + len(g) > CHUNK:
                yield index, chunk
                chunk, index = [], index + 1
            chunk = chunk + g
        if chunk:
            yield index, chunk

    def data(self) -> bytes:
        out = [struct.pack("<8sIIIIIIQQQQ", b"MARETRC1", 1, 64, 4242, 0, CHUNK, 0, 0, 0, 0, 0)]
        for index, words in self.chunks():
            out.append(struct.pack("<IIII", 0x4B4E4843, 1, index, len(words)) + struct.pack(f"<{len(words)}Q", *words))
        return b"".join(out)

    def save(self, folder: Path) -> Path:
        folder.mkdir()
        data = self.data()
        (folder / "4242-0.mtr").write_bytes(data)
        process = {"pid": 4242, "image": 0, "parent": 1, "forked": False, "file": "4242-0.mtr", "command": ["made"], "executable": "/made",
                   "started": 0.0,
                   "ended": self.clock / 1e6, "ended_by": "exit", "words": len(data) // 8, "streams": 1, "lost": 0, "stalls": 0,
                   "anonymous_peak_bytes": 0, "maps": None}
        header = {"version": 1, "complete": True, "command": ["made"], "directory": "/", "started": "2026-01-01T00:00:00Z",
                  "seconds": self.clock / 1e6,
                  "status": 0, "events": len(self.groups), "bytes": len(data), "limit_bytes": 1 << 31, "limit_reached": False, "limit_seconds": None,
                  "write_error": None, "ring_events": 0, "stack_every": 0, "clock_gap_ms": 1.0, "stalls": 0, "stall_seconds": 0.0, "lost_events": 0,
                  "untraced_processes": 0, "processes": [process]}
        (folder / "trace.json").write_text(json.dumps(header))
        return folder
