"""Knobs of allocators: a typed table (lab/knobs.toml), how they are set, and proof in a process that each took effect.

An allocator ignores what it doesn't know, mostly without a word; a run under a mistyped knob would be measured as if it meant something. So nobody's
word is taken for it but the allocator's own, asked in a process that has the same environment:

- glibc: the dynamic loader prints the tunables it read (`--list-tunables`);
- jemalloc: `mallctl("opt.NAME")`, and its complaints about what it can't read;
- mimalloc: the list of its options with MIMALLOC_VERBOSE=1;
- tcmalloc: its numeric properties;
- tbbmalloc: what it prints with TBB_VERSION=1;
- scudo: it ends a program whose setting has a value that it can't read, and names settings that it doesn't know; that it would is seen by one that nobody knows.
"""

import difflib
import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from marelab import elf, toml
from marelab.allocators import Allocator
from marelab.errors import LabError

TABLE = Path(__file__).resolve().parents[1] / "knobs.toml"
TRUE, FALSE = {"1", "true", "t", "y", "yes", "on"}, {"0", "false", "f", "n", "no", "off"}


@dataclass(frozen=True)
class Knob:
    family: str
    name: str
    kind: str  # switch, integer, word
    values: tuple[str, ...]
    what: str

    def same(self, a: str | None, b: str) -> bool:
        """Whether the allocator's word for a value is the one that was set."""
        if a is None:
            return False
        if self.kind == "word":
            return a == b
        if self.kind == "switch" and b.lower() in TRUE | FALSE:
            return (a.lower() in TRUE) == (b.lower() in TRUE)
        try:
            return int(a, 0) == int(b, 0)
        except ValueError:
            return False


@functools.cache
def table() -> tuple[Knob, ...]:
    data, _ = toml.read(TABLE)
    return tuple(Knob(k["family"], k["name"], k["kind"], tuple(k["values"]), k["what"]) for k in data["knob"])


@functools.cache
def without() -> dict[str, tuple[str, str]]:
    """The families that have no knobs: what only they define, and why there are none."""
    data, _ = toml.read(TABLE)
    return {w["family"]: (w["mark"], w["why"]) for w in data["without"]}


def why_none(a: Allocator) -> str | None:
    """Why an allocator has no knobs, where that is known."""
    return without().get(family(a) or "", (None, None))[1]


# ---- how they are set ----

MARKS = {"jemalloc": "mallctl", "mimalloc": "mi_version", "tcmalloc": "MallocExtension_GetNumericProperty", "scudo": "__scudo_print_stats"}  # what only they define
SIGNS = {"GLIBC_TUNABLES": ":", "MALLOC_CONF": ",", "SCUDO_OPTIONS": ":"}  # between the settings of one variable


def family(a: Allocator) -> str | None:
    """Which of the families the allocator belongs to, whatever it is called; None: another one."""
    if not a.library:
        return "glibc"
    path = os.path.realpath(a.library)
    marks = MARKS | {f: mark for f, (mark, _) in without().items()}
    found = next((f for f, symbol in marks.items() if elf.defines(path, symbol)), None)
    return found or ("tbbmalloc" if "tbbmalloc" in os.path.basename(path) else None)


def environment(fam: str, values: Mapping[str, str]) -> dict[str, str]:
    """The variables that set these knobs."""
    if fam == "glibc":
        return {"GLIBC_TUNABLES": ":".join(f"{n}={v}" for n, v in values.items())}
    if fam == "jemalloc":
        return {"MALLOC_CONF": ",".join(f"{n}:{v}" for n, v in values.items())}
    if fam == "scudo":
        return {"SCUDO_OPTIONS": ":".join(f"{n}={v}" for n, v in values.items())}
    prefix = {"mimalloc": "MIMALLOC_", "tcmalloc": "TCMALLOC_", "tbbmalloc": "TBB_MALLOC_"}[fam]
    return {prefix + n.upper(): v for n, v in values.items()}


