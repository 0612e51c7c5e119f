"""Runs inside a process under an allocator: which routine does the C library's own heap serve, and what version is the allocator?

    python -I probe.py SYMBOL:KIND [child]

Asks glibc's own counters (mallinfo2 of libc.so.6 itself, whatever is preloaded) before and after many blocks: they grow exactly when
glibc serves them. Prints JSON. With "child", starts itself once more, so that a proof has a child to look at.
"""

import ctypes
import json
import subprocess
import sys

COUNT, SIZE = 400, 3000


class Mallinfo2(ctypes.Structure):
    _fields_ = [(n, ctypes.c_size_t) for n in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
                                               "keepcost")]


def library_version(spec: str):
    symbol, _, kind = spec.partition(":")
    program = ctypes.CDLL(None)
    if not symbol or not hasattr(program, symbol):
        return None
    function = getattr(program, symbol)
    if kind == "number":  # 209 is 2.0.9, and 20302 is 2.3.2
        n = function()
        if n >= 10000:
            return f"{n // 10000}.{n // 100 % 100}.{n % 100}"
        return f"{n // 100}.{n // 10 % 10}.{n % 10}"
    if kind == "string":
        function.restype = ctypes.c_char_p
        function.argtypes = [ctypes.c_void_p] * 3
        return function(None, None, None).decode()
    name, size = ctypes.c_char_p(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_char_p))  # mallctl(name, &value, &size, NULL, 0)
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    if function(kind.encode(), ctypes.byref(name), ctypes.byref(size), None, 0) != 0:
        return None
    return name.value.decode().split("-")[0]


def served_by_glibc() -> dict[str, bool]:
    program, libc = ctypes.CDLL(None), ctypes.CDLL("libc.so.6")
    libc.mallinfo2.restype = Mallinfo2
    size_t, pointer = ctypes.c_size_t, ctypes.c_void_p

    def routine(name, library, *types):
        f = getattr(library, name)
        f.restype, f.argtypes = pointer, types
        return f

    routines = {
        "malloc": (routine("malloc", program, size_t), (SIZE,)),
        "calloc": (routine("calloc", program, size_t, size_t), (1, SIZE)),
        "realloc": (routine("realloc", program, pointer, size_t), (None, SIZE)),
        "aligned_alloc": (routine("aligned_alloc", program, size_t, size_t), (64, SIZE // 64 * 64)),
    }
    try:
        # In a C++ program operator new is looked up in the program's scope: the allocator's own if it has one, else libstdc++'s.
        cxx = ctypes.CDLL("libstdc++.so.6", mode=ctypes.RTLD_GLOBAL)
        routines["operator new"] = (routine("_Znwm", program if hasattr(program, "_Znwm") else cxx, size_t), (SIZE,))
    except OSError:
        pass
    free = program.free
    free.argtypes, free.restype = [pointer], None
    seen = {}
    for name, (f, arguments) in routines.items():
        blocks = (ctypes.c_void_p * COUNT)()
        before = libc.mallinfo2()
        for i in range(COUNT):
            blocks[i] = f(*arguments)
        after = libc.mallinfo2()
        seen[name] = (after.uordblks + after.hblkhd) - (before.uordblks + before.hblkhd) > COUNT * SIZE // 2
        for b in blocks:
            free(b)
    return seen


def thread_caches() -> bool:
    """glibc counts what its thread caches hold as in use: five freed blocks are still "in use" exactly when there are such caches."""
    program, libc = ctypes.CDLL(None), ctypes.CDLL("libc.so.6")
    libc.mallinfo2.restype = Mallinfo2
    program.malloc.restype, program.malloc.argtypes, program.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
    blocks = [program.malloc(900) for _ in range(5)]
    before = libc.mallinfo2().uordblks
    for b in blocks:
        program.free(b)
    return before - libc.mallinfo2().uordblks < 2000


def main() -> None:
    spec = sys.argv[1] if len(sys.argv) > 1 else ""
    print(json.dumps({"glibc_serves": served_by_glibc(), "thread_caches": thread_caches(), "version": library_version(spec)}), flush=True)
    if "child" in sys.argv[2:]:
        subprocess.run([sys.executable, "-I", __file__, spec], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
