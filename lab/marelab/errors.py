"""What goes wrong through no fault of the laboratory: the user reads one line that says where and what to do."""


class LabError(Exception):
    """Shown as `mare lab: message`. `code` becomes the exit code: 2 for bad input, 1 for a measurement that failed."""

    def __init__(self, message: str, code: int = 2):
        super().__init__(message)
        self.code = code


class Terminated(KeyboardInterrupt):
    """SIGTERM, as `timeout`, CI and systemd send it: everything is ended and kept as after Ctrl-C."""
