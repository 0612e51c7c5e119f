"""Designs, and studies that are interrupted, guarded, analysed, ranked, compared and reported."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tracing import wait_until

from marelab import analyse, cli, compare, design, measure, rank, report, results, study
from marelab.allocators import Allocator
from marelab.errors import LabError
from marelab.rows import Rows

TOML = """
title = "small"
command = ["sh", "-c", "exec lua5.4 -e 'local t = {} for i = 1, {N} do t[i] = (\\"x\\"):rep({S} + i % 7) end print(\\"{\\\\\\"seconds\\\\\\": \\" .. os.clock() .. \\"}\\")'"]
blocks = 3
[factors]
N = [1000, 4000]
S = [10, 200]
[responses]
time = "out_seconds"
memory = "peak_kib"
"""


def write(tmp_path, text, name="d.toml"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


# ---- designs ----

@pytest.mark.parametrize("change,words", [
    (("[factors]", "[factor]"), "unknown key 'factor'"),
    (("{S}", "{Q}"), "names {Q}, which is no factor"),
    (("+ i % 7", ""), None),
    (("S = [10, 200]", "S = [10, 200]\nT = [1, 2]"), "factor T changes nothing"),
    (("N = [1000, 4000]", "N = []"), "factor N needs a list"),
    (("N = [1000, 4000]", "N = [1, 1]"), "a level twice"),
    (('"peak_kib"', '"peak"'), "response memory"),
    (("blocks = 3", "blocks = 0"), "whole numbers"),
    (("blocks = 3", 'cpus = "Q"'), "cpus ="),
    (("blocks = 3", "blocks ="), "d.toml"),
    (("[responses]", "[limits]\nQ = 3\n[responses]"), "[limits] names 'Q'"),
])
def test_a_mistake_in_a_design_is_named(tmp_path, change, words):
    path = write(tmp_path, TOML.replace(*change))
    if words is None:
        design.read(path)
        return
    with pytest.raises(LabError) as error:
        design.read(path)
    assert words in str(error.value) and "d.toml" in str(error.value)


def test_an_unknown_design_names_those_that_exist():
    with pytest.raises(LabError, match="chapter5.*preset"):
        design.read("chapter6")


def test_the_published_study_has_648_treatments_and_says_what_a_small_machine_cuts():
    d = design.fit_to_machine(design.read("chapter5"), cpus=32, spare_mib=1e6)
    assert len(d.cells) == 648 and not d.cuts
    d = design.fit_to_machine(design.read("chapter5"), cpus=2, spare_mib=1e6)
    assert len(d.cells) == 216 and d.factors["NP"] == [1, 2]
    assert any("NP: levels 4, 8, 16, 32 are cut" in c for c in d.cuts)
    d = design.fit_to_machine(design.read("chapter5"), cpus=2, spare_mib=1000)
    assert len(d.cells) == 216 - 24 and any("is left out: it needs some" in c for c in d.cuts)


@pytest.mark.parametrize("name", design.available())
def test_every_design_that_comes_with_the_laboratory_makes_commands(name):
    d = design.fit_to_machine(design.read(name), cpus=2, spare_mib=1e6)
    words = design.words(d, d.cells[0], 7, "/w")
    assert words[0] == "/w" and not any("{" in w for w in words)


def test_a_fraction_keeps_every_level_equally_often(tmp_path):
    text = TOML.replace("blocks = 3", "blocks = 3\nfraction = 2")
    d = design.fit_to_machine(design.read(write(tmp_path, text)))
    assert len(d.cells) == 2 and {c["N"] for c in d.cells} == {1000, 4000} and {c["S"] for c in d.cells} == {10, 200}


# ---- running ----

@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished small study."""
    tmp = tmp_path_factory.mktemp("study")
    path = write(tmp, TOML)
    r = subprocess.run([sys.executable, "-m", "marelab", "study", path, "-o", str(tmp / "s"), "--allocators", "glibc,jemalloc,mimalloc", "--json"],
                       capture_output=True, text=True, timeout=600)
    assert r.returncode == 0, r.stderr
    return tmp / "s", json.loads(r.stdout), path


def rows_of(place):
    return list(csv.DictReader(open(place / "runs.csv")))


def test_every_treatment_is_run_once_per_block(done):
    place, summary, _ = done
    rows = rows_of(place)
    assert summary["rows"] == len(rows) == 4 * 3 * 4 and summary["problems"] == 0
    keys = {(r["block"], r["cell"], r["allocator"]) for r in rows}
    assert len(keys) == len(rows)
    assert all(float(r["out_seconds"]) > 0 and r["version"] and r["command"] for r in rows)


