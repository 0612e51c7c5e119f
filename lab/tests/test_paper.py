"""The published study's tables beside ours: the data as printed, what can be made from which results, and what is said where it can't."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from marelab import cli, paper, published, recordings, results
from marelab.errors import LabError
from marelab.scenarios import catalogue

PRESET = Path(__file__).resolve().parents[2] / "bench" / "data" / "lab-2026-11-22" / "preset"


def run_of(**more) -> dict:
    run = {"allocations": 1000, "megabytes": 2.0, "mean_bytes": 2000.0, "distinct_sizes": 40, "top_ten": 80.0, "malloc": 90.0, "realloc": 4.0, "calloc": 5.0,
           "aligned": 1.0, "frees": 900, "null_frees": 2.5, "short": 70.0, "medium": 10.0, "long": 20.0, "never_freed": 10.0, "pattern": "peak",
           "levels": {"1-64": 75.0, "64-512": 20.0, "512-2048": 5.0}}
    return run | more


def recorded(tmp_path, *names, runs=None):
    place = tmp_path / "programs"
    place.mkdir(exist_ok=True)
    for name in names:
        recordings.save(place, name, f"{name}=1", {"seconds": 30, "megabytes": 1.5, "what": "made", "details": "d"}, {"when": "2026-11-27T10:00:00", "cpus": 2},
                        runs or [run_of(), run_of(allocations=3000)])
    return place


def made(number, programs="none", study="none") -> dict:
    return paper.make(number, paper.Sources(Path(programs), Path(study))).data()


def rows(table: dict, whose: str) -> dict[str, dict]:
    return {r["name"]: r["cells"] for r in table["rows"] if r["whose"] == whose}


# ---- the published values ----

def test_shares_of_the_published_tables_add_up_to_a_hundred():
    for name, p in published.programs().items():
        assert p["malloc"] + p["realloc"] + p["calloc"] == pytest.approx(100, abs=0.02), name
        assert p["short"] + p["medium"] + p["long"] == pytest.approx(100, abs=0.02), name
        assert p["allocations"] * p["mean_bytes"] / 1e6 == pytest.approx(p["megabytes"], abs=1), name


def test_the_published_averages_are_those_of_the_published_rows():
    within = {"distinct_sizes": 1, "top_ten": 0.7}  # the study cuts 1548.75, and has 75.2 where its rows' mean is 74.6
    for key, average in published.study()["averages"].items():
        assert np.mean([p[key] for p in published.programs().values()]) == pytest.approx(average, abs=within.get(key, 0.11)), key


def test_every_program_of_the_study_has_a_scenario_and_every_table_a_maker():
    assert list(catalogue.ALL) == list(published.programs())
    assert set(paper.MAKERS) == {f"4.{n}" for n in range(1, 24)} | {f"5.{n}" for n in range(1, 8)}


# ---- chapter 4 ----

def test_a_programs_tables_have_the_mean_of_its_recordings_beside_the_published_row(tmp_path):
    place = recorded(tmp_path, "mysql")
    t = made("4.5", place)
    assert rows(t, "published")["MySQL 5.6.12"]["allocations"] == 467348
    assert rows(t, "here")["MySQL 5.6.12"] == {"allocations": 2000, "MB": 2.0, "mean bytes": 2000, "distinct sizes": 40, "ten sizes %": 80, "malloc %": 90,
                                               "realloc %": 4, "calloc %": 5, "aligned %": 1}
    assert t["notes"][0] == "here: mysql=1, mean of 2 recordings (published: 30), 2026-11-27" and "775" in " ".join(t["notes"])
    t = made("4.6", place)
    assert rows(t, "published")["MySQL 5.6.12"] == {"frees": 493965, "null %": 11.8, "short %": 87.65, "medium %": 5.31, "long %": 7.04, "pattern": "peak"}
    assert rows(t, "here")["MySQL 5.6.12"]["frees"] == 900


def test_tables_of_all_programs_name_those_that_were_not_recorded(tmp_path):
    place = recorded(tmp_path, "mysql", "lynx")
    t = made("4.22", place)
    assert len(rows(t, "published")) == 9 and set(rows(t, "here")) == {"MySQL", "Lynx", "average"}
    assert "Octave (octave)" in t["notes"][0] and "Lynx" not in t["notes"][0]
    assert rows(t, "here")["average"]["malloc %"] == 90 and rows(t, "published")["average"]["malloc %"] == 87.9


def test_programs_are_grouped_by_the_nearest_number_and_the_level_of_most_sizes(tmp_path):
    recorded(tmp_path, "lynx", runs=[run_of(allocations=40_000)])
    recorded(tmp_path, "octave", runs=[run_of(allocations=4_800_000, levels={"1-64": 40.0, "64-512": 40.0, "512-2048": 20.0})])
    place = tmp_path / "programs"
    t = rows(made("5.1", place), "here")
    assert (t["G1"]["programs"], t["G4"]["programs"], t["G5"]["programs"]) == ("Lynx", "–", "Octave")
    t = made("5.2", place)
    assert rows(t, "here")["1-64 bytes"]["programs"] == "Lynx" and rows(t, "here")["64-512 bytes"]["programs"] == "–"
    assert any(n.startswith("in none: Octave (1-64 40 %") for n in t["notes"])


def test_what_was_played_is_beside_what_the_study_played(tmp_path):
    t = made("4.3", recorded(tmp_path, "vlc-audio"))
    assert [r["cells"]["seconds"] for r in t["rows"]] == [334, 30]


# ---- chapter 5 ----

def test_rankings_of_a_study_stand_beside_the_published_ones():
    at = paper.Sources(Path("none"), PRESET)
    t = paper.make("5.4", at).data()
    theirs = [r["cells"]["allocator"] for r in t["rows"] if r["whose"] == "published"]
    assert theirs == ["Jemalloc", "TCMalloc", "Hoard", "Ptmalloc3", "Miser", "Ptmalloc2"]
    ours = [(r["name"], r["cells"]["allocator"]) for r in t["rows"] if r["whose"] == "here"]
    assert ours[0] == ("#1", "tcmalloc") and ours[-1] == ("#6", "glibc-notcache")
    places = [r["name"] for r in paper.make("5.5", at).data()["rows"] if r["whose"] == "published"]
    assert places == ["#1", "#2", "#4", "#5", "#6"]
    together = paper.make("5.7", at).data()
    assert {"time": "Ptmalloc2", "memory (AL = peak)": "", "memory (AL = growing)": ""} in [r["cells"] for r in together["rows"]]
    assert paper.make("5.3", at).data()["rows"][5]["cells"]["levels"] == "1, 4"


# ---- what it says ----

def test_a_table_that_lacks_its_results_says_what_to_run_first(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for number, said in [("4.9", "table 4.9 needs recordings of Code::Blocks: mare lab scenario codeblocks -o study-programs"),
                         ("4.21", "table 4.21 needs recordings: mare lab scenario all -o study-programs"),
                         ("5.5", "table 5.5 needs a study with chapter 5's factors: mare lab study preset -o study-preset"),
                         ("9.9", "no table 9.9: there are 4.1 to 4.23 and 5.1 to 5.7")]:
        assert cli.main(["paper", number]) == 2
        assert capsys.readouterr().err == f"mare lab: {said}\n"


def test_a_study_without_chapter_5s_factors_is_refused_by_name(tmp_path, monkeypatch):
    (tmp_path / "study.json").write_text("{}")
    about = {"factors": {"NA": [1], "TA": ["16-64"], "NT": [1], "AL": ["peak"]}}
    monkeypatch.setattr(results, "load", lambda place: SimpleNamespace(kind="study", about=about))
    with pytest.raises(LabError, match="has no NP: mare lab study preset"):
        made("5.4", study=tmp_path)


def test_alone_it_lists_the_tables_and_marks_those_that_can_be_made(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.move(recorded(tmp_path, "lynx"), tmp_path / "study-programs")
    assert cli.main(["paper"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[2:6].strip() for line in lines if line.startswith("* ")] == ["4.1", "4.2", "4.19", "4.20", "4.21", "4.22", "4.23", "5.1", "5.2"]
    assert "  mare lab scenario mysql -o study-programs" in lines and "  mare lab study preset -o study-preset" in lines
    assert cli.main(["paper", "all", "--json"]) == 0
    assert [t["table"] for t in json.loads(capsys.readouterr().out)] == ["4.1", "4.2", "4.19", "4.20", "4.21", "4.22", "4.23", "5.1", "5.2"]
    assert cli.main(["paper", "4.19", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["table"] == "4.19"


def test_a_file_that_is_no_recording_is_named(tmp_path):
    place = recorded(tmp_path, "lynx")
    (place / "lynx.json").write_text('{"kind": "scenario", "version": 1, "scenario": "lynx"}')
    with pytest.raises(LabError, match=r"lynx\.json: 'program' is missing; the folder is damaged"):
        made("4.19", place)
