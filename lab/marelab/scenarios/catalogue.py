"""All scenarios, in the study's order."""

from marelab import published
from marelab.errors import LabError
from marelab.scenarios import Scenario, codeblocks, desktop, media, servers

ALL: dict[str, Scenario] = {s.name: s for s in sorted([*servers.SCENARIOS, *codeblocks.SCENARIOS, *desktop.SCENARIOS, *media.SCENARIOS],
                                                      key=lambda s: list(published.programs()).index(s.name))}


def named(name: str) -> Scenario:
    if name not in ALL:
        raise LabError(f"no scenario '{name}'; there are {', '.join(ALL)}")
    return ALL[name]