def test_allocators_get_the_same_script_and_blocks_different_ones(done):
    rows = rows_of(done[0])
    seeds = {}
    for r in rows:
        seeds.setdefault((r["block"], r["cell"]), set()).add(r["script_seed"])
    assert all(len(s) == 1 for s in seeds.values()) and len({min(s) for s in seeds.values()}) == len(seeds)


def test_a_finished_study_runs_nothing_again(done):
    place, _, path = done
    r = subprocess.run([sys.executable, "-m", "marelab", "study", path, "-o", str(place), "--allocators", "glibc,jemalloc,mimalloc"],
                       capture_output=True, text=True, timeout=300)
    assert r.returncode == 0 and len(rows_of(place)) == 48


@pytest.mark.parametrize("more,words", [(["--seed", "9"], "seed differs"), (["--allocators", "glibc"], "other allocators")])
def test_two_studies_do_not_mix(done, more, words):
    place, _, path = done
    r = subprocess.run([sys.executable, "-m", "marelab", "study", path, "-o", str(place), "--allocators", "glibc,jemalloc,mimalloc", *more],
                       capture_output=True, text=True, timeout=300)
    assert r.returncode == 2 and words in r.stderr


def test_a_killed_study_goes_on_where_it_was(tmp_path):
    path = write(tmp_path, TOML)
    words = [sys.executable, "-m", "marelab", "study", path, "-o", str(tmp_path / "s"), "--allocators", "glibc,mimalloc", "--blocks", "2"]
    p = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=os.environ | {"TMPDIR": str(tmp_path)})
    csv_file = tmp_path / "s" / "runs.csv"
    wait_until(lambda: csv_file.exists() and csv_file.read_text().count("\n") > 5)
    p.send_signal(signal.SIGKILL)
    p.wait()
    before = rows_of(tmp_path / "s")
    assert 4 < len(before)
    with open(csv_file, "a") as f:
        f.write("17,1,torn li")  # what a crash of the machine may leave
    assert subprocess.run(words, capture_output=True, timeout=300).returncode == 0
    after = rows_of(tmp_path / "s")
    assert after[: len(before)] == before and len(after) == 4 * 2 * 3
    assert len({(r["block"], r["cell"], r["allocator"]) for r in after}) == 24
    assert [int(r["row"]) for r in after] == list(range(1, 25))


def test_a_run_that_an_interrupt_ended_is_no_row_whatever_the_program_said(tmp_path, monkeypatch):
    ended = measure.Outcome(0.1, 0, 0, 1000, 1, 0, 1, 1, 0, 15, "signal", 0, stderr="Terminated\n")
    monkeypatch.setattr(measure, "once", lambda *a, **k: ended)
    d = design.fit_to_machine(design.read(write(tmp_path, TOML)))
    with Rows(tmp_path / "runs.csv") as rows, pytest.raises(KeyboardInterrupt):
        study.Runner(d, [Allocator("glibc")], rows, 1).all(1, None)
    assert not rows.kept


def test_one_command_runs_any_row_again(done, lab):
    r = lab("study", "--rerun", "5", "-o", done[0], "--json")
    assert r.returncode == 0, r.stderr
    data, row = json.loads(r.stdout), rows_of(done[0])[4]
    assert data["allocator"] == row["allocator"] and data["then"]["peak_kib"] == row["peak_kib"]
    assert 0.5 < data["now"]["peak_kib"] / int(row["peak_kib"]) < 2
    assert data["changed"] == {}
    assert lab("study", "--rerun", "99", "-o", done[0]).returncode == 2


def test_a_row_whose_allocator_is_gone_or_another_is_not_measured_as_if_it_were_there(done, lab, tmp_path):
    place = shutil.copytree(done[0], tmp_path / "copy")
    about = json.loads((place / "study.json").read_text())
    number = next(r["row"] for r in rows_of(place) if r["allocator"] == "jemalloc")
    entry = next(a for a in about["allocators"] if a["name"] == "jemalloc")
    other = shutil.copy(next(a["library"] for a in about["allocators"] if a["name"] == "mimalloc"), tmp_path / "other.so")
    entry["library"] = str(other)
    (place / "study.json").write_text(json.dumps(about))
    r = lab("study", "--rerun", number, "-o", place)
    assert r.returncode == 0 and "changed since then: sha256: " in r.stdout, r.stderr
    os.unlink(other)
    r = lab("study", "--rerun", number, "-o", place)
    assert r.returncode == 2 and "other.so is not here any more" in r.stderr


