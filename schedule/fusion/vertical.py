"""Which nests become one: greedily by bytes saved, along shared buffers only, with a reason for each refusal."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterator, Mapping, Sequence

from longhand.lower.ir import Buffer, Nest, Step
from longhand.schedule.bodies import loads, origins, reduced_axes, stores, without_stores
from longhand.schedule.dependencies import effects
from longhand.schedule.fusion.joining import absorb, join
from longhand.schedule.fusion.profit import (
    Hint,
    absorb_problem,
    body_signature,
    bytes_read,
    merge_problem,
    repeats_work,
    splits_columns,
    takeover_problem,
    whole,
)
from longhand.schedule.fusion.recomputation import Recomputation, only
from longhand.schedule.fusion.step_graph import StepGraph
from longhand.schedule.plan import Refusal, Verdict
from longhand.schedule.simplification import simplify_nest

NEIGHBOURS = 3  # readers of one buffer on each side that are considered as partners
REACH = 64  # steps between partners that share only what they read


@dataclasses.dataclass(frozen=True)
class Fused:
    """The outcome of fusion.

    Attributes:
        steps: In an order that respects the dependencies.
        refusals: Pairs considered and left apart, each once.
    """

    steps: tuple[Step, ...]
    refusals: tuple[Refusal, ...]


def fuse(
    steps: Sequence[Step],
    buffers: Mapping[str, Buffer],
    kept: frozenset[str],
    hint: Hint,
    layers: Mapping[str, str] | None = None,
) -> Fused:
    """Fuses nests.

    Args:
        steps: In program order.
        buffers: Of the program.
        kept: Buffers that the caller sees.
        hint: The size at capture of a symbolic size.
        layers: The layer of a list that a node is of: where as much is saved either way, what is of one becomes one.
    """
    fusion = _Fusion(StepGraph(steps), buffers, kept, hint, layers or {})
    fusion.readers.compute_what_is_free()
    fusion.run()
    fusion.readers.compute_besides()
    return Fused(tuple(fusion.graph.ordered()), fusion.lasting_refusals())


class _Fusion:
    """One run of the greedy search."""

    def __init__(
        self,
        graph: StepGraph,
        buffers: Mapping[str, Buffer],
        kept: frozenset[str],
        hint: Hint,
        layers: Mapping[str, str],
    ) -> None:
        self.graph = graph
        self.buffers = buffers
        self.kept = kept
        self.hint = hint
        self.readers = Recomputation(graph, buffers, kept, hint)
        self.refusals: dict[tuple[str, str], Refusal] = {}
        self.bytes = {name: whole(b, hint) * b.dtype.itemsize for name, b in buffers.items()}
        self.layers = layers
        self.read: dict[int, tuple[Nest, dict[str, int]]] = {}
        self.queue: list[tuple[bool, int, bool, int, int]] = []
        self.queued: set[tuple[int, int]] = set()

    def run(self) -> None:
        """Considers pairs, the most profitable first; a merged step brings new pairs."""
        for number in self.graph.numbers():
            self._enqueue(number)
        while self.queue:
            *_, first, second = heapq.heappop(self.queue)
            if first not in self.graph.steps or second not in self.graph.steps:
                continue
            if self.graph.place(first) > self.graph.place(second):
                first, second = second, first
            merged = self._consider(first, second)
            if merged is not None:
                self._enqueue(merged)

    def lasting_refusals(self) -> tuple[Refusal, ...]:
        """The refusals of pairs that did not become one in another way, in order of their place."""
        place = {
            name: number for number, step in enumerate(self.graph.ordered()) for name in effects(step).writes
        }
        lasting = [
            refusal
            for refusal in self.refusals.values()
            if refusal.producer in place
            and refusal.consumer in place
            and place[refusal.producer] != place[refusal.consumer]
        ]
        return tuple(sorted(lasting, key=lambda refusal: (place[refusal.producer], place[refusal.consumer])))

    def _enqueue(self, number: int) -> None:
        for first, second in self._partners(number):
            pair = (min(first, second), max(first, second))
            if pair not in self.queued:
                self.queued.add(pair)
                is_of_two = self._layers(first) != self._layers(second)
                # What adds up at positions that are data reduces nothing besides. So it comes last: a norm's gradient
                # would be torn from its sums, if the lookup behind it took its tail.
                adds = any(self._adds(number) for number in pair)
                heapq.heappush(self.queue, (adds, -self._score(first, second), is_of_two, *pair))

    def _layers(self, number: int) -> set[str]:
        step = self.graph.steps[number]
        return {self.layers.get(node, "") for node in origins(step.body)} if isinstance(step, Nest) else set()

    def _adds(self, number: int) -> bool:
        step = self.graph.steps[number]
        return isinstance(step, Nest) and any(store.adds for _, store in stores(step))

    def _partners(self, number: int) -> Iterator[tuple[int, int]]:
        """Nests that share a buffer with this one, each pair in order of place."""
        step = self.graph.steps[number]
        if not isinstance(step, Nest):
            return
        touched = effects(step)
        for buffer in touched.writes:
            for reader in self.graph.readers(buffer):
                yield from self._pair(number, reader)
        for buffer in touched.reads:
            for writer in self.graph.writers(buffer):
                yield from self._pair(writer, number)
            readers = self.graph.readers(buffer)
            here = readers.index(number)
            for reader in readers[max(0, here - NEIGHBOURS) : here + NEIGHBOURS + 1]:
                if abs(self.graph.place(reader) - self.graph.place(number)) <= REACH:
                    yield from self._pair(number, reader)

    def _pair(self, one: int, other: int) -> Iterator[tuple[int, int]]:
        if (
            one != other
            and isinstance(self.graph.steps[one], Nest)
            and isinstance(self.graph.steps[other], Nest)
        ):
            yield (one, other) if self.graph.place(one) < self.graph.place(other) else (other, one)

    def _score(self, first: int, second: int) -> int:
        """About the bytes that merging saves: what is handed on, and what both read."""
        one, other = effects(self.graph.steps[first]), effects(self.graph.steps[second])
        handed = set(one.writes) & set(other.reads)
        dead = self._dead(handed, first, second)
        score = sum(self.bytes[buffer] * (2 if buffer in dead else 1) for buffer in handed)
        shared = set(one.reads) & set(other.reads)
        reading = [self._bytes_read(number) for number in (first, second)] if shared else []
        return score + sum(min(read.get(buffer, 0) for read in reading) for buffer in shared)

    def _bytes_read(self, number: int) -> Mapping[str, int]:
        """By buffer: what a step reads of it, which may be a part."""
        step = self.graph.steps[number]
        assert isinstance(step, Nest)
        known = self.read.get(number)
        if known is None or known[0] is not step:
            known = self.read[number] = step, bytes_read(step, self.buffers, self.hint)
        return known[1]

    def _consider(self, first: int, second: int) -> int | None:
        """Fuses a pair if that is legal and pays; the new step's number, or None with the reason noted."""
        one, other = self.graph.steps[first], self.graph.steps[second]
        assert isinstance(one, Nest) and isinstance(other, Nest)
        handed = [buffer for buffer in effects(one).writes if buffer in effects(other).reads]
        obstacle = self.graph.between(first, second)
        if obstacle is not None and not handed:
            return None
        if obstacle is not None:
            # Which step is not said: in each of equal layers it is another one, and they are told once.
            reason = "what one of them makes, another step must read before the other runs"
            return self._refuse(first, second, Verdict.NOT_LEGAL, reason)
        merged = join(one, other, self.buffers, self._dead(handed, first, second))
        if isinstance(merged, Nest):
            unprofitable = merge_problem(one, other, merged, self.buffers, self.hint)
            if not merged.axes and self._is_one_of_its_kind(one) and self._is_one_of_its_kind(other):
                unprofitable = None  # single elements cost their launches alone
            if unprofitable is None:
                return self.graph.merge(first, second, merged)
            if handed and (made := self.readers.compute_all(first, second, merged)):
                for number in made[1:]:
                    self._enqueue(number)
                return made[0]
            return self._refuse(first, second, Verdict.NOT_PROFITABLE, unprofitable)
        if len(handed) == 1:
            absorbed = self._absorb(first, second, handed[0])
            if absorbed is not None:
                return absorbed
        elif handed:
            absorbed = self._absorb_several(first, second, handed)
            if absorbed is not None:
                return absorbed
        return self._refuse(first, second, Verdict.NOT_LEGAL, merged)

    def _is_one_of_its_kind(self, nest: Nest) -> bool:
        """Whether no other step consists of the same operations: equal ones become one launch in another way."""
        kind = body_signature(nest)
        return (
            sum(isinstance(step, Nest) and body_signature(step) == kind for step in self.graph.steps.values())
            == 1
        )

    def _absorb(self, first: int, second: int, buffer: str) -> int | None:
        """Lets `second` compute what it reads of `first` by itself."""
        producer, consumer = self.graph.steps[first], self.graph.steps[second]
        assert isinstance(producer, Nest) and isinstance(consumer, Nest)
        if reduced_axes(producer) or len(self.graph.writers(buffer)) > 1 or self.readers.inputs_change(first):
            return None
        readers = self.graph.readers(buffer)
        outlives = buffer in self.kept or not all(isinstance(self.graph.steps[r], Nest) for r in readers)
        if outlives and len({load.buffer for _, load in loads(producer)}) > 1:
            return None
        if absorb_problem(producer, buffer, consumer, len(readers), self.buffers, self.hint) is not None:
            return None
        joined = absorb(producer, buffer, consumer, self.buffers)
        if isinstance(joined, str):
            return None
        is_joined = any(load.buffer == buffer and load.mask is not None for _, load in loads(consumer))
        if is_joined and repeats_work(producer, consumer, joined, self.hint):
            return None
        if splits_columns(consumer, joined, self.buffers):
            return None
        new = self.graph.replace(second, joined, self.graph.before[first])
        if all(self._is_unread(store.buffer) for _, store in stores(producer)):
            self.graph.remove(first)
        return new

    def _absorb_several(self, first: int, second: int, handed: Sequence[str]) -> int | None:
        """As `_absorb`, of several values that nobody else reads: siblings may have become one before their reader."""
        producer, consumer = self.graph.steps[first], self.graph.steps[second]
        assert isinstance(producer, Nest) and isinstance(consumer, Nest)
        if reduced_axes(producer) or self._dead(handed, first, second) != set(handed):
            return None
        if any(len(self.graph.writers(buffer)) > 1 for buffer in handed) or self.readers.inputs_change(first):
            return None
        joined = consumer
        for buffer in handed:
            part = only(producer, buffer)
            if absorb_problem(part, buffer, consumer, 1, self.buffers, self.hint) is not None:
                return None
            absorbed = absorb(part, buffer, joined, self.buffers)
            if isinstance(absorbed, str):
                return None
            joined = absorbed
        rest = simplify_nest(without_stores(producer, lambda store: store.buffer in handed))
        if splits_columns(consumer, joined, self.buffers):
            return None
        if takeover_problem(producer, consumer, joined, rest, self.buffers, self.hint) is not None:
            return None
        new = self.graph.replace(second, joined, self.graph.before[first])
        if stores(rest):
            self._enqueue(self.graph.replace(first, rest))
        else:
            self.graph.remove(first)
        return new

    def _dead(self, handed: Sequence[str] | set[str], first: int, second: int) -> frozenset[str]:
        """The buffers between two steps that nobody else reads."""
        return frozenset(
            buffer
            for buffer in handed
            if buffer not in self.kept
            and self.readers.is_temporary(buffer)
            and set(self.graph.readers(buffer)) <= {first, second}
        )

    def _is_unread(self, buffer: str) -> bool:
        return (
            buffer not in self.kept and self.readers.is_temporary(buffer) and not self.graph.readers(buffer)
        )

    def _refuse(self, first: int, second: int, verdict: Verdict, reason: str) -> int | None:
        """Notes why a pair stays apart; the result is that of `_consider`."""
        names = [effects(self.graph.steps[number]).writes[-1] for number in (first, second)]
        self.refusals.setdefault((names[0], names[1]), Refusal(names[0], names[1], verdict, reason))
        return None
