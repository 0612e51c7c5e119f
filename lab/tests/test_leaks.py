"""What was not freed at a program's end: by place, told as what it is, in text, in JSON and on the page."""

import json
import subprocess

import pytest
from pages import made
from tracing import record

from marelab import cli, explain, leaks, report, sites

SOURCE = """
#include <stdlib.h>
#define PLACE __attribute__((noinline))
volatile int keep;
PLACE char *get(size_t n) { char *p = malloc(n); keep++; return p; }
PLACE char *start(void) { char *p = get(50000); keep++; return p; }
PLACE char *leak(void) { char *p = get(100); keep++; return p; }
PLACE void work(void) { char *p = get(400); keep++; p = realloc(p, 800); free(p); }
PLACE char *grow(void) { char *p = get(10); keep++; return realloc(p, 7000); }
char *kept[3];
int main(void) { kept[0] = start(); for (int i = 0; i < 1000; i++) { kept[1] = leak(); work(); } kept[2] = grow(); return 0; }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("leaks")
    (folder / "p.c").write_text(SOURCE)
    subprocess.run(["cc", "-O1", "-fno-builtin", "-fno-optimize-sibling-calls", "-o", folder / "prog", folder / "p.c"], check=True)
    return folder / "prog"


def test_each_place_has_its_blocks_bytes_and_how_many_were_late(program, tmp_path, capsys):
    t = record(tmp_path, program, stacks=1)
    assert cli.main(["describe", str(t.folder), "--json"]) == 0
    d = json.loads(capsys.readouterr().out)
    found = {(p["name"], *p["callers"]): p for p in d["never_freed"]["places"]}
    assert [(p["number"], p["bytes"]) for p in d["never_freed"]["places"]] == [(1000, 100_000), (1, 50_000), (1, 7000)]
    chain = ("get (prog)", "leak", "main")
    assert 0.49 < found[chain]["late"] < 0.51 and found["get (prog)", "start", "main"]["late"] == 0 and found["grow (prog)", "main"]["late"] == 1
    assert (d["never_freed"]["number"], d["never_freed"]["bytes"]) == (1002, 157_000) == (d["live"]["end_blocks"], d["live"]["end_bytes"])
    assert cli.main(["describe", str(t.folder)]) == 0
    text = capsys.readouterr().out
    assert "not freed    1 000 blocks, 97.7 KiB, 50 % from the second half of the run: get (prog) < leak < main" in text and "that is no leak" in text
    assert leaks.table(sites.of_trace(t))[0]["share"] == pytest.approx(100 / 157)


def test_a_program_that_frees_all_is_said_to_and_one_without_stacks_names_no_places(tmp_path, capsys):
    t = record(tmp_path, "sh", "-c", ":")
    assert cli.main(["describe", str(t.folder), "--json"]) == 0
    d = json.loads(capsys.readouterr().out)
    assert d["never_freed"] is None
    d["retention"]["never_freed"] = {"number": 0, "bytes": 0, "share": 0}
    assert leaks.sentences(d) == ["When it ended, all blocks were freed."]


def test_the_sentence_says_which_end_it_was_and_that_it_need_not_be_a_leak():
    def said(**trace):
        return explain.left_sentences({"trace": trace, "allocations": {"number": 9}, "retention": {"never_freed": {"number": 1, "bytes": 2048}}}, {"left_out": "no stacks"})

    assert said(status=0, complete=True) == [f"When it ended, 1 block of 2 KiB in all was not freed. {leaks.KEPT}."]
    assert said(status=-15, complete=True)[0].startswith("When signal 15 ended it, 1 block")
    assert said(status=0, complete=True, limit_reached=True)[0].startswith("When the trace reached its limit on disk, before the program's end,")
    assert said(status=0, complete=True, attached=42)[0].startswith("When the recording ended, before the program did,")


def stacks(numbers: int) -> dict:
    """Three places, with as many numbers a node as there were in results of earlier versions, or as there are now."""
    names, paths = ["get (p)", "leak (p)", "start (p)", "main (p)"], [[0, 1, 3], [0, 2, 3], [0, 3]]
    values = [(5000, 500_000, 400_000, 4000, 400_000, 2000), (1, 90_000, 90_000, 1, 90_000, 0), (9000, 10, 10, 0, 0, 0)]
    return sites.trees(names, paths, [v[:numbers] for v in values]) | {"every": 1, "samples": 14_001, "stacks": 3, "peak": 0, "cut": 0, "limit": False, "nameless": []}


def test_the_page_has_a_table_and_a_width_for_it(tmp_path, seen):
    page = made(tmp_path / "out", stacks(6))
    found = seen(page, """
        const out = {}, boxes = () => [...document.querySelectorAll('[data-key=sites] .box')], buttons = [...document.querySelectorAll('[data-key=sites] button')];
        buttons.find(b => b.textContent === 'not freed at the end').click();
        out.labels = boxes().map(b => b.textContent);
        boxes()[0].dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: 9, clientY: 9 }));
        out.tip = document.getElementById('tip').innerText;
        out.table = [...document.querySelectorAll('td code')].map(c => c.closest('tr').innerText).filter(t => t.includes('called by leak'));
        return out;""")
    assert found["labels"] == ["all bytes not freed at the end", "main", "leak", "get", "start", "get"]
    assert "blocks not freed at the end: 4\u00a0001" in found["tip"] and "\nnot freed at the end: 479\u00a0KiB, 100\u00a0%" in found["tip"]
    assert "called by leak ← main" in found["table"][-1] and "391\u00a0KiB" in found["table"][-1] and "4\u00a0000" in found["table"][-1] and "50\u00a0%" in found["table"][-1]
    assert "That alone is no mistake" in page.read_text()


def test_a_result_of_an_earlier_version_still_makes_its_page(tmp_path):
    page = made(tmp_path / "out", stacks(3))
    report.write(tmp_path / "out", page)
    assert "Not freed at the end" not in page.read_text() and leaks.table(stacks(3)) == []


def test_places_that_were_folded_keep_their_bytes(monkeypatch):
    """With room for three nodes, what is below the last of them counts as its own."""
    monkeypatch.setattr(sites, "MOST", 2)
    rows = leaks.table(stacks(6))
    assert sum(r["bytes"] for r in rows) == 490_000 and rows[0]["name"] == "get (p)"
