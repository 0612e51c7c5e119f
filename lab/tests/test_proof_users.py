"""Programs that the loader can't tell about, as they became another user or cleared their environment: the proof says so, and choose doesn't guess."""

import os

import pytest

from marelab import allocators, choose, measure, perf, proof
from marelab.errors import LabError

ALL = {a.name: a for a in allocators.load().values()}
AS_NOBODY = ("setpriv", "--reuid=65534", "--clear-groups")

pytestmark = [pytest.mark.skipif(not perf.works(), reason="perf can't be used here"), pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")]


def prove(name: str, *argv: str) -> proof.Proof:
    return proof.prove(ALL[name], measure.Target(argv, timeout=300))


@pytest.mark.parametrize("name", ["glibc", "mimalloc"])
def test_what_became_another_user_is_not_said_to_be_served(name):
    p = prove(name, *AS_NOBODY, "ls", "/")
    assert p.serves and not p.complete and p.mute and os.path.basename(p.mute) == "ls" and list(p.unheard) == [p.mute]
    assert f"not heard of by the loader: {p.mute} (it became another user" in "\n".join(p.lines()) and p.as_dict()["unheard"] == {p.mute: 1}


def test_a_child_that_did_is_named_and_the_others_are_heard():
    p = prove("mimalloc", "sh", "-c", f"ls /; cat /dev/null | cat; {' '.join(AS_NOBODY)} ls /; ls /")
    assert p.serves and not p.complete and p.mute is None and [os.path.basename(i) for i in p.unheard] == ["ls"] and p.unheard.total() == 1


def test_a_program_with_children_and_exec_is_heard_as_a_whole():
    p = prove("glibc", "env", "sh", "-c", "for i in 1 2 3; do ls / | cat; done; exec env true")
    assert p.complete and p.images == 10 and not p.unheard, p.lines()


def test_choose_refuses_to_guess_what_such_a_program_uses():
    for argv in ((*AS_NOBODY, "ls", "/"), ("env", "-i", "ls", "/")):
        with pytest.raises(LabError, match="which allocator .*ls uses can't be found out: .*unshare --user --map-user=1000"):
            choose.who_serves(measure.Target(argv, timeout=300), ALL, 0.1)
