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


def test_one_that_was_built_on_demand_is_copied_into_the_container():
    place = "/home/u/.cache/mare/allocators/hoard-0.1.2-0/libhoard.so"
    hoard = {"name": "hoard", "library": place, "package": None, "built": True, "env": {"LD_PRELOAD": place}}
    note, copy, env = paste.lines(result(choice="hoard", allocators=[hoard]))["Dockerfile"]
    assert note.startswith("# ") and place in note and copy == f"COPY libhoard.so {place}" and env == f'ENV LD_PRELOAD="{place}"'


def test_one_of_our_own_and_one_of_the_users_are_copied_into_the_container():
    mine = allocators.load(extra=[f"mine={allocators.c_library()}"])
    for a in (mine["mare"], mine["mine"]):
        about = {"name": a.name, "library": a.library, "package": a.package, "env": a.environment({})}
        note, copy, env = paste.lines(result(choice=a.name, allocators=[about]))["Dockerfile"]
        assert a.library in note and copy.split() == ["COPY", a.library.rpartition("/")[2], a.library] and env == f'ENV LD_PRELOAD="{a.library}"'


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


@pytest.mark.parametrize("name", ["Dockerfile.prod", "service.Dockerfile", "dockerfile", "Containerfile", "Containerfile.prod"])
def test_a_dockerfile_is_known_by_each_of_its_names(tmp_path, name):
    (tmp_path / name).write_text("FROM debian\nCMD [\"./service\"]\n")
    lines = apply.write(result(), str(tmp_path / name)).read_text().splitlines()
    assert f'ENV LD_PRELOAD="{MI}"' in lines and not any(line.startswith("LD_PRELOAD") for line in lines)


@pytest.mark.parametrize("name,first", [("start.sh", "#!/bin/sh -e\n"), ("start", "#!/usr/bin/env bash\n"), ("env.sh", "")])
def test_a_shell_script_exports_it_to_what_it_starts_and_still_can_be_started(tmp_path, name, first):
    path = tmp_path / name
    path.write_text(first + 'exec sh -c \'echo "$X ${LD_PRELOAD-none}"\'\n')
    path.chmod(0o750)
    spaced = result()
    spaced["allocators"][0]["env"] = {"X": "a b", "LD_PRELOAD": ""}
    apply.write(spaced, str(path))
    assert path.read_text().startswith(first + apply.BEGIN) and path.stat().st_mode & 0o777 == 0o750
    assert subprocess.run(["sh", str(path)], capture_output=True, text=True).stdout == "a b none\n"


@pytest.mark.parametrize("name,text,words", [
    ("compose.yaml", "services:\n  app:\n", "line 1 is not NAME=value"),
    ("app.env", "# port\n\nPORT=80\nexport HOST=x\n", "line 4 is not NAME=value"),
    ("nginx.conf", "user www;\n", "line 1 is not NAME=value"),
    ("build", "#!/usr/bin/env python3\nX=1\n", "not one of a shell"),
    ("start.sh", "#!/usr/bin/python3\nX=1\n", "not one of a shell")])
def test_a_file_of_another_kind_is_left_as_it_is_with_what_to_paste(tmp_path, capsys, name, text, words):
    about = {k: None for k in apply.answer.KEYS} | result() | {"kind": "choose", "version": apply.answer.VERSION}
    output.save(tmp_path / "choose.json", about)
    (tmp_path / name).write_text(text)
    assert cli.main(["apply", str(tmp_path), str(tmp_path / "good.env"), str(tmp_path / name)]) == 2
    said = capsys.readouterr().err
    assert words in said and f'ENV LD_PRELOAD="{MI}"' in said
    assert (tmp_path / name).read_text() == text and not (tmp_path / "good.env").exists()


def test_a_folder_is_one_of_drop_ins_or_refused(tmp_path):
    (tmp_path / "there.service.d").mkdir()
    for name in ("there.service.d", "new.service.d/"):
        path = apply.write(result(), f"{tmp_path}/{name}")
        assert path == tmp_path / name / "allocator.conf" and "[Service]" in path.read_text()
    assert apply.kind(tmp_path / "a.service.d" / "x.conf", "# a comment\n") == "systemd"
    assert apply.kind(tmp_path / "environment.d" / "x.conf", "") == "environment"
    (tmp_path / "profile.d").mkdir()
    for name in ("profile.d", "profile.d/", "none/"):
        with pytest.raises(LabError, match="a folder; name a file"):
            apply.check(f"{tmp_path}/{name}")


def test_a_file_of_secrets_stays_one_and_a_link_stays_a_link(tmp_path):
    (tmp_path / "secret").write_text("KEY=1\n")
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "app.env").symlink_to("secret")
    apply.write(result(), str(tmp_path / "app.env"))
    assert (tmp_path / "app.env").is_symlink() and "LD_PRELOAD" in (tmp_path / "secret").read_text()
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


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
