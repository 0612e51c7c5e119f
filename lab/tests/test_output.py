"""Results as others read them: strict JSON, files that are whole, and what is said where they are damaged."""

import csv
import json
import os
import subprocess
import sys

import pytest
from test_study import EFFECT, made_up
from traces import Writer

from marelab import answer, cli, describe, format, output, results, rows, stacks
from marelab.errors import LabError


def strict(text: str):
    def refuse(word):
        raise ValueError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_numbers_that_are_none_become_null():
    data = {"a": [float("nan"), 1.5, (float("inf"),)], "b": {"c": -float("inf")}, "d": "NaN"}
    assert strict(output.text(data)) == {"a": [None, 1.5, [None]], "b": {"c": None}, "d": "NaN"}


def test_a_response_that_never_varies_still_gives_json(tmp_path, capsys):
    place = made_up(tmp_path / "s", EFFECT)
    text = list(csv.DictReader(open(place / "runs.csv")))
    with open(place / "runs.csv", "w", newline="") as f:
        w = csv.DictWriter(f, text[0].keys())
        w.writeheader()
        w.writerows(r | {"peak_kib": 1000} for r in text)
    for command in ("analyse", "rank", "report"):
        assert cli.main([command, str(place), "--json"]) == 0
        assert strict(capsys.readouterr().out)
    assert cli.main(["compare", str(place), str(place), "--json"]) == 0
    assert strict(capsys.readouterr().out)
    strict((place / "analysis.json").read_text())


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    output.save(path, {"old": 1})
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError(28, os.strerror(28))))
    with pytest.raises(LabError, match="can't write .*x.json: No space left"):
        output.save(path, {"new": 1})
    assert json.loads(path.read_text()) == {"old": 1} and [p.name for p in tmp_path.iterdir()] == ["x.json"]


# ---- damage ----

def choose_result(place, **changes) -> dict:
    place.mkdir(exist_ok=True)
    about = {k: [] for k in answer.KEYS} | {"kind": "choose", "version": 2} | changes
    (place / "choose.json").write_text(json.dumps(about))
    (place / "runs.csv").write_text("block,order,warm_up,allocator,problem,wall_s\n1,1,0,a,,0.5\n")
    return about


@pytest.mark.parametrize("command", ["report", "analyse", "rank"])
@pytest.mark.parametrize("text,words", [("", "line 1: it is not JSON"), ('{"kind": "choose"', "is not JSON"), ("[]", "no choose of version 2"), ('{"kind": "choose", "version": 1}', "written by an older mare lab"),
                                        ('{"kind": "choose", "version": 2}', "'program' is missing"), ("\xff", "is not JSON")])
def test_a_damaged_result_is_one_line(tmp_path, capsys, command, text, words):
    choose_result(tmp_path / "c")
    (tmp_path / "c" / "choose.json").write_bytes(text.encode("latin-1"))
    assert cli.main([command, str(tmp_path / "c")]) == 2
    said = capsys.readouterr().err
    assert words in said and "choose.json" in said and said.count("\n") == 1


@pytest.mark.parametrize("text,words", [
    ("a,b\n1,2\n", "line 1: there is no column 'block'"),
    ("block,order,warm_up,allocator,problem\nx,1,0,a,\n1,1,0,a,\n", "row 1: block is 'x', which is no number"),
    ("block,order,warm_up,allocator,problem\n1,1,0,a\n1,1,0,a,\n", "row 1 has 4 fields, not 5"),
    ("block,order,warm_up,allocator,problem\n1,1,0,\"a\"b,\n1,1,0,a,\n", "line 2: "),
    ("block,order,warm_up,allocator,problem\n1,1,0,a,\n", "no column 'wall_s'"),
    ("", "has no rows yet"),
])
def test_damaged_rows_are_named(tmp_path, text, words):
    choose_result(tmp_path / "c", allocators=[{"name": "a"}])
    (tmp_path / "c" / "runs.csv").write_text(text)
    with pytest.raises(LabError, match=words):
        results.load(tmp_path / "c")


