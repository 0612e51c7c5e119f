"""Settings of the allocators that are built on demand: which there are, that they take effect, that mistakes are refused. Where one isn't built, its test is left out with a word."""

import os
import re
import subprocess
import sys

import pytest
from conftest import USERS_CACHE

from marelab import allocators, cli, elf, env, knobs, tune
from marelab.errors import LabError

ALL = {a.name: a for a in allocators.load().values()}


@pytest.fixture(autouse=True)
def those_of_the_user(monkeypatch):
    monkeypatch.setenv("MARE_LAB_CACHE", USERS_CACHE)


def here(name: str) -> allocators.Allocator:
    a = allocators.load()[name]
    if a.missing:
        pytest.skip(f"{name} isn't built here: mare lab allocators --get {name}")
    return a


@pytest.mark.parametrize("name,family", [("scudo", "scudo"), ("mimalloc-secure", "mimalloc")])
def test_every_value_of_the_table_takes_effect_as_the_allocator_says_itself(name, family):
    a = here(name)
    settings, left = knobs.singles(a, "madvise")
    assert knobs.family(a) == family and settings and not left
    for s in settings:
        assert knobs.untrue(knobs.with_settings(a, s), list(s.items())) is None, s


@pytest.mark.parametrize("name", ["snmalloc", "rpmalloc", "hardened_malloc", "hoard"])
def test_one_without_settings_is_known_says_why_and_reads_none(name, capsys):
    a = here(name)
    assert knobs.family(a) == name and knobs.known(a) == [] and knobs.why_none(a)
    wanted = subprocess.run(["nm", "-D", "--undefined-only", os.path.realpath(a.library)], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"getenv|environ", wanted)
    assert knobs.singles(a, "madvise") == ([], [f"settings of {name}: {knobs.why_none(a)}"])
    assert cli.main(["tune", "--list", "--allocators", name]) == 0
    assert capsys.readouterr().out == f"{name}\n  no settings that the environment could make: {knobs.why_none(a)}\n"


@pytest.mark.parametrize("word,message", [
    ("SCUDO_OPTIONS=release_to_os_interval=1", "scudo says: unrecognized flag release_to_os_interval=1"),
    ("SCUDO_OPTIONS=release_to_os_interval_ms=soon", "scudo says: invalid value for int option: 'soon'"),
    ("SCUDO_OPTIONS=release_to_os_interval_ms=0:nosuch=2", "scudo says: unrecognized flag nosuch=2"),
    ("SCUDO_OPTIONS=quarantine_size_kb=-5:thread_local_quarantine_size_kb=8", "quarantine_size_kb=-5 did not take effect: scudo says it is 18014398509481979"),
    ("SCUDO_OPTIONS=release_to_os_interval_ms", "write VARIABLE=VALUE")])
def test_what_scudo_does_not_take_is_refused(word, message):
    with pytest.raises(LabError) as e:
        knobs.asked([word], {"scudo": here("scudo")})
    assert message in str(e.value)


def test_settings_of_scudo_are_taken_apart_as_it_does_and_join():
    asked = knobs.asked(["SCUDO_OPTIONS=quarantine_size_kb=64,thread_local_quarantine_size_kb=16"], {"scudo": here("scudo")})
    assert asked == [("scudo", {"quarantine_size_kb": "64", "thread_local_quarantine_size_kb": "16"})]
    made = knobs.with_settings(knobs.with_settings(here("scudo"), {"quarantine_size_kb": "64"}), {"thread_local_quarantine_size_kb": "16"})
    assert dict(made.env) == {"SCUDO_OPTIONS": "quarantine_size_kb=64:thread_local_quarantine_size_kb=16"}


def test_scudos_word_is_not_taken_where_it_would_complain_of_nothing(monkeypatch):
    monkeypatch.setattr(knobs, "output_of", lambda words, env: ("", ""))
    assert knobs.ask_scudo({"SCUDO_OPTIONS": "nosuch=1"}, ("nosuch",)).complaints


def test_scudo_gives_memory_back_at_once_or_never_as_it_was_set():
    """What the setting means, counted by its own statistics in a process that allocates and frees."""
    releases = {}
    for value in ("0", "-1"):
        a = knobs.with_settings(here("scudo"), {"release_to_os_interval_ms": value})
        script = "import ctypes\nfor _ in range(20):\n    x = [bytes(3000) for _ in range(3000)]\n    del x\nctypes.CDLL(None).__scudo_print_stats()"
        said = subprocess.run([sys.executable, "-I", "-c", script], env=os.environ | a.environment(os.environ), capture_output=True, text=True, check=True)
        releases[value] = sum(map(int, re.findall(r"releases: +(\d+)", said.stdout + said.stderr)))
    assert releases["0"] > 0 == releases["-1"]


def test_two_builds_of_one_family_both_have_their_settings_tried(monkeypatch):
    """mimalloc and mimalloc-secure are libraries of their own; glibc and glibc-notcache are one."""
    asked = []
    one, other = (allocators.Allocator(n, f"/lib/{n}.so") for n in ("one", "other"))
    monkeypatch.setattr(knobs, "family", lambda a: "mimalloc" if a.library else "glibc")
    monkeypatch.setattr(knobs, "singles", lambda a, thp: asked.append(a.name) or ([], []))
    monkeypatch.setattr(env, "chosen", lambda text: "madvise")
    args = type("Args", (), {"extra": []})
    tune.candidates(args, [ALL["glibc"], ALL["glibc-notcache"], one, other], ALL["glibc"])
    assert asked == ["glibc", "one", "other"]


def test_marks_are_of_one_family_each():
    for a in allocators.load().values():
        if a.library and not a.missing:
            marks = knobs.MARKS | {f: mark for f, (mark, _) in knobs.without().items()}
            assert sum(elf.defines(os.path.realpath(a.library), mark) for mark in marks.values()) <= 1, a.name
