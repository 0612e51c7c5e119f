"""choose, from the command line to the page."""

import csv
import html
import html.parser
import json
import os
import shlex
import subprocess
import sys

import pytest
from tracing import ended, wait_until

from marelab import allocators, answer, blocks, choose, cli, disturbed, explain, flaky, measure, progress, proof, report, rows, share
from marelab.errors import LabError

CPU = str(min(os.sched_getaffinity(0)))
PROGRAM = ["lua5.4", "-e", "local t = {} for i = 1, 20000 do t[i] = {i} end"]


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    """One small choice for all tests of this file."""
    place = tmp_path_factory.mktemp("choose") / "out"
    r = subprocess.run([sys.executable, "-m", "marelab", "choose", "--quick", "--seed", "5", "--allocators", "glibc,jemalloc,tcmalloc",
                        "-o", str(place), "--", *PROGRAM], capture_output=True, text=True, timeout=600)
    assert r.returncode == 0, r.stderr
    return place, r.stdout, json.loads((place / "choose.json").read_text())


def test_it_ends_with_a_recommendation(chosen):
    _, out, result = chosen
    assert result["verdict"]["sentence"] in out
    assert out.startswith(("Keep glibc", "Use ", "Undecided: "))
    names = {a["name"] for a in result["allocators"]}
    assert names == {"glibc", "jemalloc", "tcmalloc"} and result["present"] == "glibc"


def test_the_program_itself_was_run_in_whole_blocks_each_in_its_own_order(chosen):
    place, _, result = chosen
    rows = list(csv.DictReader(open(place / "runs.csv")))
    blocks = {}
    for r in rows:
        blocks.setdefault(r["block"], []).append(r["allocator"])
    first = [b[:3] for b in blocks.values()]  # what comes behind was disturbed and made again
    assert len(blocks) == 11 and all(sorted(b) == ["glibc", "jemalloc", "tcmalloc"] for b in first)
    assert len({tuple(b) for b in first}) > 1 and len(rows) == 33 + result["repeated"]
    assert [r["warm_up"] for r in rows[:4]] == ["1", "1", "1", "0"]
    assert result["standings"]["wall"]["blocks"] == 10


def test_every_row_tells_its_environment(chosen):
    place, _, _ = chosen
    for r in csv.DictReader(open(place / "runs.csv")):
        for column in ("version", "sha256", "libc", "kernel", "cpu", "affinity", "thp", "load", "steal_ticks",
                       "switches", "preempted", "seed", "order"):
            assert r[column] != "", column
        assert float(r["wall_s"]) > 0 and int(r["peak_kib"]) > 500 and int(r["minor_faults"]) > 10


def test_the_rule_can_be_checked_from_the_figures(chosen):
    _, _, result = chosen
    s = result["standings"]["wall"]
    for a in s["allocators"]:
        assert a["low"] <= max(a["ratio"], 1) and a["ratio"] <= a["high"] + 1e-9
        assert a["word"] == ("same" if a["high"] <= 1 + result["margin"] else "worse" if a["low"] > 1 else "undecided")
    today = next(a for a in s["allocators"] if a["name"] == "glibc")
    assert result["verdict"]["word"] == ("same" if today["word"] == "same" else "better" if today["low"] > 1 else "undecided")
    assert result["verdict"]["keep"] == (result["verdict"]["choice"] == "glibc")


def test_the_page_is_whole_and_needs_nothing_from_outside(chosen):
    place, _, result = chosen
    text = (place / "report.html").read_text()
    foreign, open_tags = [], []

    class Page(html.parser.HTMLParser):
        def handle_starttag(self, tag, attributes):
            if tag in ("table", "figure", "svg", "div", "details"):
                open_tags.append(tag)
            foreign.extend(v for k, v in attributes if k in ("src", "href", "xlink:href") and v and not v.startswith("#"))

        def handle_endtag(self, tag):
            if tag in ("table", "figure", "svg", "div", "details"):
                assert open_tags.pop() == tag

    Page().feed(text)
    assert not foreign and not open_tags
    assert "@import" not in text and "fetch(" not in text and text.count("<script") == 2  # its data, and what draws them
    assert html.escape(report.said(result["verdict"]["sentence"])) in text and text.count("<svg") >= 5 and text.count('class="chart"') >= 4
    assert "prefers-color-scheme: dark" in text and "#333333" not in text  # figures have the page's colours, by day and by night
    assert "lua5.4" in text and result["machine"]["kernel"] in text
    assert f"Which allocator for <code>{html.escape(shlex.join(PROGRAM))}</code>" in text.replace("&#39;", "&#x27;")