def test_a_torn_row_is_left_out_by_readers_and_put_aside_by_writers(tmp_path):
    """Also when it was torn inside of a field of several lines."""
    path = tmp_path / "runs.csv"
    row = {"block": 1, "order": 1, "warm_up": 0, "allocator": "a", "problem": "", "command": "lua -e 'x\ny\nz'"}
    with rows.Rows(path) as kept:
        kept.add(row)
        kept.add(row | {"block": 2})
    whole = path.read_bytes()
    start = whole.index(b"\n2,") + 1
    for cut in range(start + 1, len(whole)):
        path.write_bytes(whole[:cut])
        assert [r["block"] for r in rows.read(path)[1]] == ["1"]
        assert path.read_bytes() == whole[:cut]  # reading changes nothing
        with rows.Rows(path) as kept:
            kept.add(row | {"block": 3})
        assert [r["block"] for r in rows.read(path)[1]] == ["1", "3"]
        assert path.with_suffix(".torn").read_bytes() == whole[start:cut]


def test_two_do_not_write_into_one_folder(tmp_path):
    with rows.Rows(tmp_path / "runs.csv"):
        with pytest.raises(LabError, match="another `mare lab` writes there"):
            rows.Rows(tmp_path / "runs.csv")
    rows.Rows(tmp_path / "runs.csv").close()


def trace_folder(tmp_path):
    w = Writer()
    for i in range(50):
        w.malloc(i, 10 + i)
    return w.save(tmp_path / "t")


def loads_or_says(folder) -> bool:
    """A header that can't be is named; one that can is described in every form."""
    try:
        t = format.load(folder)
        d = describe.describe(t)
    except LabError as error:
        assert "\n" not in str(error)
        return False
    assert describe.text(d) and describe.tables(d)
    return True


def test_a_traces_header_cut_off_anywhere_is_named(tmp_path):
    folder = trace_folder(tmp_path)
    header = (folder / "trace.json").read_text()
    for cut in range(len(header)):
        (folder / "trace.json").write_text(header[:cut])
        with pytest.raises(LabError, match="trace.json: not a trace's header"):
            format.load(folder)


@pytest.mark.parametrize("junk", [None, "x", -1, [], {}, 1e400, [1], True, "\ud800"], ids=repr)
def test_a_traces_header_with_junk_in_any_place_is_named_or_described(tmp_path, junk):
    folder = trace_folder(tmp_path)
    header = json.loads((folder / "trace.json").read_text())
    refused = 0
    for inside in (header, header["processes"][0]):
        for key in list(inside):
            was = inside[key]
            inside[key] = junk
            (folder / "trace.json").write_text(json.dumps(header))
            refused += not loads_or_says(folder)
            del inside[key]
            (folder / "trace.json").write_text(json.dumps(header))
            loads_or_says(folder)
            inside[key] = was
    assert refused >= 3


def test_a_header_does_not_lead_out_of_its_folder(tmp_path):
    folder = trace_folder(tmp_path)
    header = json.loads((folder / "trace.json").read_text())
    header["processes"][0]["file"] = "../other/4242-0.mtr"
    (folder / "trace.json").write_text(json.dumps(header))
    with pytest.raises(LabError, match="outside of the trace"):
        format.load(folder)


def test_files_with_other_names_in_an_unfinished_trace_are_passed_over(tmp_path):
    folder = trace_folder(tmp_path)
    header = json.loads((folder / "trace.json").read_text())
    (folder / "trace.json").write_text(json.dumps(header | {"complete": False, "processes": []}))
    for name in ("a-b.mtr", "1-2-3.mtr", "-.mtr"):
        (folder / name).write_text("")
    assert [i.name for i in format.load(folder).images] == ["4242-0"]


def test_a_damaged_memory_map_leaves_addresses(tmp_path):
    maps = tmp_path / "maps"
    good = "400000-500000 r-xp 00000000 fe:00 12 /nonexistent/prog\n"
    stack = [{"number": 1, "bytes": 5, "addresses": [0x400123, 0x999999]}]
    maps.write_text("x\n400000-5 r-xp\n-- r-xp zz 1 2 /x\n" + good + "600000-70")
    assert stacks.named(stack, maps)[0]["frames"] == ["prog+0x122", "0x999999"]
    for cut in range(len(good)):
        maps.write_text(good[:cut])
        assert len(stacks.named(stack, maps)[0]["frames"]) == 2
    assert stacks.named(stack, tmp_path)[0]["frames"] == ["0x400123", "0x999999"]


def test_the_command_line_never_shows_a_traceback_for_them(tmp_path):
    folder = trace_folder(tmp_path)
    (folder / "trace.json").write_text('{"version": 1}')
    for command in ("describe", "replay", "fit"):
        r = subprocess.run([sys.executable, "-m", "marelab", command, str(folder)], capture_output=True, text=True, timeout=300)
        assert r.returncode == 2 and "is missing" in r.stderr and "Traceback" not in r.stderr
