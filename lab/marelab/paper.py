"""`mare lab paper`: the published study's tables 4.1 to 4.23 and 5.1 to 5.7, made again from our own results, beside the published values.

Chapter 4's come from the recordings of `mare lab scenario`, chapter 5's from a study of its factors (`mare lab study preset` or `chapter5`). A table is rows of
named cells, published and ours in turn; what must be known to read them is in its notes. Nothing is filled in: what was not measured stays empty.
"""

from dataclasses import dataclass, field
from pathlib import Path

from marelab import output, paper_chapter4, paper_chapter5, published
from marelab.errors import LabError
from marelab.paper_table import Table

EPILOG = """  mare lab paper          which tables there are, and which can be made now
  mare lab paper 4.5      the table, made again, beside the published one
  mare lab paper all      all that can be made

Tables of chapter 4 are made from `mare lab scenario NAME`, those of chapter 5 from `mare lab study preset` (or chapter5).
"""


def add_arguments(parser) -> None:
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="its number in the study, as in 4.5; all: every one that can be made")
    parser.add_argument("--programs", metavar="DIR", default="study-programs", help="the folder of `mare lab scenario` (default: study-programs)")
    parser.add_argument("--study", metavar="DIR", help="the folder of a study of chapter 5's factors (default: study-chapter5 or study-preset)")
    parser.add_argument("--json", action="store_true", help="JSON on standard output")


@dataclass
class Sources:
    """Where our results are. What was read is kept."""

    programs: Path
    study: Path
    kept: dict = field(default_factory=dict)


MAKERS = paper_chapter4.MAKERS | paper_chapter5.MAKERS


def sources(args) -> Sources:
    study = args.study or next((d for d in ("study-chapter5", "study-preset") if Path(d, "study.json").exists()), "study-preset")
    return Sources(Path(args.programs), Path(study))


def make(number: str, at: Sources) -> Table:
    if number not in MAKERS:
        raise LabError(f"no table {number}: there are 4.1 to 4.23 and 5.1 to 5.7")
    return MAKERS[number].make(number, at)


def lacking(number: str, at: Sources) -> str | None:
    """What to do before a table can be made; None where it can."""
    maker = MAKERS[number]
    try:
        (maker.needs or maker.make)(number, at)
    except LabError as error:
        return str(error)
    return None


def run(args) -> int:
    at = sources(args)
    if not args.tables:
        found = [{"table": n, "title": m.title, "lacking": lacking(n, at)} for n, m in MAKERS.items()]
        print(output.text(found) if args.json else listing(found))
        return 0
    numbers = [n for n in MAKERS if lacking(n, at) is None] if args.tables == ["all"] else args.tables
    found = [make(n, at) for n in numbers]
    if args.json:
        print(output.text([t.data() for t in found] if args.tables == ["all"] or len(found) > 1 else found[0].data()))
    else:
        print("\n\n".join(t.text() for t in found))
    return 0


def listing(found: list[dict]) -> str:
    lines = [f"The tables of chapters 4 and 5 ({published.study()['source']}). Marked * are those that can be made now."]
    for f in found:
        lines.append(f"{'' if f['lacking'] else '*':<2}{f['table']:<6}{f['title']}")
    missing = dict.fromkeys(f["lacking"].rpartition(": ")[2] for f in found if f["lacking"])
    return "\n".join([*lines, *(["", "For the others:"] if missing else []), *(f"  {m}" for m in missing)])