def test_a_trace_explains_it(chosen):
    place, _, result = chosen
    e = result["explanation"]
    assert e["problem"] is None, e["problem"]
    assert e["description"]["allocations"]["number"] > 10_000
    assert not (place / "trace").exists() and (place / "description.json").exists()  # nobody asked to keep it
    text = (place / "report.html").read_text()
    assert "What it allocates" in text and "different sizes" in text and "Where it allocates" in text
    assert not (place / "sites").exists() and len(e["sites"]["down"]["nodes"]) > 5 and set(e["memory"]["by"]) == {a["name"] for a in result["allocators"]}


def test_a_trace_that_takes_too_long_is_given_up_with_its_program(tmp_path):
    for limit in (1.5, 10, 60):  # on a busy machine it may not even have begun by then
        with pytest.raises(subprocess.TimeoutExpired):
            explain.record(measure.Target(("sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 300 & wait")), tmp_path / f"t{limit}", 1 << 26, limit)
        if (tmp_path / "pid").exists():
            break
    wait_until(lambda: ended((tmp_path / "pid").read_text().strip()))


def test_the_order_depends_on_the_seed_alone():
    names = ["a", "b", "c", "d"]
    assert blocks.order_of(3, 7, names) == blocks.order_of(3, 7, names[::-1])
    assert len({tuple(blocks.order_of(b, 7, names)) for b in range(20)}) > 10


def test_results_are_not_overwritten(chosen, lab):
    place, _, _ = chosen
    r = lab("choose", "-o", place, "--", *PROGRAM)
    assert r.returncode == 2 and "already holds results" in r.stderr


@pytest.mark.parametrize("words,message", [
    ([], "no program"),
    (["--", "/no/such/program"], "no such program"),
    (["--allocators", "nosuch", "--", "lua5.4"], "no allocator 'nosuch'"),
    (["--margin", "0", "--", "lua5.4"], "--margin"),
    (["--stdin", "/no/such", "--", "lua5.4"], "--stdin"),
    (["--blocks", "2", "--", "lua5.4"], "--blocks"),
    (["--cpus", "x", "--", "lua5.4"], "--cpus"),
])
def test_mistakes_are_one_line(here, words, message):
    r = here("choose", "--quick", *words)
    assert r.returncode == 2 and message in r.stderr and "Traceback" not in r.stderr


def test_a_program_that_fails_is_told_with_its_own_words(lab):
    r = lab("choose", "--quick", "--", "sh", "-c", "echo 'no config' >&2; exit 4")
    assert r.returncode == 1 and "exit code 4" in r.stderr and "Traceback" not in r.stderr


def test_a_program_that_does_not_end_is_given_up_at_its_time_limit(monkeypatch, tmp_path, capsys):
    """The first run is the program as it is, so nothing waits longer than --timeout says."""
    seen = []
    real = measure.once

    def once(goal, *more, **options):
        outcome = real(goal, *more, **options)
        seen.append((goal.timeout, outcome))
        return outcome

    monkeypatch.setattr(measure, "once", once)
    monkeypatch.setattr(choose, "PATIENCE", 0.2)
    status = cli.main(["choose", "--quick", "--timeout", "3", "-o", str(tmp_path / "out"), "--", "sh", "-c", "sleep 100"])
    said = capsys.readouterr().err
    assert status == 1 and "sh still runs after 0.2 s; choose needs a program that ends by itself" in said
    assert [limit for limit, _ in seen] == [3.0] and seen[0][1].wall_s >= 3
    assert f"was ended at the time limit, after {seen[0][1].wall_s:.0f} s" in said and "Choose needs" in said