def test_a_cell_that_the_time_limit_ends_is_left_out_for_all_and_named(tmp_path, lab):
    text = 'command = ["sh", "-c", "test {T} = fast || sleep 60"]\nblocks = 3\ntimeout = 10\n[factors]\nT = ["fast", "slow"]\nU = [1]\n'
    text = text.replace("test {T}", "x={U}; test {T}")
    r = lab("study", write(tmp_path, text), "-o", "s", "--allocators", "glibc,glibc-notcache")
    assert r.returncode == 0, r.stderr
    assert "T=slow U=1" in r.stdout and "time limit" in r.stdout
    rows = rows_of(tmp_path / "s")
    assert sum(r["cell"].startswith("T=slow") for r in rows) == 1
    found = results.load(tmp_path / "s")
    assert found.cells == ["T=fast U=1"] and any("left out for all" in n for n in found.notes)


def test_a_program_without_the_promised_output_is_a_problem_not_a_number(tmp_path, lab):
    text = 'command = ["sh", "-c", "echo {A}"]\nblocks = 1\n[factors]\nA = [1, 2]\n[responses]\ntime = "out_seconds"\n'
    r = lab("study", write(tmp_path, text), "-o", "s", "--allocators", "glibc")
    assert "no JSON object with 'seconds'" in r.stdout


def test_a_command_that_fails_is_no_allocators_fault(tmp_path, lab):
    r = lab("study", write(tmp_path, TOML.replace("exec lua5.4", "exec lua5.4 --fast")), "-o", "s", "--allocators", "glibc,jemalloc")
    assert r.returncode == 1 and "the program of this design fails under glibc: it ended with exit code 1" in r.stderr, r.stderr
    assert "; it said: " in r.stderr and "Its command is  " in r.stderr and "--fast" in r.stderr


def test_the_latency_tail_is_a_study_of_its_own(tmp_path, lab):
    text = (Path(design.__file__).parents[1] / "designs/latency.toml").read_text().replace("1000000", "20000").replace("blocks = 10", "blocks = 2")
    r = lab("study", write(tmp_path, text), "-o", "s", "--allocators", "glibc,jemalloc")
    assert r.returncode == 0, r.stderr
    rows = results.load(tmp_path / "s").frame
    assert (rows["out_latency_malloc_p9999"].astype(float) >= rows["out_latency_malloc_p999"].astype(float)).all() and len(rows) == 4 * 2 * 2


def test_the_floor_is_shown_and_not_ranked(tmp_path, lab):
    text = ('command = ["{workload}", "--allocations", "{NA}", "--seed", "{seed}"]\nblocks = 3\n[factors]\nNA = [2000, 20000]\n'
            '[responses]\ntime = "out_seconds"\nmemory = "out_peak_bytes"\n')
    r = lab("study", write(tmp_path, text), "-o", "s", "--allocators", "glibc,jemalloc", "--floor")
    assert r.returncode == 0, r.stderr
    found = results.load(tmp_path / "s")
    assert found.allocators == ["glibc", "jemalloc"] and len(found.floor) == 2 * 3
    a = analyse.analyse(found)
    assert a["responses"]["memory"]["floor"]["ratio"] > 1  # it never reuses
    assert "bump" not in str(rank.rank(found)["tables"])


def test_the_plan_is_told_without_running(lab, tmp_path):
    r = lab("study", write(tmp_path, TOML), "--plan", "--allocators", "glibc", "--json")
    assert json.loads(r.stdout)["runs"] == 4 * 4 and not (tmp_path / "study-d").exists()


# ---- what follows from results ----

