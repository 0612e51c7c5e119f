"""Settings of allocators, asked of the real libraries: what took effect and what did not."""

import pytest

from marelab import allocators, cli, knobs, tune
from marelab.errors import LabError

ALL = {a.name: a for a in allocators.load().values()}
FIVE = ["glibc", "jemalloc", "mimalloc", "tcmalloc", "tbbmalloc"]


@pytest.mark.parametrize("name", FIVE)
def test_every_value_of_the_table_takes_effect_as_the_allocator_says_itself(name):
    a = ALL[name]
    assert not a.missing and knobs.family(a) == name
    settings, left = knobs.singles(a, "madvise")
    assert settings and not left
    for s in settings:
        assert knobs.untrue(knobs.with_settings(a, s), list(s.items())) is None, s


def test_settings_that_exclude_each_other_are_noticed():
    both = {"narenas": "1", "percpu_arena": "percpu"}
    assert "narenas=1 did not take effect: jemalloc says it is" in knobs.untrue(knobs.with_settings(ALL["jemalloc"], both), list(both.items()))
    fit = {"narenas": "1", "dirty_decay_ms": "0", "background_thread": "true"}
    assert knobs.untrue(knobs.with_settings(ALL["jemalloc"], fit), list(fit.items())) is None


@pytest.mark.parametrize("word,message", [
    ("MALLOC_CONF=nosuch:true", "jemalloc says: Invalid conf pair: nosuch:true"), ("MALLOC_CONF=dirty_decay_ms:soon", "Invalid conf value"),
    ("GLIBC_TUNABLES=glibc.malloc.arenamax=1", "glibc here knows no glibc.malloc.arenamax; did you mean glibc.malloc.arena_max?"),
    ("GLIBC_TUNABLES=glibc.malloc.arena_max=many", "did not take effect: glibc says it is 0x0"),
    ("MIMALLOC_NOSUCH=1", "mimalloc here knows no nosuch"), ("TCMALLOC_AGRESSIVE_DECOMMIT=1", "did you mean aggressive_decommit?"),
    ("LD_PRELOAD=x", "write VARIABLE=VALUE"), ("MALLOC_CONF", "write VARIABLE=VALUE"), ("MALLOC_CONF=narenas", "write VARIABLE=VALUE")])
def test_what_does_not_take_effect_is_refused(word, message):
    with pytest.raises(LabError) as e:
        knobs.asked([word], {n: ALL[n] for n in FIVE})
    assert message in str(e.value)


def test_what_the_user_names_is_taken_apart_as_the_allocator_does():
    found = knobs.asked(["MALLOC_CONF=narenas:1,dirty_decay_ms:5000", "MIMALLOC_LARGE_OS_PAGES=1"], {n: ALL[n] for n in FIVE})
    assert found == [("jemalloc", {"narenas": "1", "dirty_decay_ms": "5000"}), ("mimalloc", {"large_os_pages": "1"})]
    with pytest.raises(LabError, match="jemalloc does not take part; there are glibc"):
        knobs.asked(["MALLOC_CONF=narenas:1"], {"glibc": ALL["glibc"]})


def test_settings_join_those_of_the_catalogue():
    made = knobs.with_settings(ALL["glibc-notcache"], {"glibc.malloc.arena_max": "1"})
    assert dict(made.env) == {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1"}
    assert made.name == "glibc-notcache arena_max=1"


def test_a_catalogue_entry_whose_setting_does_nothing_takes_no_part_in_a_choice(lab, tmp_path):
    (tmp_path / "mine.toml").write_text('[[allocator]]\nname = "typo"\nlibrary = "libjemalloc.so.2"\nenv = { MALLOC_CONF = "nosuch:true" }\n'
                                        '[[allocator]]\nname = "foreign"\nlibrary = "libmimalloc.so.2"\nenv = { MALLOC_CONF = "narenas:1" }\n')
    r = lab("choose", "--catalogue", "mine.toml", "--allocators", "typo,foreign", "--", "/bin/true")
    assert r.returncode == 1
    assert "typo: jemalloc says: Invalid conf pair: nosuch:true" in r.stderr and "foreign: narenas is a knob of jemalloc, and this is mimalloc" in r.stderr


def test_an_allocator_is_known_by_what_it_is_not_by_its_name(tmp_path):
    (tmp_path / "libours.so").symlink_to(ALL["jemalloc"].objects[0])
    assert knobs.family(allocators.Allocator("ours", str(tmp_path / "libours.so"))) == "jemalloc"
    assert knobs.family(allocators.Allocator("none", "/lib/x86_64-linux-gnu/libm.so.6")) is None


def test_where_the_system_gives_no_huge_pages_they_are_not_tried():
    settings, left = knobs.singles(ALL["glibc"], "never")
    assert not any("hugetlb" in n for s in settings for n in s) and "hugetlb: the system gives no huge pages" in left[0]


def test_an_allocator_without_knobs_says_so(capsys):
    assert cli.main(["tune", "--list", "--allocators", "miser,mare"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == ["miser", f"  {tune.NONE}", "mare", f"  {tune.NONE}"]


def test_the_knobs_are_listed_with_what_they_are_now(capsys):
    assert cli.main(["tune", "--list", "--allocators", "jemalloc"]) == 0
    out = capsys.readouterr().out
    assert "dirty_decay_ms" in out and "now 10000; tried: 0, 1000, 60000, -1" in out and "milliseconds" in out