def test_the_proof_waits_by_how_long_a_run_takes_and_not_by_the_limit():
    goal = measure.Target(("true",), timeout=120.0)
    assert proof.patient(goal, 2.0).timeout == 40.0 and proof.patient(goal, None).timeout == 630.0
    assert proof.patient(measure.Target(("true",)), None).timeout == 0.0


def test_a_refused_program_leaves_no_folder_behind(tmp_path):
    (tmp_path / "kept").mkdir()
    for place in ("new", "kept"):
        assert cli.main(["choose", "--quick", "-o", str(tmp_path / place), "--", "sh", "-c", "exit 4"]) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["kept"] and not list((tmp_path / "kept").iterdir())


def test_a_folder_somebody_writes_into_is_refused_before_anything_is_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(measure, "once", lambda *a, **k: pytest.fail("it ran the program"))
    (tmp_path / "out").mkdir()
    with rows.Rows(tmp_path / "out" / "runs.csv"):
        assert cli.main(["choose", "-o", str(tmp_path / "out"), "--", "lua5.4", "-e", "x=1"]) == 1
    assert "another `mare lab` writes there" in capsys.readouterr().err and (tmp_path / "out" / "runs.csv").exists()


def test_a_program_that_was_killed_gets_no_advice_about_exit_codes(tmp_path, capsys):
    for code, words, advice in (("kill -KILL $$", "ended by SIGKILL", False), ("exit 9", "exit code 9", True)):
        assert cli.main(["choose", "--quick", "-o", str(tmp_path / "out"), "--", "sh", "-c", code]) == 1
        said = capsys.readouterr().err
        assert words in said and ("--exit" in said) == advice


FLAKY = ("sh", "-c", 'n=$(cat $0 2>/dev/null || echo 0); echo $((n + 1)) >$0; [ $((n % 4)) != 3 ] || exit 3')


def test_a_program_that_fails_by_itself_now_and_then_is_named_and_no_allocator(monkeypatch, tmp_path, capsys):
    """Every fourth run ends with 3: the first of an allocator that does so is not left out for it."""
    monkeypatch.chdir(tmp_path)
    status = cli.main(["choose", "--quick", "--allocators", "glibc,jemalloc,mimalloc", "-o", "out", "--", *FLAKY, str(tmp_path / "count")])
    said = capsys.readouterr().err
    assert status == 1 and "the program fails by itself, now and then" in said and "no allocator's fault" in said
    assert not (tmp_path / "out").exists()


def test_in_the_blocks_too_a_failure_is_tried_without_any_change(monkeypatch, tmp_path):
    plan = blocks.Plan(measure.Target((*FLAKY, str(tmp_path / "count"))), "wall", 0.05, 1, 10, 0.0)
    used = {n: a for n, a in allocators.load().items() if n in ("glibc", "jemalloc", "mimalloc")}
    with rows.Rows(tmp_path / "runs.csv") as kept, pytest.raises(LabError, match="fails by itself, now and then: under .* in block"):
        blocks.make(plan, used, kept, {})


def test_a_steady_program_is_not_suspected(monkeypatch):
    runs = []
    real = measure.once
    monkeypatch.setattr(measure, "once", lambda *a, **k: runs.append(1) or real(*a, **k))
    flaky.check(measure.Target(("true",)), "under x it failed")
    assert 1 <= len(runs) <= flaky.RUNS


