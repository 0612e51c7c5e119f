"""The command line itself: help, mistakes, exit codes."""

import re
import subprocess
import sys

import pytest

from marelab import cli, measure
from marelab.errors import LabError


def lab(*args):
    return subprocess.run([sys.executable, "-m", "marelab", *args], capture_output=True, text=True, timeout=300)


def test_help_names_every_command_that_is_here():
    r = lab("--help")
    assert r.returncode == 0
    for name, _, _ in cli.available():
        assert re.search(rf"^  {name} ", r.stdout, re.M)


def test_nothing_asked_is_a_mistake():
    assert lab().returncode == 2


def test_an_unknown_command_names_those_that_exist():
    r = lab("xyz")
    assert r.returncode == 2
    assert "no command 'xyz'; there are choose, " in r.stderr and "Traceback" not in r.stderr


def test_a_mistyped_command_names_the_nearest():
    r = lab("chose")
    assert r.returncode == 2
    assert r.stderr == "mare lab: no command 'chose'; did you mean choose?\n"


@pytest.mark.parametrize("words,said", [
    (["choose", "--quik", "--", "true"], "choose: unrecognized arguments: --quik; did you mean --quick?; `mare lab choose --help` tells all options"),
    (["choose", "--margin", "abc", "--", "true"], "choose: argument --margin: 'abc' is no number; `mare lab choose --help` tells all options"),
    (["choose", "--blocks", "1.5", "--", "true"], "choose: argument --blocks: '1.5' is no whole number; `mare lab choose --help` tells all options"),
    (["tune", "--quick", "--", "true"], "tune: unrecognized arguments: --quick; a short search is --minutes 1; `mare lab tune --help` tells all options"),
])
def test_a_mistaken_option_is_one_line(words, said, capsys):
    assert cli.main(words) == 2
    assert capsys.readouterr().err == f"mare lab: {said}\n"


@pytest.mark.parametrize("word", ["FOO=1", "MALLOC_CONF"])
def test_a_setting_that_no_allocator_has_is_refused_before_anything_runs(word, monkeypatch, capsys):
    monkeypatch.setattr(measure, "once", lambda *a, **k: pytest.fail("it ran the program"))
    assert cli.main(["tune", "--try", word, "--", "true"]) == 2
    assert f"--try {word}: no allocator has that" in capsys.readouterr().err


def test_a_trace_is_no_result_and_says_what_draws_it(tmp_path, capsys):
    (tmp_path / "trace.json").write_text("{}")
    assert cli.main(["report", str(tmp_path)]) == 2
    assert f"`mare lab describe {tmp_path} --figures DIR` describes and draws it" in capsys.readouterr().err


def test_an_error_of_the_user_is_one_line_with_its_exit_code(monkeypatch, capsys):
    def refuse(argv):
        raise LabError("no room in /tmp: free some", code=1)

    monkeypatch.setattr(cli, "subcommand", refuse)
    assert cli.main(["anything"]) == 1
    assert capsys.readouterr().err == "mare lab: no room in /tmp: free some\n"


@pytest.mark.parametrize("name", [c[0] for c in cli.available()])
def test_every_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([name, "--help"])
    assert end.value.code == 0 and f"mare lab {name}" in capsys.readouterr().out