def parse(env: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """The knobs that an environment sets: (family, name, value)."""
    found = []
    for variable, text in env.items():
        if variable == "GLIBC_TUNABLES":
            found += [("glibc", *pair(p, "=")) for p in text.split(":") if p]
        elif variable == "MALLOC_CONF":
            found += [("jemalloc", *pair(p, ":")) for p in text.split(",") if p]
        elif variable == "SCUDO_OPTIONS":
            found += [("scudo", *pair(p, "=")) for p in re.split(r"[\s,:]+", text) if p]
        else:
            m = re.fullmatch(r"(MIMALLOC|TCMALLOC|TBB_MALLOC)_(\w+)", variable)
            if m:
                found.append((m[1].replace("TBB_MALLOC", "TBBMALLOC").lower(), m[2].lower(), text))
    return found


def pair(text: str, sign: str) -> tuple[str, str]:
    name, _, value = text.partition(sign)
    return name.strip(), value.strip()


def label(name: str) -> str:
    return name.removeprefix("glibc.malloc.")


def with_settings(a: Allocator, values: Mapping[str, str]) -> Allocator:
    """The allocator with these knobs, as a treatment of its own; what its catalogue entry sets stays."""
    settings = dict(a.env)
    for variable, text in environment(family(a), values).items():
        both = SIGNS.get(variable)
        settings[variable] = settings[variable] + both + text if both and settings.get(variable) else text
    name = f"{a.name} {' '.join(f'{label(n)}={v}' for n, v in values.items())}"
    return replace(a, name=name, env=tuple(sorted(settings.items())), what="", as_is=False)


# ---- what took effect ----

@dataclass(frozen=True)
class Seen:
    """What the allocator said: its knobs' values, and its complaints."""

    values: dict[str, str]
    complaints: tuple[str, ...]


# Runs in a Python under the allocator: prints what it says of each knob, as JSON. mallctl tells the size of a value only by accepting it.
ASK_JEMALLOC = """
import ctypes, json, sys
f = ctypes.CDLL(None).mallctl
f.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
words = {"thp", "metadata_thp", "percpu_arena", "dss", "stats_print_opts", "junk", "zero_realloc", "lg_chunk"}
def ask(name):
    for kind in ([ctypes.c_char_p] if name in words else [ctypes.c_bool, ctypes.c_uint, ctypes.c_ssize_t]):
        v, n = kind(), ctypes.c_size_t(ctypes.sizeof(kind))
        if f(b"opt." + name.encode(), ctypes.byref(v), ctypes.byref(n), None, 0) == 0:
            x = v.value
            return x.decode() if isinstance(x, bytes) else str(x).lower()
print(json.dumps({n: ask(n) for n in sys.argv[1:]}))
"""
ASK_TCMALLOC = """
import ctypes, json, sys
f = ctypes.CDLL(None).MallocExtension_GetNumericProperty
f.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
names = {"max_total_thread_cache_bytes": b"tcmalloc.max_total_thread_cache_bytes", "aggressive_decommit": b"tcmalloc.aggressive_memory_decommit"}
def ask(name):
    v = ctypes.c_size_t()
    return str(v.value) if name in names and f(names[name], ctypes.byref(v)) else None
print(json.dumps({n: ask(n) for n in sys.argv[1:]}))
"""


ASK_SCUDO = "import ctypes; ctypes.CDLL(None).__scudo_print_stats()"
NOBODYS = "mare_lab_asks=1"  # a setting that scudo complains about, as it doesn't know it
UNSAID = "as it comes"  # what a setting is that was not made, where its allocator doesn't say


def output_of(words: list[str], env: Mapping[str, str]) -> tuple[str, str]:
    r = subprocess.run(words, env=dict(env), capture_output=True, text=True, errors="replace", timeout=60, stdin=subprocess.DEVNULL)
    return r.stdout, r.stderr


def ask(a: Allocator, names: tuple[str, ...]) -> Seen:
    """What the allocator says of these knobs, in a process with its environment."""
    fam, env = family(a), os.environ | a.environment(os.environ)
    if fam == "glibc":
        loader = elf.read(os.path.realpath(sys.executable)).interpreter
        said, err = output_of([loader, "--list-tunables"], env)
        return Seen({n: v for n, v in re.findall(r"^(\S+): (\S+) \(", said, re.M)}, tuple(err.strip().splitlines()))
    if fam == "mimalloc":
        said = "".join(output_of(["/bin/true"], env | {"MIMALLOC_VERBOSE": "1"}))
        complaints = tuple(m for m in re.findall(r"mimalloc: warning: (.*)", said) if "option" in m)
        return Seen({n: v for n, v in re.findall(r"option '(\w+)': (\S+)", said)}, complaints)
    if fam == "tbbmalloc":
        said = "".join(output_of(["/bin/ls", "/"], env | {"TBB_VERSION": "1"}))
        m = re.search(r"huge pages\s+(not )?requested", said)
        return Seen({"use_huge_pages": "0" if m[1] else "1"} if m else {}, ())
    if fam == "scudo":
        return ask_scudo(env, names)
    script = {"jemalloc": ASK_JEMALLOC, "tcmalloc": ASK_TCMALLOC}.get(fam)
    if not script:
        return Seen({}, ())
    said, err = output_of([sys.executable, "-I", "-c", script, *names], env)
    complaints = tuple(re.findall(r"<jemalloc>: (.*)", err))
    try:
        return Seen({n: v for n, v in json.loads(said).items() if v is not None}, complaints)
    except ValueError:
        return Seen({}, complaints or tuple(err.strip().splitlines()[-1:]))


def ask_scudo(env: Mapping[str, str], names: tuple[str, ...]) -> Seen:
    """The sizes of its quarantine are in its statistics. For other settings its complaints have to do."""
    options = env.get("SCUDO_OPTIONS", "")
    made = {n: v for f, n, v in parse({"SCUDO_OPTIONS": options}) if f == "scudo"}
    probes = {k.name: k.values[0] for k in table() if k.family == "scudo" and k.name in names and k.name not in made}
    said = "".join(output_of([sys.executable, "-I", "-c", ASK_SCUDO], env | {"SCUDO_OPTIONS": f"{options}:{NOBODYS}"}))
    errors = tuple(e.replace(f":{NOBODYS}", "") for e in re.findall(r"Scudo ERROR: (.*)", said))
    unknown = set(unrecognised(said))
    if errors or NOBODYS not in unknown:
        return Seen({}, errors or ("nothing, though it was given a setting that it can't know",))
    if unknown != {NOBODYS}:
        return Seen({}, tuple(f"unrecognized flag {u}" for u in sorted(unknown - {NOBODYS})))
    values = dict(made)
    limits = re.search(r"Quarantine limits: global: (\d+)K; thread local: (\d+)K", said)
    if limits:
        values |= {"quarantine_size_kb": limits[1], "thread_local_quarantine_size_kb": limits[2]}
    if probes:
        probed = "".join(output_of([sys.executable, "-I", "-c", ASK_SCUDO], env | environment("scudo", probes | {"mare_lab_asks": "1"})))
        refused_ = set(unrecognised(probed))
        values |= {n: UNSAID for n, v in probes.items() if NOBODYS in refused_ and f"{n}={v}" not in refused_}
    return Seen(values, ())


def unrecognised(said: str) -> list[str]:
    """Settings that scudo doesn't know. It prints each with all that stands behind it."""
    found = re.search(r"Scudo WARNING: found \d+ unrecognized flag\(s\):\n((?: +\S+\n)+)", said + "\n")
    return [re.split("[,:]", word)[0] for word in found[1].split()] if found else []


def listed(fam: str) -> list[str]:
    return [k.name for k in table() if k.family == fam]


def untrue(a: Allocator, settings: list[tuple[str, str]]) -> str | None:
    """Why these settings, which its environment makes, did not take effect; None where all did, as the allocator itself says."""
    fam = family(a)
    seen = ask(a, tuple(n for n, _ in settings))
    if seen.complaints:
        return f"{fam} says: {seen.complaints[0]}"
    for name, value in settings:
        known = next((k for k in table() if (k.family, k.name) == (fam, name)), None) or Knob(fam, name, "integer" if fam != "jemalloc" else "word", (), "")
        got = seen.values.get(name)
        if got is None:
            meant = difflib.get_close_matches(name, [*seen.values, *listed(fam)], 1)
            return f"{fam} here knows no {name}" + (f"; did you mean {meant[0]}?" if meant else "")
        if not known.same(got, value) and not (known.kind == "word" and Knob(fam, name, "integer", (), "").same(got, value)):
            return f"{name}={value} did not take effect: {fam} says it is {got}"
    return None


def refused(a: Allocator) -> str | None:
    """Why an allocator with settings of its own, from a catalogue, must not be measured: one of them did not take effect. Of an allocator that
    none of the families is, nothing is known."""
    fam, settings = family(a), parse(dict(a.env))
    if not fam or not settings:
        return None
    foreign = next(((n, f) for f, n, _ in settings if f != fam), None)
    return f"{foreign[0]} is a knob of {foreign[1]}, and this is {fam}" if foreign else untrue(a, [(n, v) for _, n, v in settings])


# ---- candidates ----

def default_value(a: Allocator, k: Knob) -> str | None:
    return ask(a, tuple(listed(k.family))).values.get(k.name)


def known(a: Allocator) -> list[tuple[Knob, str]]:
    """The knobs that this version of it has, each with the value it has today."""
    fam = family(a)
    seen = ask(a, tuple(listed(fam))).values if fam else {}
    return [(k, seen[k.name]) for k in table() if k.family == fam and k.name in seen]


def singles(a: Allocator, thp: str) -> tuple[list[dict[str, str]], list[str]]:
    """One knob turned at a time, the promising values first, and why others are left out. What glibc lists as 0 was not set, which is no value."""
    why = why_none(a)
    turned, left = [], [f"settings of {a.name}: {why}"] if why else []
    for k, now in known(a):
        if thp == "never" and ("hugetlb" in k.name or k.name in ("thp", "metadata_thp")):
            left.append(f"{label(k.name)}: the system gives no huge pages (THP is never)")
            continue
        for place, v in enumerate(k.values):
            if k.family == "glibc" or not k.same(now, v):
                turned.append((place, {k.name: v}))
    return [s for _, s in sorted(turned, key=lambda x: x[0])], left


def settings_of(word: str) -> tuple[str, dict[str, str]]:
    """The family and the settings that VARIABLE=VALUE names, as the environment would have it."""
    variable, equals, value = word.partition("=")
    pairs = parse({variable: value}) if equals else []
    if not pairs or any(not v for *_, v in pairs):
        raise LabError(f"--try {word}: no allocator has that; write VARIABLE=VALUE, as in MALLOC_CONF=dirty_decay_ms:0, GLIBC_TUNABLES=glibc.malloc.arena_max=1, "
                       "MIMALLOC_LARGE_OS_PAGES=1 or SCUDO_OPTIONS=release_to_os_interval_ms=0")
    return pairs[0][0], {n: v for _, n, v in pairs}


def asked(words: list[str], families: Mapping[str, Allocator]) -> list[tuple[str, dict[str, str]]]:
    """Settings that the user named; refused where they don't take effect."""
    found = []
    for word in words:
        fam, settings = settings_of(word)
        if fam not in families:
            raise LabError(f"--try {word}: {fam} does not take part; there are {', '.join(families)}")
        why = untrue(with_settings(families[fam], settings), list(settings.items()))
        if why:
            raise LabError(f"--try {word}: {why}")
        found.append((fam, settings))
    return found