def test_in_a_program_that_links_an_allocator_others_compete_also_the_c_librarys(tmp_path, own_malloc):
    """glibc has no C++ operators: those of libstdc++ stand in the place of the linked library's. What lacks a routine is left out, with the reason."""
    source, program = tmp_path / "p.cpp", str(tmp_path / "p")
    source.write_text("#include <cstdlib>\nint main() { int *volatile p = new int[50]; delete[] p; void *volatile q = aligned_alloc(64, 64); free(q); return 0; }\n")
    library = allocators.load()["jemalloc"].library
    subprocess.run(["c++", "-O0", "-fno-builtin", "-o", program, str(source), "-Wl,--no-as-needed", library], check=True)
    args = cli.subcommand(["choose", "--allocators", "glibc,miser,mimalloc,wrapped", "--allocator", f"wrapped={own_malloc}", "--", program])[1]
    usable, present, proofs, out = choose.treatments(args, measure.Target((program,), timeout=300))
    assert present.name == "jemalloc" and {a.name for a in usable} == {"jemalloc", "glibc", "miser", "mimalloc"}
    assert out == {"wrapped": "this program links jemalloc itself, so wrapped can't be tried"}
    served = {a.name: a.environment({})["LD_PRELOAD"].split(":") for a in usable}
    assert len(served["glibc"]) == len(served["miser"]) == 2 and "libstdc++" in served["glibc"][1] and len(served["mimalloc"]) == len(served["jemalloc"]) == 1
    for name in ("glibc", "miser", "mimalloc"):
        assert proofs[name].count("operator new") and os.path.realpath(library) not in proofs[name].objects("malloc")


def test_progress_is_told_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    with progress.bar(4, "measuring") as bar:
        bar.update(1)
        bar.total += 1
        bar.update(1)
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("measuring: 1 of 4 runs, ") and said[1].startswith("measuring: 2 of 5 runs, ")


@pytest.fixture
def undisturbed(monkeypatch):
    """No run is made again, however busy the machine is."""
    monkeypatch.setattr(disturbed, "PART", 0.0)


def in_process(monkeypatch, tmp_path, capsys, *words):
    """choose without sampling, tracing and page, which other tests look at."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(share, "record", lambda *a, **k: "left out by this test")
    monkeypatch.setattr(report, "write", lambda place, path: None)
    status = cli.main(["choose", "--quick", "--no-trace", "-o", "out", "--json", *words])
    out = capsys.readouterr()
    assert status == 0, out.err
    return json.loads(out.out)


def test_an_allocator_under_which_the_program_fails_is_left_out_and_named(monkeypatch, tmp_path, capsys):
    """The program fails whenever jemalloc's object is mapped."""
    result = in_process(monkeypatch, tmp_path, capsys, "--allocators", "glibc,jemalloc,mimalloc", "--",
                        "lua5.4", "-e", "for l in io.lines('/proc/self/maps') do if l:find('jemalloc') then os.exit(9) end end")
    assert "exit code 9" in result["out"]["jemalloc"] and len(result["allocators"]) == 2


