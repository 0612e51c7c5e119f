"""The benchmarks' statistics (bench/harness) are the laboratory's."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from marelab.stats import paired

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.append(str(BENCH))
from harness import archive, pictures, report, stats  # noqa: E402
from harness.model import Experiment, Finding, ratio  # noqa: E402
from harness.rows import experiments  # noqa: E402


def test_a_figures_interval_is_that_of_paired_log_ratios():
    mine, theirs = [5.1, 4.9, 5.6, 5.0, 5.3], [4.0, 4.1, 4.4, 3.9, 4.6]
    s = stats.summary(np.divide(mine, theirs))
    pairs = paired.compare(np.log(np.column_stack([mine, theirs])))
    assert (s.mean, s.low, s.high) == pytest.approx(tuple(np.exp(x[0, 1]) for x in (pairs.difference, pairs.low, pairs.high)))
    assert s.low < s.mean < s.high


def test_nineteen_of_twenty_intervals_hold_the_truth():
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(300):
        s = stats.summary(1.2 * np.exp(0.1 * rng.standard_t(4, size=5)))
        held += s.low <= 1.2 <= s.high
    assert 0.92 * 300 <= held <= 0.99 * 300


@pytest.mark.parametrize("values,sense,target,words", [
    ([1.5, 1.51, 1.49, 1.5, 1.5], ">=", 1.3, "yes"), ([1.5, 1.51, 1.49, 1.5, 1.5], "<=", 1.3, "no"),
    ([0.9, 1.4, 2.0, 1.1, 1.7], ">=", 1.3, "yes (noise)"), ([1.5, 1.5], ">=", 1.3, "yes (no interval)"), ([100.0] * 5, ">=", 99, "yes"),
])
def test_a_verdict_says_noise_where_the_interval_holds_the_target_or_there_is_none(values, sense, target, words):
    assert stats.summary(values).verdict(sense, target) == words


def test_a_figure_of_nothing_is_no_crash():
    s = stats.summary([0.0, 0.0, 0.0])
    assert s.low <= s.mean <= s.high < 1e-6


def test_a_repetition_without_a_program_does_not_count():
    finding = Finding("ring", ratio("mare 1", "go 1", "hops"), ">=", 1.3, mare=("mare 1",), peers=("go 1",), source="Go")
    runs = [{"mare 1": {"hops": 4.0}, "go 1": {"hops": 2.0}}] * 3 + [{"mare 1": {"hops": 1.0}}]
    result = report.Result(Experiment("ring", {}, [finding]), finding, runs)
    assert result.values == [2.0] * 3 and result.cells()[3:] == ["2 × [2, 2]", "≥ 1.3 × Go", "yes"]
    lost = report.Result(Experiment("ring", {}, [finding]), finding, [{"go 1": {"hops": 2.0}}])
    assert lost.cells()[3:] == ["–", "≥ 1.3 × Go", "not measured"]


def test_the_page_says_what_its_figures_are(tmp_path):
    finding = Finding("ring", ratio("mare 1", "go 1", "hops"), ">=", 1.3, mare=("mare 1",), peers=("go 1",), source="Go")
    runs = [{"mare 1": {"hops": 4e6 + i}, "go 1": {"hops": 2e6}} for i in range(5)]
    experiment = Experiment("ring", {"mare 1": None, "go 1": None}, [finding])
    run = archive.Run({"command": "bench/run", "machine": {"date": "2026-01-01"}, "runs": {"ring": runs}, "failures": {}})
    results = archive.results_of(experiment, run)
    text = report.markdown([(experiment, run, results, list(archive.figures(experiment, run)))], None)
    assert "mean [95 % interval]" in text and "| ring | go 1 | hops | 2M | 2M | 2M |" in text
    assert report.plot(results, str(tmp_path / "plot.svg"), "title") and (tmp_path / "plot.svg").exists()


def test_pictures_show_the_newest_run_of_each_question_also_where_mare_loses(tmp_path):
    def run(date, mine):
        taken = [{"mare 1": {"spawn": mine + i / 1000}, "go 1": {"spawn": 0.25}, "erlang 1": {"spawn": 0.625}} for i in range(5)]
        return archive.Run({"command": "bench/run", "machine": {"date": date, "system": "a machine"}, "runs": {"spawn": taken}, "failures": {}})

    paths = pictures.publish([run("2026-02-01", 0.5), run("2026-01-01", 3.0)], str(tmp_path))
    assert [Path(path).name for path in paths] == ["overview.svg", "processes.svg"]  # of the others no figure is known
    for path in paths:
        text = Path(path).read_text()
        assert all(word in text for word in ("less is better", ">0.502 µs<", ">0.25 µs<", ">0.625 µs<", "a machine; 2026-02-01")) and "more is better" not in text


def test_pictures_ask_for_programs_that_are_measured():
    known = {e.name: e.commands for e in experiments({"mare": 1, "go": 1, "erlang": 1})}
    assert all(bar.label in known[panel.experiment] for panels in pictures.PICTURES.values() for panel in panels for bar in panel.bars)


@pytest.mark.parametrize("script", ["run", "orb/run"])
def test_the_programs_start(script):
    r = subprocess.run([sys.executable, BENCH / script, "--help"], capture_output=True, text=True, timeout=300)
    assert r.returncode == 0 and "--quick" in r.stdout, r.stderr


def test_a_python_without_the_packages_says_what_to_do(tmp_path):
    """Isolated from every package; where the laboratory's own Python were, there is none."""
    code = f"import sys; sys.path.insert(0, {str(BENCH)!r}); sys.argv = ['bench/run']\nfrom harness import python\n" \
           f"python.VENV = {str(tmp_path)!r}\npython.ensure()"
    r = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", code], capture_output=True, text=True, timeout=300)
    assert r.returncode == 1 and "has no numpy" in r.stderr and "tools/setup bench" in r.stderr and "Traceback" not in r.stderr


def test_a_part_that_is_measured_again_leaves_the_rest(tmp_path, monkeypatch):
    two = [Experiment(name, {"mare 1": None}, [Finding(name, lambda m: m["mare 1"]["hops"], ">=", 3.0, mare=("mare 1",))]) for name in ("ring", "select")]
    monkeypatch.setattr(archive, "FOLDER", str(tmp_path))
    for date, taken in (("2026-01-01T10:00:00", {"ring": [{"mare 1": {"hops": 2.0}}], "select": [{"mare 1": {"hops": 4.0}}]}),
                        ("2026-01-02T10:00:00", {"ring": [{"mare 1": {"hops": 8.0}}], "select": [{}]})):
        archive.keep(archive.Run({"command": "run " + date, "machine": {"date": date}, "runs": taken, "failures": {}}), [])
    known = [(e, r, archive.results_of(e, r), list(archive.figures(e, r))) for e, r in archive.newest(two, list(archive.runs()))]
    page = report.markdown(known, None).splitlines()
    assert "| ring | mare 1: 8/s | – | 8 × | ≥ 3 × | yes (no interval) | 1 |" in page
    assert "| select | mare 1: 4/s | – | 4 × | ≥ 3 × | yes (no interval) | 2 |" in page
    assert "| select | mare 1 | hops | 4 | 4 | 4 | 2 |" in page
    assert "- command: `run 2026-01-02T10:00:00`" in page
