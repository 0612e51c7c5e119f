"""Something that looks again and again, in a thread of its own, while the code of a `with` block runs. After it no look is under way."""

import threading


class Beside:
    """A subclass says what a look is."""

    def __init__(self, every: float):
        self.every, self.stop = every, threading.Event()
        self.thread = threading.Thread(target=self.loop, daemon=True)

    def look(self) -> None:
        raise NotImplementedError

    def loop(self) -> None:
        while not self.stop.wait(self.every):
            self.look()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
