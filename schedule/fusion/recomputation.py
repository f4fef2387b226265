"""A step goes away whose readers each compute by themselves what it made for them: what is free, and what moves no
more bytes so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longhand.lower.ir import Buffer, BufferKind, Nest
from longhand.schedule.bodies import loads, reduced_axes, without_stores
from longhand.schedule.dependencies import effects
from longhand.schedule.fusion.joining import absorb
from longhand.schedule.fusion.profit import Hint, besides_problem, is_free, recomputing_problem
from longhand.schedule.fusion.step_graph import StepGraph
from longhand.schedule.simplification import simplify_nest

FEW_READERS = 3  # that may each compute what another step makes, though that costs something


class Recomputation:
    """Readers that compute what other steps made for them.

    Args:
        graph: The steps; changed in place.
        buffers: Of the program.
        kept: Buffers that the caller sees.
        hint: The size at capture of a symbolic size.
    """

    def __init__(
        self, graph: StepGraph, buffers: Mapping[str, Buffer], kept: frozenset[str], hint: Hint
    ) -> None:
        self._graph, self._buffers, self._kept, self._hint = graph, buffers, kept, hint

    def compute_what_is_free(self) -> None:
        """What costs nothing to compute again is computed by each of its readers, if all of them are nests.

        From the last to the first: what a producer reads has all of its readers once it was absorbed. And again: what
        reads only what was absorbed may be free by now.
        """
        while sum(self._compute_free(number) for number in self._graph.walk_back()):
            pass

    def compute_all(self, first: int, second: int, merged: Nest) -> tuple[int, ...]:
        """Lets the few readers of what a step makes compute it, unless that moves more bytes than if one of them made
        it for the others.

        A batch norm's gradient reads what is normalized for the sums of columns, and once more when they are known.

        Args:
            first: Makes it.
            second: Reads it.
            merged: The two as one.

        Returns:
            The readers' new numbers; none where it is not done.
        """
        producer = self._graph.steps[first]
        assert isinstance(producer, Nest)
        absorbed = self._absorbed(first)
        others = (self._graph.steps[reader] for reader in absorbed if reader != second)
        rest = [step for step in others if isinstance(step, Nest)]
        if not 2 <= len(absorbed) <= FEW_READERS or len(rest) != len(absorbed) - 1:
            return ()
        fused, read = [*absorbed.values()], [self._graph.steps[reader] for reader in absorbed]
        readers = [step for step in read if isinstance(step, Nest)]
        instead = (merged, *rest)
        if recomputing_problem(producer, readers, instead, fused, self._buffers, self._hint) is not None:
            return ()
        return self._take_over(first, absorbed)

    def compute_besides(self) -> None:
        """What a step makes besides what others than nests read of it is computed by its readers, where that moves
        fewer bytes.

        The backward pass of an activation and a group norm needs, for a convolution, what is activated, and for the
        gradients what is normalized, which it reads sooner from the norm's input than from a wider copy of it.
        """
        for number in self._graph.walk_back():
            producer = self._graph.steps[number]
            if not isinstance(producer, Nest) or reduced_axes(producer) or self.inputs_change(number):
                continue
            made = effects(producer).writes
            besides = [buffer for buffer in made if self._is_for_few_nests(buffer)]
            if 0 < len(besides) < len(made):
                self._compute_besides(number, producer, besides)
                continue
            for buffer in besides if len(made) > 1 else ():  # each of them is made besides the others
                if self._compute_besides(number, producer, [buffer]):
                    break  # what is left is another step

    def _compute_besides(self, number: int, producer: Nest, besides: Sequence[str]) -> bool:
        readers = dict.fromkeys(reader for buffer in besides for reader in self._graph.readers(buffer))
        before = {reader: self._graph.steps[reader] for reader in readers}
        absorbed = {reader: step for reader, step in before.items() if isinstance(step, Nest)}
        for buffer in besides:
            part = only(producer, buffer)
            for reader in self._graph.readers(buffer):
                joined = absorb(part, buffer, absorbed[reader], self._buffers)
                if not isinstance(joined, Nest):
                    return False
                absorbed[reader] = joined
        rest = simplify_nest(without_stores(producer, lambda store: store.buffer in besides))
        now = [step for step in before.values() if isinstance(step, Nest)]
        then = [*absorbed.values()]
        if besides_problem(producer, rest, now, then, self._buffers, self._hint) is not None:
            return False
        place = self._graph.before[number]
        for reader, joined in absorbed.items():
            self._graph.replace(reader, joined, place)
        self._graph.replace(number, rest)
        return True

    def _is_for_few_nests(self, buffer: str) -> bool:
        """Whether no more than a few steps read a buffer, nests all of them, and nobody else sees it."""
        readers = self._graph.readers(buffer)
        return (
            buffer not in self._kept
            and self.is_temporary(buffer)
            and len(self._graph.writers(buffer)) == 1
            and 0 < len(readers) <= FEW_READERS
            and all(isinstance(self._graph.steps[reader], Nest) for reader in readers)
        )

    def is_temporary(self, buffer: str) -> bool:
        """Whether a step makes it."""
        return self._buffers[buffer].kind is BufferKind.INTERMEDIATE

    def inputs_change(self, number: int) -> bool:
        """Whether something that a step reads is written after it: then it cannot be read later instead."""
        place = self._graph.place(number)
        return any(
            self._graph.place(writer) >= place
            for buffer in effects(self._graph.steps[number]).reads
            for writer in self._graph.writers(buffer)
        )

    def _compute_free(self, number: int) -> bool:
        producer = self._graph.steps[number]
        if not isinstance(producer, Nest) or len(effects(producer).writes) != 1:
            return False
        if not is_free(producer, self._buffers, self._hint):
            return False
        absorbed = self._absorbed(number)
        # What is read by one reader alone becomes one with it anyway, unless it keeps that one from being free.
        is_worth_it = len(absorbed) > 1 or (len(absorbed) == 1 and not loads(producer))
        return is_worth_it and bool(self._take_over(number, absorbed))

    def _absorbed(self, number: int) -> dict[int, Nest]:
        """The readers of what a step makes, each computing it by itself; none if one of them cannot."""
        producer = self._graph.steps[number]
        written = effects(producer).writes
        if not isinstance(producer, Nest) or reduced_axes(producer) or self.inputs_change(number):
            return {}
        absorbed: dict[int, Nest] = {}
        for buffer in written:
            is_given = buffer in self._kept or not self.is_temporary(buffer)
            if is_given or len(self._graph.writers(buffer)) > 1:
                return {}
            part = producer if len(written) == 1 else only(producer, buffer)
            for reader in self._graph.readers(buffer):
                consumer = absorbed.get(reader, self._graph.steps[reader])
                joined = absorb(part, buffer, consumer, self._buffers) if isinstance(consumer, Nest) else None
                if not isinstance(joined, Nest):
                    return {}
                absorbed[reader] = joined
        return absorbed

    def _take_over(self, number: int, absorbed: Mapping[int, Nest]) -> tuple[int, ...]:
        before = self._graph.before[number]
        made = tuple(self._graph.replace(reader, joined, before) for reader, joined in absorbed.items())
        self._graph.remove(number)
        return made


def only(nest: Nest, buffer: str) -> Nest:
    """The part of a nest that makes one of its buffers."""
    return simplify_nest(without_stores(nest, lambda store: store.buffer != buffer))
