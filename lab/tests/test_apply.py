"""The answer of a choice as lines to paste, and written where it takes effect."""

import json
import subprocess

import pytest

from marelab import allocators, apply, cli, output, paste
from marelab.errors import LabError

MI = "/lib/x86_64-linux-gnu/libmimalloc.so.2"


def result(word="better", choice="mi", **changes) -> dict:
    about = {"verdict": {"word": word, "choice": choice, "sentence": "Use mi: better by at least 9 %."}, "program": ["./service", "a b"],
             "allocators": [{"name": "mi", "library": MI, "package": "libmimalloc2.0", "env": {"LD_PRELOAD": MI}},
                            {"name": "tuned", "library": None, "package": None, "env": {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0", "LD_PRELOAD": ""}}]}
    return about | changes


def test_a_better_one_gives_a_line_for_each_place():
    found = paste.lines(result())
    assert found["environment"] == [f"LD_PRELOAD={MI} ./service 'a b'"]
    assert "install -y --no-install-recommends libmimalloc2.0" in found["Dockerfile"][0] and found["Dockerfile"][1] == f'ENV LD_PRELOAD="{MI}"'
    assert found["systemd"] == ["[Service]", f'Environment="LD_PRELOAD={MI}"']
    assert found["linker"] == ["-Wl,--push-state,--no-as-needed -l:libmimalloc.so.2 -Wl,--pop-state"]


def test_what_must_go_from_the_environment_goes():
    found = paste.lines(result(choice="tuned"))
    assert found["environment"] == ["env -u LD_PRELOAD GLIBC_TUNABLES=glibc.malloc.tcache_count=0 ./service 'a b'"]
    assert found["systemd"][1:] == ['Environment="GLIBC_TUNABLES=glibc.malloc.tcache_count=0"', "UnsetEnvironment=LD_PRELOAD"]
    assert "linker" not in found


@pytest.mark.parametrize("word", ["same", "undecided"])
def test_there_is_nothing_to_paste_where_what_is_used_stays(word):
    assert paste.lines(result(word)) == {}


def test_the_environment_line_and_the_linkers_flag_give_the_program_that_allocator(tmp_path):
    """Each pasted as it is: the allocator's object is mapped."""
    a = allocators.load()["mimalloc"]
    source = tmp_path / "p.c"
    source.write_text('#include <stdlib.h>\nint main(void) { free(malloc(9)); return system("exec grep -c mimalloc /proc/$PPID/maps"); }\n')
    about = result(program=[str(tmp_path / "p")], allocators=[{"name": "mi", "library": a.library, "package": None, "env": a.environment({})}])
    lines = paste.lines(about)
    for flags, command in (("", lines["environment"][0]), (lines["linker"][0], str(tmp_path / "p"))):
        subprocess.run(f"cc -O0 -fno-builtin -o {tmp_path}/p {source} {flags}", shell=True, check=True)
        r = subprocess.run(command, shell=True, capture_output=True, text=True)
        assert int(r.stdout) > 0, r


def test_applying_twice_is_applying_once_and_what_is_not_ours_stays(tmp_path):
    path = tmp_path / "service.env"
    path.write_text("PORT=80")
    apply.write(result(), str(path))
    once = path.read_text()
    assert once.splitlines() == ["PORT=80", apply.BEGIN, f"LD_PRELOAD={MI}", apply.END]
    path.write_text(once + "LAST=1\n")
    apply.write(result(choice="tuned"), str(path))
    assert path.read_text().splitlines() == ["PORT=80", apply.BEGIN, "GLIBC_TUNABLES=glibc.malloc.tcache_count=0", "LD_PRELOAD=", apply.END,
                                             "LAST=1"]


def test_a_dockerfile_gets_it_behind_its_last_from(tmp_path):
    path = tmp_path / "Dockerfile"
    path.write_text("FROM gcc AS build\nRUN make\nFROM debian\nUSER app\nCMD [\"./service\"]\n")
    apply.write(result(), str(path))
    lines = path.read_text().splitlines()
    assert lines[2:4] == ["FROM debian", apply.BEGIN] and lines[4].startswith("RUN apt-get") and lines[5] == f'ENV LD_PRELOAD="{MI}"'
    assert lines[6:] == [apply.END, "USER app", 'CMD ["./service"]']


def test_a_unit_gets_a_file_beside_it(tmp_path):
    (tmp_path / "app.service").write_text("[Service]\nExecStart=/bin/app\n")
    path = apply.write(result(), str(tmp_path / "app.service"))
    assert path == tmp_path / "app.service.d" / "allocator.conf" and "[Service]" in path.read_text()
    assert (tmp_path / "app.service").read_text() == "[Service]\nExecStart=/bin/app\n"


@pytest.mark.parametrize("name,text,words", [("Dockerfile", "RUN x\n", "no FROM line"), ("none/x.env", None, "no folder"), ("a.service", None, "No such file")])
def test_where_it_could_not_be_written_is_said_before_anything_is_measured(tmp_path, name, text, words):
    if text:
        (tmp_path / name).write_text(text)
    with pytest.raises(LabError, match=words):
        apply.check(str(tmp_path / name))


def test_the_command_says_the_lines_or_writes_them(tmp_path, capsys):
    about = {k: None for k in apply.answer.KEYS} | result() | {"kind": "choose", "version": apply.answer.VERSION}
    output.save(tmp_path / "choose.json", about)
    assert cli.main(["apply", str(tmp_path)]) == 0
    assert f"LD_PRELOAD={MI} ./service 'a b'" in capsys.readouterr().out
    assert cli.main(["apply", str(tmp_path), str(tmp_path / "x.env"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] == [str(tmp_path / "x.env")]
    output.save(tmp_path / "choose.json", about | result("undecided"))
    assert cli.main(["apply", str(tmp_path)]) == 1
    assert "nothing to apply: Use mi" in capsys.readouterr().err
