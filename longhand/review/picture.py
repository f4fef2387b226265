"""The lock's picture of the plan, read: passes, steps and buffers as values. Of an old lock there is none.

`emit.unit.picture` writes it and `lock_schema` has checked its types; names that do not fit together (a lock may be a
stranger's) are left out here, so that what is drawn is always drawable.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from longhand.emit.unit.picture import SAVED, VERSION

_ITEMSIZE = re.compile(r"(\d+)")
_MOST_BYTES = 2**60
MOST_RUNS = 1_000


@dataclasses.dataclass(frozen=True)
class DrawnBuffer:
    """A buffer.

    Attributes:
        name: The variable that holds it, numbered where it held several.
        dtype: ``float32``.
        shape: At the example's sizes.
        kind: ``input``, ``weight``, ``constant``, ``intermediate``, or ``saved``: a forward pass made it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    kind: str

    @property
    def n_bytes(self) -> int:
        """What it takes."""
        match = _ITEMSIZE.search(self.dtype)
        bits = 8 if self.dtype == "bool" or match is None else int(match[1])
        bits *= (
            2 if self.dtype.startswith("complex") and match is not None and self.dtype == "complex32" else 1
        )
        return min(_MOST_BYTES, math.prod(self.shape) * max(1, bits // 8))

    @property
    def is_made(self) -> bool:
        """Whether the unit makes its memory."""
        return self.kind == "intermediate"

    @property
    def is_saved(self) -> bool:
        """Whether a forward pass made it."""
        return self.kind == SAVED


@dataclasses.dataclass(frozen=True)
class DrawnWork:
    """A step that computes: the launch of a kernel, or a library's call.

    Attributes:
        kernel: The kernel; empty for a library's.
        call: ``aten.linear``; empty for a kernel's.
        reads, writes: Names of buffers.
        n_bytes: Read and written, each element once.
        quotes: The statements that it does.
        groups: Over how many groups of tensors it goes at once.
        reason: Why a library does it, where that is not that it does it best.
    """

    kernel: str
    call: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    n_bytes: int
    quotes: tuple[str, ...]
    groups: int
    reason: str


@dataclasses.dataclass(frozen=True)
class Make:
    """Memory for a buffer: its own, or that of another which nothing reads any more."""

    name: str
    of: str


@dataclasses.dataclass(frozen=True)
class Drop:
    """Memory that ends here."""

    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Again:
    """Runs of one function, of which one is told.

    Attributes:
        paths: The modules, run by run.
        gives: What a run leaves to the steps after it.
        follows: By what a run takes: what the run before it gives for that.
        begins: By what the run that is told takes: what the first takes for that, where it is another.
        ends: By what later steps read of the last run: what it is called in the run that is told.
        varies: Whether some of them do a part of it otherwise.
        steps: Of one run.
    """

    paths: tuple[str, ...]
    gives: tuple[str, ...]
    follows: Mapping[str, str]
    begins: Mapping[str, str]
    ends: Mapping[str, str]
    varies: bool
    steps: tuple[DrawnWork | Make | Drop, ...]


Step = DrawnWork | Make | Drop | Again


@dataclasses.dataclass(frozen=True)
class Refused:
    """Why two launches are not one; each is named by what it writes first."""

    first: str
    second: str
    verdict: str
    reason: str


@dataclasses.dataclass(frozen=True)
class PassPicture:
    """One pass: the forward, or the backward."""

    tensors: Mapping[str, DrawnBuffer]
    steps: tuple[Step, ...]
    results: frozenset[str]
    refusals: tuple[Refused, ...]
    n_left_out: int

    @property
    def work(self) -> Iterator[tuple[DrawnWork, int]]:
        """What computes, in order, and how often; of a repeat once."""
        for step in self.steps:
            if isinstance(step, DrawnWork):
                yield step, 1
            elif isinstance(step, Again):
                yield from ((inner, len(step.paths)) for inner in step.steps if isinstance(inner, DrawnWork))


@dataclasses.dataclass(frozen=True)
class Picture:
    """What the plan was.

    Attributes:
        passes: The forward, and in training the backward.
        lines: By kernel, and by a word of its file: the statements behind the line that makes that.
    """

    passes: tuple[PassPicture, ...]
    lines: Mapping[str, Mapping[str, tuple[str, ...]]]


def read_picture(lock: Mapping[str, Any]) -> Picture:
    """What a lock that was checked says; nothing where it is older, or a later longhand's."""
    picture = lock.get("picture") or {}
    if picture.get("version") != VERSION:
        return Picture((), {})
    return Picture(
        tuple(map(_pass, picture.get("passes", ()))),
        {
            kernel: {word: tuple(quotes) for word, quotes in words.items()}
            for kernel, words in picture.get("kernels", {}).items()
        },
    )


def _pass(told: Mapping[str, Any]) -> PassPicture:
    tensors = {name: _tensor(name, text) for name, text in told.get("buffers", {}).items()}
    steps = [_step(step, tensors) for step in told.get("steps", ())]
    refusals = [
        Refused(*(str(one.get(key, "")) for key in ("first", "second", "verdict", "reason")))
        for one in told.get("refusals", ())
    ]
    return PassPicture(
        tensors,
        tuple(steps),
        frozenset(told.get("results", ())),
        tuple(refusals),
        sum(told.get("left_out", {}).values()),
    )


def _tensor(name: str, text: str) -> DrawnBuffer:
    """``float32 (4, 512) weight``"""
    dtype, _, rest = text.partition(" (")
    sizes, _, kind = rest.partition(") ")
    return DrawnBuffer(
        name, dtype, tuple(int(size) for size in sizes.split(", ") if size.strip().isdigit()), kind
    )


def _step(told: Mapping[str, Any], tensors: Mapping[str, DrawnBuffer]) -> Step:
    if "repeat" not in told:
        return _plain(told, tensors)

    def known(names: Mapping[str, str]) -> dict[str, str]:
        return {one: other for one, other in names.items() if one in tensors and other in tensors}

    return Again(
        tuple(told["repeat"][:MOST_RUNS]),
        tuple(name for name in told.get("gives", ()) if name in tensors),
        known(told.get("next", {})),
        known(told.get("begins", {})),
        known(told.get("ends", {})),
        told.get("varies", False),
        tuple(_plain(step, tensors) for step in told.get("steps", ())),
    )


def _plain(told: Mapping[str, Any], tensors: Mapping[str, DrawnBuffer]) -> DrawnWork | Make | Drop:
    def known(names: Any) -> tuple[str, ...]:
        return tuple(name for name in names if name in tensors)

    if "drop" in told:
        return Drop(known(told["drop"]))
    if "make" in told:
        return Make(told["make"], told.get("of", "")) if told["make"] in tensors else Drop(())
    return DrawnWork(
        told.get("kernel", ""),
        told.get("call", ""),
        known(told.get("reads", ())),
        known(told.get("writes", ())),
        told.get("bytes", 0),
        tuple(told.get("quotes", ())),
        told.get("groups", 1),
        told.get("reason", ""),
    )
