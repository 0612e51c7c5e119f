"""Results as a JUnit report, which CI systems show."""

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from marelab import output


@dataclass(frozen=True)
class Case:
    """`problem`: failure, skipped or error; None when it passed. `message` says it in a sentence, `text` holds the figures."""

    name: str
    problem: str | None
    message: str
    text: str


def write(path: str, suite: str, cases: list[Case]) -> None:
    counts = {kind: str(sum(c.problem == kind for c in cases)) for kind in ("failure", "skipped", "error")}
    root = ElementTree.Element("testsuite", name=f"mare lab {suite}", tests=str(len(cases)), failures=counts["failure"], skipped=counts["skipped"],
                               errors=counts["error"])
    for c in cases:
        case = ElementTree.SubElement(root, "testcase", classname=suite, name=c.name)
        if c.problem:
            ElementTree.SubElement(case, c.problem, message=c.message)
        ElementTree.SubElement(case, "system-out").text = c.text
    output.write(Path(path), ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n")