def test_what_the_environment_preloads_is_what_the_program_uses_today(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("LD_PRELOAD", allocators.load()["jemalloc"].library)
    result = in_process(monkeypatch, tmp_path, capsys, "--allocators", "glibc,mimalloc", "--", "lua5.4", "-e", "x=1")
    assert result["present"] == "jemalloc"
    assert all(a["proof"]["serves"] for a in result["allocators"]) and {a["name"] for a in result["allocators"]} == {"glibc", "jemalloc", "mimalloc"}


def test_an_interrupted_choice_answers_from_its_whole_blocks(undisturbed, monkeypatch, tmp_path, capsys):
    real, count = measure.once, {"runs": 0}

    def once(goal, allocator, *more, **options):
        if not more and not options:
            count["runs"] += 1
            if count["runs"] == 1 + 2 * 6 + 2:  # behind the run as it is, in the seventh block
                raise KeyboardInterrupt
        return real(goal, allocator, *more, **options)

    monkeypatch.setattr(measure, "once", once)
    result = in_process(monkeypatch, tmp_path, capsys, "--blocks", "20", "--allocators", "glibc,mimalloc", "--", "lua5.4", "-e", "x=1")
    assert result["stopped"] == "it was interrupted" and result["standings"]["wall"]["blocks"] == 5
    assert result["verdict"]["word"] == "undecided" and "a verdict needs 10" in result["verdict"]["sentence"]


class Killed(BaseException):
    """As a kill would end it: nothing of ours runs after it, but what is in files stays."""


def killed_after(monkeypatch, runs):
    real, count = measure.once, {"runs": 0}

    def once(goal, allocator, *more, **options):
        if not more and not options:
            count["runs"] += 1
            if count["runs"] == runs:
                raise Killed
        return real(goal, allocator, *more, **options)

    monkeypatch.setattr(measure, "once", once)
    return lambda: monkeypatch.setattr(measure, "once", real)


WORDS = ("--blocks", "10", "--allocators", "glibc,mimalloc", "--", "lua5.4", "-e", "x=1")


def test_a_killed_choice_goes_on_by_the_same_command(undisturbed, monkeypatch, tmp_path, capsys):
    heal = killed_after(monkeypatch, 1 + 2 * 4 + 2)  # in the fifth block, which is number 4
    with pytest.raises(Killed):
        in_process(monkeypatch, tmp_path, capsys, *WORDS)
    heal()
    before = (tmp_path / "out" / "runs.csv").read_text()
    result = in_process(monkeypatch, tmp_path, capsys, *WORDS)
    assert (tmp_path / "out" / "runs.csv").read_text().startswith(before)
    rows = list(csv.DictReader(open(tmp_path / "out" / "runs.csv")))
    assert [int(r["block"]) for r in rows] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 0, 0, *(b for b in range(5, 12) for _ in "ab")]
    assert len({r["seed"] for r in rows}) == 1
    assert result["standings"]["wall"]["blocks"] == 10  # the torn block, and both warm-ups, don't count


def test_another_question_does_not_go_on_with_the_rows_of_the_first(monkeypatch, tmp_path, capsys):
    heal = killed_after(monkeypatch, 4)
    with pytest.raises(Killed):
        in_process(monkeypatch, tmp_path, capsys, *WORDS)
    heal()
    for more, words in ((["--margin", "3"], "another margin"), (["--seed", "4"], "another seed"), (["--cpus", CPU], "another cpus")):
        assert cli.main(["choose", "--quick", "--no-trace", "-o", "out", *more, *WORDS]) == 2
        assert words in capsys.readouterr().err


@pytest.mark.parametrize("step,error,words", [
    ("explain", KeyboardInterrupt(), "Not explained: it was interrupted"),
    ("explain", ZeroDivisionError("x"), "Not explained, by a fault of the laboratory"),
    ("record", LabError("3 MiB are free"), "No trace: 3 MiB are free"),
    ("record", subprocess.TimeoutExpired("x", 1), "No trace: the traced program did not end in time"),
])
def test_an_explanation_that_fails_leaves_the_result_and_its_page(monkeypatch, tmp_path, capsys, step, error, words):
    def fails(*a, **k):
        raise error

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(share, "record", lambda *a, **k: "left out by this test")
    monkeypatch.setattr(explain, step, fails)
    assert cli.main(["choose", "--quick", "-o", "out", "--allocators", "glibc,mimalloc", "--", "lua5.4", "-e", "x=1"]) == 0
    assert capsys.readouterr().out.startswith(("Keep glibc", "Use ", "Undecided: "))
    assert words in (tmp_path / "out" / "report.html").read_text()


def test_the_command_on_the_page_asks_the_same_question(monkeypatch, tmp_path, capsys, own_malloc):
    (tmp_path / "in put").write_text("")
    asked = ["--quick", "--response", "peak", "--margin", "7.5", "--blocks", "11", "--budget", "1", "--stdin", "in put", "--cpus", CPU, "--timeout", "50",
             "--exit", "0,3", "--allocators", "glibc,mimalloc", "--allocator", f"mine={own_malloc}", "--no-trace"]
    result = in_process(monkeypatch, tmp_path, capsys, *asked, "--seed", "77", "--", "lua5.4", "-e", "x = 'a b'")
    words = shlex.split(result["command"])
    assert words[:3] == ["mare", "lab", "choose"]
    then, now = (vars(cli.subcommand(w)[1]) for w in (["choose", *asked, "--seed", "77", "--", "lua5.4", "-e", "x = 'a b'"], words[2:]))
    assert now == then
    assert result["seed"] == 77 and not any("needs less memory" in r or "memory counts" in r for r in result["verdict"]["reasons"])