def made_up(place, effect, blocks=6, allocators=("a", "b", "c"), lose=None, seed=0):
    """Writes a study with known truth: time = 0.1 * N/1000 * effect[allocator] * noise."""
    rng = np.random.default_rng(seed)
    place.mkdir()
    factors = {"NA": [1000, 2000], "TA": ["1-2", "3-4"], "AL": ["peak", "growing"]}
    cells = [{"NA": n, "TA": t, "AL": p} for n in factors["NA"] for t in factors["TA"] for p in factors["AL"]]
    entries = [{"name": n, "library": None, "also": [], "env": {}, "version": "1", "sha256": "x" + n} for n in allocators]
    about = {"kind": "study", "version": 1, "design": "made-up", "title": "made up", "digest": "", "seed": 1, "command": ["x"], "factors": factors,
             "responses": {"time": "out_seconds", "memory": "peak_kib"}, "cpus": None, "timeout": 1, "cells": cells, "cuts": [],
             "machine": {"cpu": "made", "kernel": "1", "variables": {}}, "allocators": entries}
    (place / "study.json").write_text(json.dumps(about))
    lines, row = [], 0
    for b in range(blocks + 1):
        for c in cells:
            for n in allocators:
                if lose and lose(b, c, n):
                    continue
                row += 1
                t = 0.1 * c["NA"] / 1000 * effect[n] * np.exp(0.01 * rng.normal())
                m = 1000 * (2 if c["AL"] == "growing" and n == "c" else 1) * (1 + (n == "b")) + int(rng.integers(0, 9))
                lines.append({"row": row, "block": b, "order": row % 24, "warm_up": int(b == 0), "cell": study.cell_id(c), **c, "problem": "",
                              "killed": "",
                              "out_seconds": t, "peak_kib": m, "allocator": n, "steal_ticks": 0, "preempted": 1, "load": "0.1"})
    with open(place / "runs.csv", "w", newline="") as f:
        w = csv.DictWriter(f, lines[0].keys())
        w.writeheader()
        w.writerows(lines)
    return place


EFFECT = {"a": 1.0, "b": 1.5, "c": 1.0}


def test_the_analysis_finds_what_was_put_in(tmp_path):
    r = results.load(made_up(tmp_path / "s", EFFECT))
    a = analyse.analyse(r)
    terms = {t["term"]: t for t in a["responses"]["time"]["overall"]["terms"]}
    assert terms["NA"]["significant"] and terms["allocator"]["significant"] and terms["allocator"]["omega2"] > 0.9
    assert terms["TA"]["omega2"] < 0.05
    assert a["responses"]["time"]["overall"]["method"].startswith("balanced")
    lines = {x["allocator"]: x for x in a["responses"]["time"]["ratios"]["lines"]}
    assert lines["b"]["low"] < 1.5 < lines["b"]["high"] and lines["b"]["significant"]
    assert not lines["a"]["significant"] or not lines["c"]["significant"]
    assert lines["a"]["games_howell"] == lines["c"]["games_howell"] != lines["b"]["games_howell"]
    groups = {x["level"]: x["groups"] for x in next(g for g in a["responses"]["time"]["groups"] if g["by"] == ["allocator"])["lines"]}
    assert groups["a"] == groups["c"] != groups["b"]
    memory = {t["term"]: t for t in a["responses"]["memory"]["overall"]["terms"]}
    assert memory["AL x allocator"]["significant"]


def test_a_lost_cell_is_refitted_and_a_torn_block_left_out(tmp_path):
    r = results.load(made_up(tmp_path / "s", EFFECT, lose=lambda b, c, n: (c["NA"] == 2000 and c["TA"] == "3-4" and c["AL"] == "peak" and n == "b")
                             or (b == 6 and n != "a")))
    assert not r.full and r.blocks == 5
    assert any("block 6 left out" in n for n in r.notes) and any("NA=2000 TA=3-4 AL=peak is left out" in n for n in r.notes)
    a = analyse.analyse(r)
    assert "type II" in a["responses"]["time"]["overall"]["method"]
    assert {t["term"]: t for t in a["responses"]["time"]["overall"]["terms"]}["allocator"]["significant"]


def test_rankings_take_the_form_of_the_studys_tables(tmp_path):
    a = rank.rank(results.load(made_up(tmp_path / "s", EFFECT)))
    t = {x["number"]: x for x in a["tables"] if x["number"]}
    assert set(t) == {"5.4", "5.5", "5.6"}
    assert sorted(t["5.4"]["order"][0].split(" / ")) == ["a", "c"] and t["5.4"]["places"] == [1, 3]
    assert t["5.4"]["lines"][2]["percent"] == pytest.approx(50, abs=3)
    assert t["5.6"]["order"][0] == "a" and t["5.6"]["lines"][1]["percent"] == pytest.approx(100, abs=3)
    text = rank.text(a)
    assert "Table 5.7" in text and "p = 0.09" in text and "Ptmalloc2 +530.7 %" in text


def test_ranking_by_an_unknown_factor_names_those_that_exist(tmp_path):
    with pytest.raises(LabError, match="NA, TA, AL"):
        rank.rank(results.load(made_up(tmp_path / "s", EFFECT)), by="NT")


