"""The steps while they are being fused: a dependency graph whose order stays topological under merging."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from longhand.lower.ir import Step
from longhand.schedule.dependencies import effects, predecessors


class StepGraph:
    """Steps by number, in an order that respects the dependencies. A merged or replaced step gets a new number.

    Attributes:
        steps: By number.
        before: For each step the steps it must wait for.
        after: The reverse.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps: dict[int, Step] = dict(enumerate(steps))
        self.before: dict[int, set[int]] = dict(enumerate(predecessors(steps)))
        self.after: dict[int, set[int]] = {number: set() for number in self.steps}
        for number, waits in self.before.items():
            for other in waits:
                self.after[other].add(number)
        self._order: list[int | None] = list(range(len(steps)))
        self._place: dict[int, int] = {number: number for number in self.steps}
        self._next = len(steps)
        self._readers: dict[str, set[int]] = {}
        self._writers: dict[str, set[int]] = {}
        for number in self.steps:
            self._index(number)

    def ordered(self) -> list[Step]:
        """The steps in order."""
        return [self.steps[number] for number in self._order if number is not None]

    def numbers(self) -> list[int]:
        """The numbers of the steps in order."""
        return [number for number in self._order if number is not None]

    def walk_back(self) -> Iterator[int]:
        """The steps from the last to the first, while they may be replaced or removed."""
        for place in reversed(range(len(self._order))):
            number = self._order[place]
            if number is not None:
                yield number

    def readers(self, buffer: str) -> list[int]:
        """The steps that read a buffer, in order."""
        return self.in_order(self._readers.get(buffer, ()))

    def writers(self, buffer: str) -> list[int]:
        """The steps that write a buffer, in order."""
        return self.in_order(self._writers.get(buffer, ()))

    def in_order(self, numbers: Iterable[int]) -> list[int]:
        """The numbers sorted by place."""
        return sorted(numbers, key=self._place.__getitem__)

    def place(self, number: int) -> int:
        """Where a step stands; only comparisons mean something."""
        return self._place[number]

    def between(self, first: int, second: int) -> int | None:
        """A step that must run after `first` and before `second`, if there is one: then they cannot be one step."""
        steps = self._descendants(first, second) & self.before[second]
        return min(steps, key=self._place.__getitem__) if steps else None

    def merge(self, first: int, second: int, step: Step) -> int:
        """Puts `step` in the place of two; `first` stands before `second` and nothing must run between them."""
        later = self._descendants(first, second)
        start, end = self._place[first], self._place[second]
        new = self._next
        self._next += 1
        region = [n for n in self._order[start : end + 1] if n is not None and n not in (first, second)]
        early = [n for n in region if n not in later]
        late = [n for n in region if n in later]
        filled: list[int | None] = [*early, new, *late]
        filled += [None] * (end + 1 - start - len(filled))
        self._order[start : end + 1] = filled
        for offset, number in enumerate(filled):
            if number is not None:
                self._place[number] = start + offset
        before = (self.before[first] | self.before[second]) - {first, second}
        after = (self.after[first] | self.after[second]) - {first, second}
        self._forget(first)
        self._forget(second)
        self._add(new, step, before, after)
        return new

    def replace(self, number: int, step: Step, also_after: Iterable[int] = ()) -> int:
        """Puts `step` in the place of one; it waits for `also_after`, which stand before it, as well."""
        new = self._next
        self._next += 1
        before, after = self.before[number] | set(also_after), set(self.after[number])
        place = self._place[number]
        self._forget(number)
        self._order[place] = new
        self._place[new] = place
        self._add(new, step, before, after)
        return new

    def remove(self, number: int) -> None:
        """Takes out a step that nothing waits for any more; what waited for its order waits for what it waited for."""
        before, after = self.before[number], self.after[number]
        for later in after:
            self.before[later] |= before
        for earlier in before:
            self.after[earlier] |= after
        self._order[self._place[number]] = None
        self._forget(number)

    def _descendants(self, first: int, second: int) -> set[int]:
        """What must run after `first` among the steps that stand before `second`."""
        limit = self._place[second]
        descendants: set[int] = set()
        stack = [number for number in self.after[first] if self._place[number] < limit]
        while stack:
            number = stack.pop()
            if number not in descendants:
                descendants.add(number)
                stack += [later for later in self.after[number] if self._place[later] < limit]
        return descendants

    def _add(self, number: int, step: Step, before: set[int], after: set[int]) -> None:
        self.steps[number] = step
        self.before[number] = before
        self.after[number] = after
        for other in before:
            self.after[other].add(number)
        for other in after:
            self.before[other].add(number)
        self._index(number)

    def _index(self, number: int) -> None:
        touched = effects(self.steps[number])
        for buffer in touched.reads:
            self._readers.setdefault(buffer, set()).add(number)
        for buffer in touched.writes:
            self._writers.setdefault(buffer, set()).add(number)

    def _forget(self, number: int) -> None:
        touched = effects(self.steps[number])
        for buffer in touched.reads:
            self._readers[buffer].discard(number)
        for buffer in touched.writes:
            self._writers[buffer].discard(number)
        for other in self.before.pop(number):
            self.after[other].discard(number)
        for other in self.after.pop(number):
            self.before[other].discard(number)
        del self.steps[number], self._place[number]