@pytest.mark.parametrize("codes,word,code", [("", "undecided", 0), ("undecided=4,better=10", "undecided", 4), ("undecided=4,better=10", "better", 10)])
def test_a_script_can_tell_the_verdict_by_the_exit_code(monkeypatch, tmp_path, capsys, codes, word, code):
    def measured(args, plan, place, rows):
        v = {"word": word, "choice": "mi", "sentence": "A made-up one."}
        a = {"name": "mi", "library": "/lib/mi.so", "package": None, "env": {"LD_PRELOAD": "/lib/mi.so"}}
        return {"verdict": v, "stopped": "", "allocators": [a], "program": ["x"]}, []

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(choose, "measured", measured)
    monkeypatch.setattr(choose.output, "save", lambda *a: None)
    monkeypatch.setattr(report, "write", lambda place, path: None)
    more = ["--codes", codes] if codes else []
    assert cli.main(["choose", "--no-trace", "-o", "out", "--json", "--apply", "x.env", *more, "--", "lua5.4"]) == code
    assert (tmp_path / "x.env").exists() == (word == "better")


def test_a_wrong_code_is_a_mistake_before_anything_is_run(monkeypatch, capsys):
    monkeypatch.setattr(choose, "measured", lambda *a: pytest.fail("it measured"))
    assert cli.main(["choose", "--codes", "worse=3", "--", "lua5.4"]) == 2
    assert "--codes worse=3: write a word of better, same, undecided" in capsys.readouterr().err


def test_quick_makes_the_blocks_that_an_undecided_answer_asks_for_and_no_more():
    plan = choose.plan_from(cli.subcommand(["choose", "--quick", "--blocks", "75", "--budget", "900", "--", "lua5.4"])[1])
    assert plan.blocks == 75 and plan.budget == 0


def test_the_table_and_the_page_say_what_its_names_stand_for(monkeypatch, tmp_path, capsys):
    """As for glibc-notcache, whose name says too little."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(share, "record", lambda *a, **k: "left out by this test")
    assert cli.main(["choose", "--quick", "--no-trace", "-o", "out", "--allocators", "glibc,glibc-notcache", "--", "lua5.4", "-e", "x=1"]) == 0
    words = "glibc-notcache is glibc with its cache per thread switched off: a setting, GLIBC_TUNABLES=glibc.malloc.tcache_count=0"
    assert words in capsys.readouterr().out and words in (tmp_path / "out" / "report.html").read_text()


def test_a_program_that_mostly_waits_and_a_busy_machine_are_told_apart():
    def busy(cpu, load, preempted):
        return [{"block": str(b), "wall_s": "1.0", "cpu_s": str(cpu), "load": str(load), "affinity": "0,1", "preempted": str(preempted)} for b in range(6)]

    assert "waits for 80 % of its run time" in answer.mood(busy(0.2, 0.5, 0))[0]
    assert answer.mood(busy(0.2, 0.5, 0), "cpu") == [] == answer.mood(busy(0.9, 0.5, 0))
    assert answer.mood(busy(0.2, 8, 100))[0].endswith("or let --response cpu decide")
    assert answer.mood(busy(0.2, 8, 100), "cpu")[0].endswith("measure again when it is quiet")


def test_too_little_room_is_told_before_anything_is_measured(monkeypatch, tmp_path, lab):
    monkeypatch.setattr(rows, "SPACE", 1 << 60)
    with pytest.raises(LabError, match="make room"):
        rows.check_space(tmp_path)


def test_verdicts_of_memory(chosen):
    _, _, result = chosen
    assert set(result["front"]) <= {"glibc", "jemalloc", "tcmalloc"} and result["front"]
