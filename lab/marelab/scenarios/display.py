"""An X server without a screen, for the time of a `with` block. It picks a free number itself, so that others may run beside it."""

import contextlib
import os
import subprocess

from marelab.errors import LabError
from marelab.scenarios import file


@contextlib.contextmanager
def virtual():
    """DISPLAY names it in the environment of what is started meanwhile."""
    reading, writing = os.pipe()
    with open(reading) as said:
        try:
            server = subprocess.Popen([file("Xvfb"), "-displayfd", str(writing), "-screen", "0", "1280x1024x24", "-nolisten", "tcp"], pass_fds=(writing,),
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        finally:
            os.close(writing)
        before = os.environ.get("DISPLAY")
        try:
            number = said.readline().strip()  # empty where it ended
            if not number:
                raise LabError("Xvfb did not start", code=1)
            os.environ["DISPLAY"] = f":{number}"
            yield
        finally:
            if before is None:
                os.environ.pop("DISPLAY", None)
            else:
                os.environ["DISPLAY"] = before
            server.terminate()
            server.wait()
