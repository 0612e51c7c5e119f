"""Code::Blocks: it starts under Xvfb and loads a workspace of some 12 MB of C++, as the study's did with its own source.

It ends by itself because it is told to build a target that holds no file: it loads the whole workspace, builds nothing, and quits. Its settings say that compilers
were looked for before: the window that asks about them at a first start would wait for a user.
"""

from pathlib import Path

from marelab.errors import LabError
from marelab.scenarios import Made, Scenario, file, settings

FILES, FUNCTIONS = 400, 150
COMPILERS = Path("/usr/share/codeblocks/compilers")


def sources(place: Path) -> list[Path]:
    found = []
    for i in range(FILES):
        source = place / f"src/m{i // 20}/f{i}.cpp"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(f'#include "f{i}.h"\n' + "".join(
            f"// function {k}\nint C{i}::f{k}(int a, const char *s) {{ int r = a * {k}; for (int j = 0; j < a; j++) r += s[j] ^ {k}; return r; }}\n"
            for k in range(FUNCTIONS)))
        header = source.with_suffix(".h")
        header.write_text(f"#ifndef F{i}\n#define F{i}\nclass C{i} {{\npublic:\n" + "".join(f"  int f{k}(int a, const char *s);\n" for k in range(FUNCTIONS))
                          + "};\n#endif\n")
        found += [source, header]
    return found


def workspace(place: Path) -> Path:
    units = "".join(f'<Unit filename="{f.relative_to(place)}"><Option target="all" /></Unit>\n' for f in sources(place))
    targets = "".join(f'<Target title="{name}"><Option type="{kind}" /><Option compiler="gcc" /></Target>' for name, kind in (("all", 1), ("none", 4)))
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes" ?>\n'
    (place / "p.cbp").write_text(f'{head}<CodeBlocks_project_file><FileVersion major="1" minor="6" /><Project><Option title="p" />'
                                 f'<Option compiler="gcc" /><Build>{targets}</Build>\n{units}</Project></CodeBlocks_project_file>\n')
    path = place / "p.workspace"
    path.write_text(f'{head}<CodeBlocks_workspace_file><Workspace title="w"><Project filename="p.cbp" active="1" /></Workspace></CodeBlocks_workspace_file>\n')
    return path


def compilers_known(home: Path) -> None:
    """A place for every compiler that it has a description of."""
    names = sorted({f.stem.partition("_")[2].lower().replace("-", "_") for f in COMPILERS.glob("*_*.xml") if "_common_" not in f.name})
    if not names:
        raise LabError(f"{COMPILERS} has no compilers: run `tools/setup study` in mare's source folder")
    sets = "".join(f"<{n}><NAME><str><![CDATA[{n}]]></str></NAME><MASTER_PATH><str><![CDATA[/usr]]></str></MASTER_PATH></{n}>" for n in names)
    path = home / ".config/codeblocks/default.conf"
    path.parent.mkdir(parents=True)
    path.write_text('<?xml version="1.0" encoding="UTF-8" standalone="yes" ?>\n<CodeBlocksConfig version="1"><compiler><SETTINGS_VERSION><str><![CDATA[0.0.3]]></str>'
                    f"</SETTINGS_VERSION><sets>{sets}</sets></compiler></CodeBlocksConfig>\n")


def codeblocks(place: Path) -> Made:
    path, before = workspace(place), settings(place)
    compilers_known(place / "home")
    return Made([*before, file("codeblocks"), "--no-splash-screen", "--multiple-instance", "--prefix=/usr", "--build", "--target=none", str(path)],
                about={"megabytes": sum(f.stat().st_size for f in (place / "src").rglob("*.*")) / 1e6, "details": f"{2 * FILES} files of C++"})


SCENARIOS = [Scenario("codeblocks", "Code::Blocks", f"starts under Xvfb, loads a workspace of {2 * FILES} files, and ends", ("codeblocks",), codeblocks, display=True)]
