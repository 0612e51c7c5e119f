"""How the laboratory's modules hang together: none needs, through others, itself; and whoever imports late says why."""

import ast
import graphlib
from pathlib import Path

import pytest

import marelab

PACKAGE = Path(marelab.__file__).parent


def modules(package: Path) -> dict[str, ast.Module]:
    """Every module by its dotted name."""
    found = {}
    for file in package.rglob("*.py"):
        parts = file.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(file.read_text())
    return found


def needed(tree: ast.Module, names) -> set[str]:
    """The modules of ours that an import names, wherever in the file it stands."""
    words = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            words |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            words |= {f"{node.module}.{a.name}" if f"{node.module}.{a.name}" in names else node.module for a in node.names}
    return words & set(names)


def check_cycles(package: Path) -> int:
    """Raises graphlib.CycleError with the modules of a cycle; how many imports there are."""
    found = modules(package)
    graph = {name: needed(tree, found) - {name} for name, tree in found.items()}
    graphlib.TopologicalSorter(graph).prepare()
    return sum(map(len, graph.values()))


def late_without_reason(package: Path) -> list[str]:
    """Imports inside functions that have no comment on their line or the one above."""
    found = []
    for file in package.rglob("*.py"):
        lines = file.read_text().splitlines()
        for function in ast.walk(ast.parse("\n".join(lines))):
            if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            late = [n for n in ast.walk(function) if isinstance(n, (ast.Import, ast.ImportFrom))]
            if late and not any("#" in line for line in lines[late[0].lineno - 2:late[0].lineno]):
                found.append(f"{file.name}:{late[0].lineno}")
    return found


def made(tmp_path, **texts) -> Path:
    package = tmp_path / "p"
    package.mkdir()
    for name, text in {"__init__": "", **texts}.items():
        (package / f"{name}.py").write_text(text)
    return package


def test_no_module_needs_itself():
    assert check_cycles(PACKAGE) > 100


def test_a_cycle_is_found_even_through_an_import_inside_a_function(tmp_path):
    """That the check can fail."""
    package = made(tmp_path, a="from p import b\n", b="from p.c import x\n", c="def f():\n    import p.a\n")
    with pytest.raises(graphlib.CycleError) as error:
        check_cycles(package)
    assert {"p.a", "p.b", "p.c"} == set(error.value.args[1])
    (package / "c.py").write_text("x = 1\n")
    assert check_cycles(package) == 2


def test_an_import_inside_a_function_says_why():
    assert late_without_reason(PACKAGE) == []


def test_a_late_import_without_a_reason_is_found(tmp_path):
    text = "def f():\n    {}import json\n    return json\n"
    assert late_without_reason(made(tmp_path, a=text.format(""), b=text.format("# it is slow\n    "))) == ["a.py:2"]


def test_files_stay_readable():
    long = {f.name: n for f in PACKAGE.rglob("*.py") if (n := f.read_text().count("\n")) > 400}
    assert not long
