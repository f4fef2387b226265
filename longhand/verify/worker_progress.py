"""What a worker process is doing, told to the one that waits for it: a line in a pipe for each step."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator

_VARIABLE = "LONGHAND_PROGRESS_FD"
Tell = Callable[[str, int, int], None]  # (what, steps done, steps)


def no_progress(what: str, done: int, total: int) -> None:
    """Tells nobody."""


def tell(what: str, done: int, total: int) -> None:
    """In a worker: tells whoever started it, if they listen."""
    with contextlib.suppress(ValueError, OSError):
        os.write(int(os.environ.get(_VARIABLE, "")), json.dumps([what, done, total]).encode() + b"\n")


class Listener:
    """Where a worker's steps arrive.

    Args:
        heard: Is told each.

    Attributes:
        last: What the worker was doing when last heard of; empty before.
    """

    def __init__(self, heard: Tell) -> None:
        self.last = ""
        self._heard = heard

    @contextlib.contextmanager
    def pipe(self, environment: dict[str, str]) -> Iterator[int]:
        """The descriptor that the worker must inherit; its number is put into `environment`."""
        reading, writing = os.pipe()
        environment[_VARIABLE] = str(writing)
        thread = threading.Thread(target=self._read, args=(reading,), daemon=True)
        thread.start()
        try:
            yield writing
        finally:
            os.close(writing)
            thread.join(timeout=1.0)  # what the worker left behind may hold the pipe open

    def _read(self, descriptor: int) -> None:
        with open(descriptor, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                with contextlib.suppress(ValueError, TypeError):
                    what, done, total = json.loads(line)
                    self.last = str(what)
                    self._heard(self.last, int(done), int(total))
