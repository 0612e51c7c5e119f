"""The study's programs as scenarios: their input is made whole, what is not here is said, recordings add up, and choose gets the right command line."""

import json
import os
import shlex
import struct
import subprocess
import zlib

import pytest

from marelab import cli, recordings, scenario
from marelab.errors import LabError
from marelab.scenarios import Made, Scenario, catalogue, codeblocks, desktop, display, media


def test_the_list_says_what_each_does_and_what_is_not_here(monkeypatch, capsys):
    fake = Scenario("lynx", "Lynx", "reads", ("no-such-program",), lambda place: Made([]), display=False)
    monkeypatch.setitem(catalogue.ALL, "lynx", fake)
    assert cli.main(["scenario"]) == 0
    said = capsys.readouterr().out
    assert "lynx        Lynx (not here: no-such-program)\n            reads\n" in said and said.endswith("installs what is not here.\n")
    assert cli.main(["scenario", "--json"]) == 0
    assert [s["name"] for s in json.loads(capsys.readouterr().out)] == list(catalogue.ALL)
    assert cli.main(["scenario", "lynx"]) == 2
    assert capsys.readouterr().err == "mare lab: scenario lynx: no-such-program is not here: run `tools/setup study` in mare's source folder\n"


@pytest.mark.parametrize("words,said", [
    (["oracle"], "no scenario 'oracle'; there are mysql, cherokee, codeblocks, vlc-audio, vlc-video, octave, inkscape, lynx"),
    (["lynx", "-n", "0"], "--replications: at least one"),
    (["lynx", "--", "--quick"], "options behind -- are those of choose: add --choose"),
])
def test_a_mistake_is_named(words, said, monkeypatch, capsys):
    monkeypatch.setattr(Scenario, "missing", [])
    assert cli.main(["scenario", *words]) == 2
    assert capsys.readouterr().err == f"mare lab: {said}\n"


def test_a_program_of_the_study_is_recorded(tmp_path):
    """From its input to the study's measures; Lynx is among the packages that the tests need."""
    scenario.record(catalogue.ALL["lynx"], tmp_path, 1, False)
    found = recordings.load(tmp_path, "lynx")
    [run] = found["runs"]
    assert found["program"].startswith("lynx=") and run["impossible_steps"] == 0
    assert run["allocations"] > 20_000 and sum(run[k] for k in ("short", "medium", "long")) == pytest.approx(100)
    assert run["levels"]["1-64"] > 30 and sum(run["levels"].values()) <= 100.001
    assert [p.name for p in tmp_path.iterdir()] == ["lynx.json"]


def test_recordings_of_one_version_add_up(tmp_path):
    one = Scenario("lynx", "Lynx", "", ("sh",), lambda place: Made(["sort", "/etc/passwd"]))
    scenario.record(one, tmp_path, 1, False)
    runs = scenario.record(one, tmp_path, 1, True)["runs"]
    assert len(runs) == 2 and runs == recordings.load(tmp_path, "lynx")["runs"]
    assert (tmp_path / "lynx" / "sizes.svg").exists()


def test_recordings_of_two_versions_are_not_mixed(tmp_path, monkeypatch):
    recordings.save(tmp_path, "lynx", "lynx=1", {}, {}, [{"allocations": 1}])
    monkeypatch.setattr(scenario, "version", lambda s: "lynx=2")
    with pytest.raises(LabError, match="holds recordings of lynx=1, and here is lynx=2: name another folder with -o"):
        scenario.record(catalogue.ALL["lynx"], tmp_path, 1, False)


def test_a_program_that_fails_is_no_recording(tmp_path):
    failing = Scenario("lynx", "Lynx", "fails", ("sh",), lambda place: Made(["sh", "-c", "exit 3"]))
    with pytest.raises(LabError, match="scenario lynx failed under the tracer, with status 3"):
        scenario.record(failing, tmp_path, 1, False)
    assert list(tmp_path.iterdir()) == []


def test_choose_gets_a_program_or_a_service_with_its_load():
    assert scenario.choice(Made(["a", "b c"])) == ["--", "a", "b c"]
    assert scenario.choice(Made(["a", "b c"], load="ab x", ready="ping")) == ["--serve", "a 'b c'", "--load", "ab x", "--ready", "ping"]


