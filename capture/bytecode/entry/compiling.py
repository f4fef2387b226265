"""One thread compiles at a time: torch's tracers keep state that all threads share."""

from __future__ import annotations

import os
import threading

__all__ = ["compiling"]


class _Compiling:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        os.register_at_fork(after_in_child=self._unlock)

    def _unlock(self) -> None:
        self.lock = threading.RLock()  # the thread that held it is not in the child


compiling = _Compiling()