def test_comparing_a_result_with_itself_and_with_another(tmp_path):
    one = made_up(tmp_path / "1", EFFECT)
    two = made_up(tmp_path / "2", {**EFFECT, "b": 2.0}, seed=4)
    same = compare.compare(results.load(one), results.load(one))
    assert not any(x["significant"] for r in same["responses"].values() for x in r["lines"])
    assert "not significant" in compare.text(same)
    c = compare.compare(results.load(one), results.load(two))
    lines = {x["allocator"]: x for x in c["responses"]["time"]["lines"]}
    assert lines["b"]["low"] < 2 / 1.5 < lines["b"]["high"] and lines["b"]["significant"] and not lines["a"]["significant"]


def test_all_changed_alike_points_at_the_machine(tmp_path):
    one = made_up(tmp_path / "1", EFFECT)
    two = made_up(tmp_path / "2", {k: 1.3 * v for k, v in EFFECT.items()}, seed=4)
    about = json.loads((two / "study.json").read_text())
    about["machine"]["kernel"] = "2"
    (two / "study.json").write_text(json.dumps(about))
    c = compare.compare(results.load(one), results.load(two))
    assert c["responses"]["time"]["all_alike"] and any("kernel" in d for d in c["environment"])


def test_the_page_of_a_study_holds_its_tables(tmp_path):
    place = made_up(tmp_path / "s", EFFECT)
    data = report.write(place, place / "report.html")
    text = (place / "report.html").read_text()
    assert "Table 5.4" in text and "partial ω²" in text and text.count("<svg") >= 8 and "not significant" in text
    assert data["ranking"]["tables"] and "http://" not in text.replace("http://www.w3.org", "")


def test_every_command_speaks_json(tmp_path, capsys):
    one = made_up(tmp_path / "1", EFFECT)
    for words in (["analyse", one], ["rank", one], ["compare", one, one], ["report", one]):
        assert cli.main([*map(str, words), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)
    assert (one / "anova.csv").exists() and (one / "means.csv").exists() and (one / "ratios.csv").exists()


@pytest.mark.parametrize("files,words", [({}, "holds no results"), ({"study.json": "{"}, "not JSON"), ({"study.json": "{}"}, "no study of version")])
def test_a_folder_that_is_no_result_says_what_to_give(tmp_path, here, files, words):
    (tmp_path / "f").mkdir()
    for name, text in files.items():
        (tmp_path / "f" / name).write_text(text)
    r = here("analyse", "f")
    assert r.returncode == 2 and words in r.stderr and "Traceback" not in r.stderr


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    with Rows(tmp_path / "r.csv") as rows:
        rows.add({"a": 1})

        def full(_):
            raise OSError(28, os.strerror(28))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(LabError, match="No space left.*kept"):
            rows.add({"a": 2})
    assert (tmp_path / "r.csv").read_text().startswith("a\n1\n")


def test_the_time_ends_a_study_also_in_its_first_block(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(study, "prove_all", lambda *a: None)
    words = ["study", str(write(tmp_path, TOML)), "-o", str(tmp_path / "s"), "--allocators", "glibc,jemalloc"]
    assert cli.main([*words, "--minutes", "1e-9"]) == 1
    assert "no block is whole yet" in capsys.readouterr().out and not (tmp_path / "s").exists()  # it came to no run, so nothing stays
    assert cli.main([*words, "--blocks", "1"]) == 0
    assert "1 whole blocks" in capsys.readouterr().out


def test_rankings_are_in_the_order_of_the_ratios_beside_their_intervals():
    """A grand mean is ruled by its largest cell: there b is ahead, in each cell a is."""
    cube = np.empty((12, 3, 2))
    cube[:, :, 0], cube[:, :, 1] = [1.0, 1.0, 1000.0], [1.5, 1.5, 900.0]
    cube *= np.exp(0.001 * np.random.default_rng(1).normal(size=cube.shape))
    r = rank.ranking(cube, ["a", "b"])
    assert [x["allocator"] for x in r["lines"]] == ["a", "b"] and [x["place_by_mean"] for x in r["lines"]] == [2, 1]
    ratios = [x["ratio"] for x in r["lines"]]
    assert ratios == sorted(ratios) and r["lines"][0]["ratio"] == 1 and r["lines"][1]["low"] > 1
    assert r["lines"][0]["percent"] > 0 == r["lines"][1]["percent"]
