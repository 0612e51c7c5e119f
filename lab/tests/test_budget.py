"""Counts of allocations against recorded ones: what passes, what has grown, what can't be judged."""

import json
import re
from xml.etree import ElementTree

import pytest

from marelab import cli

LUA = 'command = ["lua5.4", "-e", "local t = {} for i = 1, tonumber(os.getenv \'N\') do t[i] = {i} end"]'


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Writes budget.toml and runs the command: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(text, *words):
        (tmp_path / "budget.toml").write_text(text)
        code = cli.main(["budget", "budget.toml", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def tables(n, more=""):
    return f'[scenario.tables]\n{LUA}\nenv = {{ N = "{n}" }}\n{more}\n'


def test_what_was_recorded_is_kept_and_growth_is_found_and_located(check):
    code, out, _ = check(tables(1000), "--record")
    assert code == 0 and "Within its budget: tables." in out and "Written: budget.toml.counts" in out
    assert check(tables(1000))[0] == 0
    code, out, _ = check(tables(1100))
    assert code == 3 and "Grown beyond its budget: tables." in out
    assert re.search(r"more blocks of .*\(\+100\)", out)  # a table of one element for each of a hundred more
    assert "mare lab trace --stacks 100 -o t -- lua5.4 -e 'local t" in out
    assert check(tables(1100), "--codes", "grown=1")[0] == 1


def test_growth_within_what_is_allowed_passes(check):
    check(tables(1000), "--record")
    assert check(tables(1010, "allow = { allocations = 2, bytes = 2, peak = 2 }"))[0] == 0
    assert check(tables(1010, "allow = 2"))[0] == 0
    code, out, _ = check(tables(1010, "allow = { bytes = 2, peak = 2 }"))
    assert code == 3 and out.count("GROWN") == 1


def test_less_than_before_is_said_so_that_it_is_recorded(check):
    check(tables(1000), "--record")
    code, out, _ = check(tables(500))
    assert code == 0 and "Less than before: tables; --record keeps that" in out


def test_an_absolute_limit_needs_no_record(check):
    assert check(tables(1000, 'at_most = { peak = "20M" }'))[0] == 0
    code, out, _ = check(tables(1000, 'at_most = { peak = "20k", allocations = 100000 }'))
    assert code == 3 and out.count("GROWN") == 1 and "20,480" in out


def test_what_nothing_limits_is_refused_as_it_would_always_pass(check):
    code, _, err = check(tables(10))
    assert code == 2 and "nothing limits tables" in err and "--record --only tables" in err


def test_results_for_machines(check, tmp_path):
    both = tables(1000) + tables(1000).replace("scenario.tables", "scenario.more")
    check(both, "--record")
    changed = both.replace('"1000"', '"2000"', 1)
    code, out, _ = check(changed, "--json", "--junit", "j.xml")
    data = json.loads(out)
    assert code == 3 and data["word"] == "grown" and [s["word"] for s in data["scenarios"]] == ["grown", "within"]
    assert data["scenarios"][0]["measures"]["bytes"]["now"] > data["scenarios"][0]["measures"]["bytes"]["limit"]
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert suite.get("tests") == "2" and suite.get("failures") == "1"
    assert [c.find("failure") is not None for c in suite] == [True, False]
    assert check(changed, "--only", "more")[0] == 0


def test_only_what_is_named_is_recorded_anew(check):
    both = tables(1000) + tables(1000).replace("scenario.tables", "scenario.more")
    check(both, "--record")
    check(both.replace('"1000"', '"2000"'), "--record", "--only", "more")
    code, out, _ = check(both.replace('"1000"', '"2000"'), "--json")
    assert code == 3 and [s["word"] for s in json.loads(out)["scenarios"]] == ["grown", "within"]


VARYING = '[scenario.restless]\ncommand = ["sh", "-c", "lua5.4 -e \\"for i = 1, $(cat n) do io.stdout:setvbuf(\'no\') end t = {}; for i = 1, $(cat n) do t[i] = {i} end\\"; echo 1200 >n"]\n'


def test_runs_that_differ_are_refused_until_a_tolerance_is_stated(check, tmp_path):
    (tmp_path / "n").write_text("1000")
    code, _, err = check(VARYING + 'at_most = { peak = "9G" }')
    assert code == 1 and "differ by" in err
    stated = re.search(r"tolerance = (\d+)", err)[0]
    (tmp_path / "n").write_text("1000")
    assert check(VARYING + 'at_most = { peak = "9G" }\n' + stated)[0] == 0


def test_all_processes_of_a_scenario_count(check):
    one = check('[scenario.x]\ncommand = ["lua5.4", "-e", "x = 1"]\nat_most = { peak = "9G" }', "--json")[1]
    two = check('[scenario.x]\ncommand = ["sh", "-c", "lua5.4 -e \'x = 1\'; lua5.4 -e \'x = 1\'; exit 0"]\nat_most = { peak = "9G" }', "--json")[1]
    one, two = (json.loads(x)["scenarios"][0]["measures"] for x in (one, two))
    assert two["allocations"]["now"] >= 2 * one["allocations"]["now"] and two["peak"]["now"] < 2 * one["peak"]["now"]


@pytest.mark.parametrize("text,code,message", [
    ("", 2, "no [scenario.NAME]"), ("[scenarios.x]", 2, "'scenarios' is no key"), ("[scenario.x]", 2, "command is a list of words"),
    ("scenario = 3", 2, "no [scenario.NAME]"), ("[scenario]\nx = 3", 2, "write [scenario.x]"),
    ('[scenario.x]\ncommand = "ls"', 2, "command is a list"), ('[scenario.x]\ncommand = ["ls"]\nallowed = 3', 2, "no key 'allowed'; there are command"),
    ('[scenario.x]\ncommand = ["ls"]\nallow = { size = 3 }', 2, "no measure 'size'; there are allocations"),
    ('[scenario.x]\ncommand = ["ls"]\nallow = -1', 2, "isn't negative"), ('[scenario.x]\ncommand = ["ls"]\nat_most = { peak = "big" }', 2, "at_most.peak"),
    ('[scenario.x]\ncommand = ["ls"]\nstdin = "none"', 2, "no such file"), ('[scenario.x]\ncommand = ["ls"]\nenv = { A = 1 }', 2, "env holds texts"),
    ('[scenario.x]\ncommand = ["nosuchprogram"]\nat_most = { peak = 1 }', 2, "nosuchprogram"),
    ('[scenario.x]\ncommand = ["sh", "-c", "echo oh no >&2; exit 3"]\nat_most = { peak = 1 }', 1, "x ended with exit code 3; its last words: oh no"),
    ('[scenario.x]\ncommand = ["sleep", "9"]\ntimeout = 0.5\nat_most = { peak = 1 }', 1, "did not end within 0.5 s"),
    ('[scenario.x]\ncommand = ["ls"]\nallow = [', 2, "budget.toml")])
def test_mistakes_and_failures_name_the_place(check, text, code, message):
    got, _, err = check(text)
    assert got == code and message in err and err.count("\n") == 1, err


def test_a_damaged_record_is_no_success(check, tmp_path):
    for damaged, message in (("{", "it is not JSON"), ('{"kind": "budget", "version": 1, "scenarios": {"tables": {"bytes": 3}}}', "not whole")):
        (tmp_path / "budget.toml.counts").write_text(damaged)
        code, _, err = check(tables(10))
        assert code == 2 and message in err and "budget.toml.counts" in err
