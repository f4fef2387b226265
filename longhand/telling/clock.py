"""How long each stage of a compilation took, and how much of it was spent inside SymPy and black."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Iterator

_WATCHED = ("sympy", "black")
_SAMPLE_EVERY = 0.002  # seconds


@dataclasses.dataclass(frozen=True)
class Timings:
    """Seconds.

    Attributes:
        stages: (stage, seconds) in the order they ran.
        shares: (library, seconds), estimated by sampling; empty unless asked for.
    """

    stages: tuple[tuple[str, float], ...]
    shares: tuple[tuple[str, float], ...] = ()

    @property
    def total(self) -> float:
        """All stages together."""
        return sum(seconds for _, seconds in self.stages)

    def __str__(self) -> str:
        text = ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in self.stages)
        shares = ", ".join(f"{library} {seconds:.2f} s" for library, seconds in self.shares)
        return f"{text} (of which {shares})" if shares else text


class Clock:
    """Measures named stages, one after the other.

    Args:
        sample: Also look, every few milliseconds and from a second thread, at what the compiling thread is in: the
            only way to a library's share that leaves the code it measures alone.
        listener: Is told what is being done: ``schedule``, ``compile softmax``.
    """

    def __init__(self, *, sample: bool = False, listener: Callable[[str], None] | None = None) -> None:
        self._stages: dict[str, float] = {}
        self._sample = sample
        self._listener = listener
        self._stage = ""
        self._hits = dict.fromkeys(_WATCHED, 0)
        self._n_samples = 0

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the time of the block to the stage's."""
        self._stage = name
        self.tell("")
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(threading.get_ident(), done), daemon=True)
        if self._sample:
            watcher.start()
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._stages[name] = self._stages.get(name, 0.0) + time.perf_counter() - begin
            if self._sample:
                done.set()
                watcher.join()

    def tell(self, what: str) -> None:
        """Tells the listener what the stage has done or is about to do."""
        if self._listener is not None:
            self._listener(f"{self._stage} {what}".strip())

    def _watch(self, thread: int, done: threading.Event) -> None:
        while not done.wait(_SAMPLE_EVERY):
            frame = sys._current_frames().get(thread)
            packages = set()
            while frame is not None:
                packages.add(str(frame.f_globals.get("__name__", "")).partition(".")[0])
                frame = frame.f_back
            self._n_samples += 1
            for library in _WATCHED:
                self._hits[library] += library in packages

    def timings(self) -> Timings:
        """What was measured so far."""
        total = sum(self._stages.values())
        shares = tuple(
            (library, total * hits / max(1, self._n_samples)) for library, hits in self._hits.items()
        )
        return Timings(tuple(self._stages.items()), shares if self._sample else ())
