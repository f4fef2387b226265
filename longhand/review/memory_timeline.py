"""The memory that a unit makes in one call, step by step: what lives when, and where the peak is.

Walked is the plan of the lock, repeats run by run. Memory begins where it is made. It ends where model.py drops it,
when its variable is bound anew, or at the end of the function that holds it. A layer's function hands on what it gives;
what it was given by the layer before it ends with it, and so does, in a backward pass, what the forward pass saved for
that layer. Inputs and weights are the caller's and not counted, nor what a library takes for itself; sizes are those of
the example.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from longhand.review.picture import Again, DrawnWork, Drop, Make, PassPicture

MOST_MOMENTS = 20_000
_NUMBER = re.compile(r" \(\d+\)$")


@dataclasses.dataclass(frozen=True)
class Bar:
    """One piece of memory.

    Attributes:
        names: What it held, in turn.
        n_bytes: How much it is.
        first, last: The moments at which it begins and after which it ends.
        part: The module whose layer made it; empty outside of layers.
    """

    names: tuple[str, ...]
    n_bytes: int
    first: int
    last: int
    part: str


@dataclasses.dataclass(frozen=True)
class Timeline:
    """One pass.

    Attributes:
        moments: What happens, in words, one after the other.
        live: Bytes that live at each moment.
        bars: In the order in which they begin.
        held: Bytes that live when it is over.
    """

    moments: tuple[str, ...]
    live: tuple[int, ...]
    bars: tuple[Bar, ...]
    held: int

    @property
    def peak(self) -> int:
        """The most bytes that live at once."""
        return max(self.live, default=0)

    @property
    def peak_at(self) -> int:
        """The first moment of the peak."""
        return self.live.index(self.peak) if self.live else 0


@dataclasses.dataclass
class _MemoryPiece:
    """A piece of memory while the walk goes on."""

    names: list[str]
    n_bytes: int
    first: int
    part: str
    last: int | None = None


class _TimelineWalk:
    """Walks one pass."""

    def __init__(self, drawn: PassPicture, held_before: int) -> None:
        self.drawn = drawn
        self.moments: list[str] = []
        self.live: list[int] = []
        self.memory: list[_MemoryPiece] = []
        self.holds: dict[str, _MemoryPiece] = {}  # by buffer
        self.made: set[str] = set()  # buffers that this function has made so far, and those that it was given
        self.variables: dict[str, _MemoryPiece] = {}  # of this function
        self.replaced: list[_MemoryPiece] = []  # what variables held that the next step binds anew
        self.now = held_before
        for name, tensor in drawn.tensors.items():
            if tensor.is_saved and not self._is_read_in_runs(name):
                self.holds[name] = self._begin(name, "", is_counted=False)
        self.walk(drawn.steps, "")

    def _is_read_in_runs(self, name: str) -> bool:
        return any(
            isinstance(inner, DrawnWork) and name in inner.reads
            for step in self.drawn.steps
            if isinstance(step, Again)
            for inner in step.steps
        )

    def _begin(self, name: str, part: str, *, is_counted: bool = True) -> _MemoryPiece:
        one = _MemoryPiece([name], self.drawn.tensors[name].n_bytes, len(self.moments), part)
        self.memory.append(one)
        self.now += one.n_bytes if is_counted else 0
        return one

    def _end(self, one: _MemoryPiece) -> None:
        if one.last is None:
            one.last = max(one.first, len(self.moments) - 1)
            self.now -= one.n_bytes

    def _bind(self, name: str, one: _MemoryPiece) -> None:
        """A variable holds this memory now; what it held before ends with the step, if nothing else holds it."""
        self.holds[name] = one
        self.made.add(name)
        word = _NUMBER.sub("", name)
        before = self.variables.get(word)
        self.variables[word] = one
        if before is not None and all(other is not before for other in self.variables.values()):
            self.replaced.append(before)

    def _tell(self, text: str) -> None:
        self.moments.append(text)
        self.live.append(self.now)
        self._end_replaced()

    def _end_replaced(self) -> None:
        for one in self.replaced:
            if not self.drawn.results.intersection(one.names):
                self._end(one)
        self.replaced = []

    def walk(self, steps: Sequence[DrawnWork | Make | Drop | Again], part: str) -> None:
        """Goes through steps, of the pass or of a run."""
        for step in steps:
            if len(self.moments) >= MOST_MOMENTS:
                return
            match step:
                case Again():
                    self._runs(step)
                case Make(name=name, of=of):
                    if of in self.holds:
                        self.holds[of].names.append(name)
                        self._bind(name, self.holds[of])
                    else:
                        self._bind(name, self._begin(name, part))
                case Drop(names=names):
                    for name in names:
                        if name in self.holds:
                            self._end(self.holds[name])
                case DrawnWork():
                    for name in step.writes:  # what nobody made is a library's result
                        if name not in self.made and self.drawn.tensors[name].is_made:
                            self._bind(name, self._begin(name, part))
                    self._tell(step.kernel or step.call)

    def _runs(self, again: Again) -> None:
        self.holds |= {name: self.holds[one] for name, one in again.begins.items() if one in self.holds}
        outside, made, variables = set(self.holds), self.made, self.variables
        kept = {*again.gives}
        for path in again.paths:
            self.made, self.variables = {*outside, *made}, {}
            first = len(self.memory)
            saved = self._saved_for(again, path)
            self.walk(again.steps, path)
            given = {id(self.holds[name]) for name in kept if name in self.holds}
            for one in self.memory[first:]:
                if id(one) not in given:
                    self._end(one)
            for one in saved:
                self._end(one)
            for taken, name in again.follows.items():
                before = self.holds.get(taken)
                if before is not None and id(before) not in given and not self._is_wanted(before, again):
                    self._end(before)
                if name in self.holds:
                    self.holds[taken] = self.holds[name]
            # The next run makes its own.
            self.holds = {
                name: one
                for name, one in self.holds.items()
                if name in outside or name in kept or name in again.follows
            }
        self.holds |= {name: self.holds[one] for name, one in again.ends.items() if one in self.holds}
        self.made, self.variables = {*made, *kept, *again.ends}, variables
        if not again.follows:  # else each run has replaced what the one before it gave
            for name in again.gives:
                if name in self.holds and name not in self.drawn.results:
                    self._bind(name, self.holds[name])
            self._end_replaced()

    def _saved_for(self, again: Again, part: str) -> list[_MemoryPiece]:
        """What the forward pass saved for this run: it lives already."""
        read = {name for step in again.steps if isinstance(step, DrawnWork) for name in step.reads}
        saved = [name for name in sorted(read) if self.drawn.tensors[name].is_saved]
        pieces = [self._begin(name, part, is_counted=False) for name in saved]
        for one in pieces:
            one.first = 0
        return pieces

    def _is_wanted(self, one: _MemoryPiece, again: Again) -> bool:
        """Whether what the runs take is a result, or read by a later step."""
        if self.drawn.results.intersection(one.names):
            return True
        after = self.drawn.steps[self.drawn.steps.index(again) + 1 :]
        return any(isinstance(step, DrawnWork) and set(one.names) & set(step.reads) for step in after)


def timeline_of(drawn: PassPicture, held_before: int = 0) -> Timeline:
    """What lives when.

    Args:
        drawn: The pass.
        held_before: Bytes that live when it begins: what the forward pass left.
    """
    walk = _TimelineWalk(drawn, held_before)
    last = len(walk.moments) - 1
    held = walk.now
    bars = []
    for one in walk.memory:
        if one.last is None and not drawn.results.intersection(one.names):
            held -= one.n_bytes
        end = last if one.last is None else one.last
        bars.append(Bar(tuple(one.names), one.n_bytes, one.first, end, one.part))
    return Timeline(tuple(walk.moments), tuple(walk.live), tuple(bars), held)