def test_choose_over_a_scenario_runs_in_its_folder(monkeypatch, tmp_path):
    seen = []
    one = Scenario("lynx", "Lynx", "", ("sh",), lambda place: Made(["ls", str(place)]))
    monkeypatch.setitem(catalogue.ALL, "lynx", one)
    monkeypatch.setattr("marelab.choose.run", lambda args: seen.append((args.quick, args.program, os.path.isdir(args.program[1]))) or 0)
    assert cli.main(["scenario", "lynx", "--choose", "--", "--quick"]) == 0
    [(quick, program, there)] = seen
    assert quick and program[0] == "ls" and there and not os.path.exists(program[1])


# ---- input ----

def test_the_picture_and_the_sound_are_whole(tmp_path):
    desktop.picture(tmp_path / "p.png")
    data = (tmp_path / "p.png").read_bytes()
    assert 200_000 < len(data) < 600_000 and data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">IIBB", data[16:26]) == (1920, 1080, 8, 2) and len(zlib.decompress(data[41:-16])) == 1080 * (1 + 3 * 1920)
    media.sound(tmp_path / "s.wav", 1)
    assert (tmp_path / "s.wav").stat().st_size == 44 + 4 * media.RATE


def test_a_films_frames_have_their_size(tmp_path, monkeypatch):
    monkeypatch.setattr(media, "FRAMES", 2)
    media.film(tmp_path / "f.y4m", 1)
    head, rest = (tmp_path / "f.y4m").read_bytes().split(b"\n", 1)
    assert head == b"YUV4MPEG2 W1280 H720 F2:1 Ip A1:1 C420jpeg" and len(rest) == 2 * (6 + 1280 * 720 * 3 // 2)


def test_a_workspace_names_its_files_and_the_compilers_are_known(tmp_path, monkeypatch):
    monkeypatch.setattr(codeblocks, "FILES", 3)
    path = codeblocks.workspace(tmp_path)
    project = (tmp_path / "p.cbp").read_text()
    assert 'filename="p.cbp"' in path.read_text() and project.count("<Unit ") == 6
    assert (tmp_path / "src/m0/f2.cpp").read_text().count("::f") == codeblocks.FUNCTIONS
    compilers = tmp_path / "compilers"
    compilers.mkdir()
    for name in ("options_gcc.xml", "compiler_arm-elf-gcc.xml", "options_common_cmds.xml"):
        (compilers / name).touch()
    monkeypatch.setattr(codeblocks, "COMPILERS", compilers)
    codeblocks.compilers_known(tmp_path / "home")
    text = (tmp_path / "home/.config/codeblocks/default.conf").read_text()
    assert "<arm_elf_gcc><NAME>" in text and "<gcc><NAME>" in text and "cmds" not in text
    monkeypatch.setattr(codeblocks, "COMPILERS", tmp_path / "none")
    with pytest.raises(LabError, match="has no compilers"):
        codeblocks.compilers_known(tmp_path / "other")


def test_servers_run_in_their_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("marelab.scenarios.servers.file", lambda command: f"/bin/{command}")
    for name in ("mysql", "cherokee"):
        place = tmp_path / name
        place.mkdir()
        m = catalogue.ALL[name].make(place)
        assert m.load and shlex.split(m.load)[0] in ("/bin/mariadb-slap", "/bin/ab") and str(place) in shlex.join(m.argv)
    operations = (tmp_path / "mysql/operations.sql").read_text()
    assert operations.count(";") == 36 and "{" not in operations


# ---- the display ----

def test_a_display_that_does_not_start_is_an_error_and_leaves_the_environment(monkeypatch):
    monkeypatch.setenv("DISPLAY", ":42")
    monkeypatch.setattr(display, "file", lambda command: "/bin/false")
    with pytest.raises(LabError, match="Xvfb did not start"), display.virtual():
        pytest.fail("it was entered")
    assert os.environ["DISPLAY"] == ":42"


def test_a_display_is_there_for_its_block_and_ends_with_it(monkeypatch, tmp_path):
    monkeypatch.delenv("DISPLAY", raising=False)
    server = tmp_path / "Xvfb"
    server.write_text("#!/bin/sh\necho 77 >/proc/self/fd/$2\nexec sleep 600\n")
    server.chmod(0o755)
    monkeypatch.setattr(display, "file", lambda command: str(server))
    started = []
    real = subprocess.Popen
    monkeypatch.setattr(display.subprocess, "Popen", lambda *a, **k: started.append(real(*a, **k)) or started[0])
    with display.virtual():
        assert os.environ["DISPLAY"] == ":77" and started[0].poll() is None
    assert "DISPLAY" not in os.environ and started[0].poll() is not None
