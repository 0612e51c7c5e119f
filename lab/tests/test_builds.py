"""Two builds of a program in the same blocks, and what CI makes of it."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest
from studies import simulated

from marelab import blocks, builds, cli, measure, recommend


@pytest.fixture
def made_up(monkeypatch, tmp_path):
    """B takes so many times as long as A, by what measure.once says; nothing is run."""
    for name in ("old", "new"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)

    def times(factor, noise=0.003, exit=0):
        def once(goal, treatment, *more, **options):
            slow = factor if treatment.name == "B" else 1.0
            seconds = float(slow * np.exp(noise * rng.normal()))
            return measure.Outcome(seconds, seconds, 0.0, 1000, 10, 0, 1, 0, exit if treatment.name == "B" else 0, 0, None, 0)

        monkeypatch.setattr(measure, "once", once)

    return times


@pytest.mark.parametrize("factor,noise,word,code", [(1.2, 0.003, "worse", 3), (0.8, 0.003, "better", 0), (1.01, 0.003, "same", 0),
                                                    (1.04, 0.08, "undecided", 4)])
def test_each_word_has_its_exit_code(made_up, capsys, factor, noise, word, code):
    made_up(factor, noise)
    assert cli.main(["compare-builds", "old", "new", "--seed", "3", "--budget", "0", "--json"]) == code
    r = json.loads(capsys.readouterr().out)
    assert r["word"] == word and r["sentence"].lower().startswith("the same" if word == "same" else word)
    main = r["responses"]["wall"]
    assert main["low"] <= main["ratio"] <= main["high"] and r["blocks"] == 10
    assert (r["further"] is None) == (word != "undecided")


def test_exit_codes_can_be_others(made_up, capsys):
    made_up(0.8)
    assert cli.main(["compare-builds", "old", "new", "--budget", "0", "--codes", "better=10,worse=0"]) == 10
    assert cli.main(["compare-builds", "old", "new", "--codes", "best=1"]) == 2
    assert "--codes best=1: write a word of better, same, worse, undecided" in capsys.readouterr().err


@pytest.mark.parametrize("factor,noise,failed,skipped", [(1.2, 0.003, "1", "0"), (1.0, 0.003, "0", "0"), (1.04, 0.08, "0", "1")])
def test_a_junit_report_fails_skips_or_passes(made_up, tmp_path, factor, noise, failed, skipped):
    made_up(factor, noise)
    cli.main(["compare-builds", "old", "new", "--seed", "3", "--budget", "0", "--junit", "report.xml"])
    suite = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert (suite.get("failures"), suite.get("skipped")) == (failed, skipped) and suite.find("testcase").get("name") == "run time"
    assert "95 % interval" in suite.find("testcase/system-out").text


def test_a_build_that_fails_is_named_with_its_command(made_up, capsys):
    made_up(1.0, exit=7)
    assert cli.main(["compare-builds", "old", "new", "--", "--fast"]) == 1
    said = capsys.readouterr().err
    assert "build B failed in block 0: it ended with exit code 7" in said and "new --fast" in said


def test_the_builds_really_run_and_their_rows_are_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("old", "new"):
        (tmp_path / name).write_text('#!/bin/sh\necho "$0 $1" >>"$2"\n')
        (tmp_path / name).chmod(0o755)
    assert cli.main(["compare-builds", "old", "new", "-o", "out", "--budget", "0", "--", "x", str(tmp_path / "log")]) in (0, 3, 4)
    said = (tmp_path / "log").read_text().split("\n")
    assert sum(line.endswith("/old x") for line in said) >= 11 <= sum(line.endswith("/new x") for line in said)
    assert (tmp_path / "out" / "builds.json").exists() and "B / A, 95 % interval" in capsys.readouterr().out
    assert cli.main(["compare-builds", "old", "new", "-o", "out", "--", "x"]) == 2
    assert "already holds results" in capsys.readouterr().err


def test_a_build_may_be_a_part_of_the_command():
    assert builds.command("/b/x", ["a", "b"]) == ("/b/x", "a", "b")
    assert builds.command("/b/x.so", ["env", "LD_PRELOAD={}", "p"]) == ("env", "LD_PRELOAD=/b/x.so", "p")


@pytest.mark.parametrize("words,message", [(["old", "none"], "none: there is no such file"), (["old", "new", "--margin", "0"], "--margin"),
                                           (["old", "new", "--blocks", "5"], "at least 10")])
def test_mistakes_are_said(made_up, capsys, words, message):
    assert cli.main(["compare-builds", *words]) == 2
    assert message in capsys.readouterr().err


def test_undecided_never_hides_what_is_shown():
    assert builds.sentence("undecided", 1.01, 1.08, 0.05, "run time") == "Undecided: B takes at least 1 % more run time, not surely 5 %."
    assert builds.sentence("undecided", 0.97, 1.08, 0.05, "run time") == "Undecided: B takes between 3 % less and 8 % more run time."
    assert [builds.word(*x, 0.05) for x in ((1.06, 1.2), (1.01, 1.04), (1.01, 1.06), (0.8, 0.9), (0.94, 1.0))] == \
        ["worse", "same", "undecided", "better", "undecided"]


def test_a_build_that_is_no_slower_is_rarely_called_worse_and_twice_the_margin_is_found():
    """15 % of the runs disturbed; a build within the margin must not fail a pipeline."""
    rng, counts = np.random.default_rng(5), {f: [] for f in (1.0, 1.04, 1.1)}
    for factor, words in counts.items():
        for _ in range(200):
            s = recommend.standing("wall", ["A", "B"], simulated(rng, [1, factor], 30, (0.008, 0.02), disturbed=0.15), 0.05)
            words.append(builds.word(*s.more("B", "A")[1:], 0.05))
    assert counts[1.0].count("worse") == 0 and counts[1.04].count("worse") <= 0.025 * 200 + 3
    assert counts[1.1].count("worse") >= 0.9 * 200 and counts[1.1].count("same") == 0


def test_both_run_in_each_block_in_a_random_order(made_up, tmp_path):
    made_up(1.0)
    args = cli.subcommand(["compare-builds", "old", "new", "--seed", "3", "--budget", "0"])[1]
    plan = builds.plan_from(args)
    builds.conduct(plan, {"A": "old", "B": "new"}, tmp_path)
    with blocks.Rows(tmp_path / "runs.csv") as rows:
        order = [r["allocator"] for r in rows.kept]
    assert len(order) == 22 and all(set(order[i:i + 2]) == {"A", "B"} for i in range(0, 22, 2)) and len(set(map(tuple, zip(order[::2], order[1::2])))) == 2
