"""Programs that can't be given another allocator are refused before they start."""

import os
import shutil
import struct

import pytest

from marelab import elf, native, target
from marelab.errors import LabError


def made(path, bits=64, machine=62, interpreter=b"/lib64/ld-linux-x86-64.so.2"):
    """The head of an ELF file with one program header."""
    wide = bits == 64
    head = bytearray(64 if wide else 52)
    head[:6] = b"\x7fELF" + bytes([2 if wide else 1, 1])
    struct.pack_into("<H", head, 18, machine)
    size = 56 if wide else 32
    if wide:
        struct.pack_into("<Q", head, 32, 64)
        struct.pack_into("<HH", head, 54, size, 1)
    else:
        struct.pack_into("<I", head, 28, 52)
        struct.pack_into("<HH", head, 42, size, 1)
    entry = bytearray(size)
    at = len(head) + size
    if interpreter:
        struct.pack_into("<I", entry, 0, 3)
        struct.pack_into("<Q" if wide else "<I", entry, 8 if wide else 4, at)
        struct.pack_into("<Q" if wide else "<I", entry, 32 if wide else 16, len(interpreter) + 1)
    path.write_bytes(bytes(head) + bytes(entry) + (interpreter or b"") + b"\0")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("shape,words", [
    (dict(interpreter=None), "statically"),
    (dict(interpreter=b"/lib/ld-musl-x86_64.so.1"), "musl"),
    (dict(bits=32, machine=3), "32-bit x86"),
])
def test_what_preloading_cannot_reach_is_refused(tmp_path, shape, words):
    with pytest.raises(LabError, match=words):
        target.check([made(tmp_path / "p", **shape)])


def test_a_real_static_program_is_refused():
    with pytest.raises(LabError, match="statically"):
        target.check([native.path("measure")])


def test_a_setgid_program_is_refused(tmp_path):
    copy = tmp_path / "p"
    shutil.copy("/bin/true", copy)
    copy.chmod(0o2755)
    with pytest.raises(LabError, match="setgid"):
        target.check([str(copy)])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_program_of_another_user_that_is_setuid_is_refused(tmp_path):
    copy = tmp_path / "p"
    shutil.copy("/bin/true", copy)
    os.chown(copy, 12345, -1)
    copy.chmod(0o4755)
    with pytest.raises(LabError, match="setuid"):
        target.check([str(copy)])


def test_a_program_with_file_capabilities_is_refused(tmp_path, monkeypatch):
    copy, asked = tmp_path / "able", []
    shutil.copy("/bin/true", copy)

    def getxattr(path, name):
        asked.append((str(path), name))
        return b"\x01\x00\x00\x02"

    monkeypatch.setattr(os, "getxattr", getxattr)  # setting real ones needs a privilege
    with pytest.raises(LabError, match="file capabilities"):
        target.check([str(copy)])
    assert asked == [(str(copy), "security.capability")]


def test_scripts_are_followed_to_their_interpreter(tmp_path):
    script = tmp_path / "s"
    script.write_text("#!/usr/bin/env -S lua5.4 -W\n")
    script.chmod(0o755)
    assert target.check([str(script)]) == str(script)
    assert os.path.basename(target.runs(str(script))).startswith("lua")


@pytest.mark.parametrize("argv,words", [([], "after `--`"), (["no-such-program-here"], "not found on PATH"), (["/no/such"], "no such program"),
                                        (["/etc/passwd"], "can't be executed"), (["/tmp"], "can't be executed")])
def test_what_is_no_program_says_what_to_do(argv, words):
    with pytest.raises(LabError, match=words):
        target.check(argv)


def test_a_file_without_a_header_is_neither(tmp_path):
    p = tmp_path / "p"
    p.write_text("echo hello\n")
    p.chmod(0o755)
    with pytest.raises(LabError, match="neither an ELF program"):
        target.check([str(p)])


def test_a_damaged_header_is_no_crash(tmp_path):
    """A program header that is cut off, and tables that point behind the file's end."""
    whole = open(made(tmp_path / "p"), "rb").read()
    for cut in range(0, len(whole), 3):
        (tmp_path / "q").write_bytes(whole[:cut])
        found = elf.read(str(tmp_path / "q"))
        assert found is None or len(found.segments) <= 1
        assert elf.link_address(str(tmp_path / "q"), 10) == 10 and elf.defined(str(tmp_path / "q")) is None
    assert elf.read(made(tmp_path / "whole")).interpreter == "/lib64/ld-linux-x86-64.so.2"


def test_a_byte_of_a_file_has_the_address_its_segment_gives_it():
    own = os.path.realpath("/proc/self/exe")
    for s in elf.read(own).segments:
        if s.kind == elf.LOAD and s.length:
            assert elf.link_address(own, s.offset + s.length - 1) == s.address + s.length - 1
    assert elf.link_address("/etc/passwd", 5) == elf.link_address("/no/such/file", 5) == 5
