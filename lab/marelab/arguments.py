"""The parser of a subcommand's options. A mistake is one line that says what was meant, as every other error of the laboratory is."""

import argparse
import difflib
import re

from marelab.errors import LabError

KINDS = {"float": "number", "int": "whole number"}


class Parser(argparse.ArgumentParser):
    def __init__(self, name: str, what: str, command):
        """`command` is the subcommand's module. Its HINTS are options that some expect here → what there is in their place."""
        super().__init__(prog=f"mare lab {name}", description=f"{what}.", epilog=getattr(command, "EPILOG", None), formatter_class=argparse.RawDescriptionHelpFormatter)
        self.name, self.hints = name, getattr(command, "HINTS", {})
        command.add_arguments(self)

    def error(self, message: str):
        message = re.sub(r"invalid (float|int) value: ('.*')$", lambda m: f"{m[2]} is no {KINDS[m[1]]}", message)
        raise LabError(f"{self.name}: {message}{self.meant(message)}; `{self.prog} --help` tells all options")

    def meant(self, message: str) -> str:
        """Of an option that doesn't exist, what was probably meant."""
        unknown = re.match(r"unrecognized arguments: (--[\w-]+)", message)
        if not unknown:
            return ""
        near = difflib.get_close_matches(unknown[1], [o for a in self._actions for o in a.option_strings], 1)
        hint = self.hints.get(unknown[1]) or (f"did you mean {near[0]}?" if near else "")
        return f"; {hint}" if hint else ""
