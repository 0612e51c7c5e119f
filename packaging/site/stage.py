"""stage.py ROOT TARGET: lays the site's pages into TARGET/source, and TARGET/mkdocs.yml with their navigation.

The pages are those of the repository, at the same places, so that links between them stay as they are. A file of another kind that a page
links to becomes a page which shows it; a link to a folder leads to a list of its files. The navigation is docs/index.md: its headings, and under each
the pages in the order in which it links to them. So there is nothing here to keep in step.
"""
import os
import re
import shutil
import sys
from pathlib import Path

import yaml

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s:#]+)(#[^)\s]*)?\)")
KINDS = {".lua": "lua", ".c": "c", ".h": "c", ".toml": "toml", ".py": "python", ".idl": "idl", ".json": "json"}


def shown(path: Path, root: Path) -> str:
    """The page that stands for a file which is no page, or for a folder."""
    name = path.relative_to(root)
    if path.is_dir():
        rows = [f"- [{f.name}]({f.name}.md)" for f in sorted(path.iterdir()) if f.is_file() and f.suffix in KINDS]
        return f"# {name}\n\n" + "\n".join(rows) + "\n"
    text = path.read_text(encoding="utf-8")
    fence = "`" * max(3, 1 + max((len(m) for m in re.findall(r"`+", text)), default=0))
    return f"# {name.name}\n\n{fence}{KINDS.get(path.suffix, 'text')}\n{text}{fence}\n"


class Stage:
    def __init__(self, root: Path, target: Path):
        self.root, self.source = root, target / "source"
        self.laid: set[Path] = set()

    def lay(self, name: Path) -> None:
        """One page, and whatever it links to."""
        if name in self.laid:
            return
        self.laid.add(name)
        path = self.root / name
        place = self.source / self.place(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            place.write_text(self.relinked(path.read_text(encoding="utf-8"), name), encoding="utf-8")
            return
        if path.suffix in (".png", ".svg", ".gif"):
            shutil.copy(path, place)
            return
        page = shown(path, self.root)
        place.write_text(page, encoding="utf-8")
        if path.is_dir():
            for file in LINK.findall(page):
                self.lay(name / file[1].removesuffix(".md"))

    def place(self, name: Path) -> Path:
        """Where the page of a file lies. The README is the front page."""
        path = self.root / name
        if name == Path("README.md"):
            return Path("index.md")
        if path.is_dir():
            return name / "index.md"
        return name if path.suffix in (".md", ".png", ".svg", ".gif") else name.with_name(name.name + ".md")

    def relinked(self, text: str, name: Path) -> str:
        def link(match: re.Match) -> str:
            words, to, anchor = match[1], match[2], match[3] or ""
            there = Path(os.path.normpath(name.parent / to))
            if not (self.root / there).exists():
                return match[0]  # mkdocs says that it leads nowhere
            self.lay(there)
            return f"[{words}]({os.path.relpath(self.place(there), self.place(name).parent)}{anchor})"

        out, code = [], False
        for line in text.split("\n"):
            if line.lstrip().startswith("```"):
                code = not code
            if not code:
                line = re.sub(r"(`[^`]*`)|" + LINK.pattern, lambda m: m[0] if m[1] else link(LINK.match(m[0])), line)
            # "lua fragment" is a word for our tests
            out.append(re.sub(r"^(\s*```\w+) fragment$", r"\1", line))
        return "\n".join(out)

    def images(self) -> None:
        for name in list(self.laid):
            if name.suffix == ".md":
                for to in re.findall(r"(?:!\[[^\]]*\]\(|src=\")([^)\"\s:]+)", (self.root / name).read_text(encoding="utf-8")):
                    there = Path(os.path.normpath(name.parent / to))
                    if (self.root / there).is_file():
                        self.lay(there)


def navigation(index: str, stage: Stage) -> list:
    """The headings of docs/index.md with the pages below each, every page once."""
    nav: list = [{"mare": "index.md"}]
    seen = {"docs/index.md", "index.md"}
    pages: list = []
    for line in index.split("\n"):
        if line.startswith("## "):
            pages = []
            nav.append({line[3:]: pages})
        for words, to, _ in LINK.findall(line):
            name = Path(os.path.normpath(Path("docs") / to))
            place = str(stage.place(name))
            if (stage.root / name).exists() and place not in seen and len(nav) > 1:
                seen.add(place)
                pages.append({words.replace("`", ""): place})
    nav.append({"All pages": "docs/index.md"})
    return [entry for entry in nav if list(entry.values())[0]]


def main() -> None:
    root, target = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    shutil.rmtree(target / "source", ignore_errors=True)
    stage = Stage(root, target)
    stage.lay(Path("README.md"))
    for page in sorted((root / "docs").glob("**/*.md")):
        stage.lay(page.relative_to(root))
    stage.images()
    here = Path(__file__).parent
    shutil.copy(here / "site.css", stage.source)
    index = (root / "docs/index.md").read_text(encoding="utf-8")
    written = yaml.safe_dump({"nav": navigation(index, stage)}, allow_unicode=True, sort_keys=False)
    (target / "mkdocs.yml").write_text((here / "mkdocs.yml").read_text(encoding="utf-8") + written, encoding="utf-8")


main()
