"""Nests beside a contraction move into it: what makes a factor, and what is made of the sums, element by element.

Nothing moves unless a template computes the whole in one kernel. What has moved in stands in `before` or `after`, so
that it can always be taken out again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from longhand.lower.ir import Buffer, BufferKind, Contraction, Nest, Reduce, Step
from longhand.schedule.bodies import reduced_axes
from longhand.schedule.contractions import registry
from longhand.schedule.dependencies import effects
from longhand.schedule.fusion.joining import absorb, join
from longhand.schedule.fusion.step_graph import StepGraph
from longhand.schedule.targets import TargetFacts


def take_neighbours_in(
    steps: Sequence[Step], buffers: Mapping[str, Buffer], kept: frozenset[str], target: TargetFacts
) -> list[Step]:
    """The steps, nests in the contractions that they make a factor of or are made of.

    Args:
        steps: What fusion left.
        buffers: Of the program.
        kept: Buffers that the caller sees.
        target: Which templates are asked.
    """
    if not registry.TEMPLATES:
        return list(steps)
    graph = StepGraph(steps)
    for number in graph.numbers():
        if isinstance(graph.steps.get(number), Contraction):
            _grow(graph, number, buffers, kept, target)
    return graph.ordered()


def _grow(
    graph: StepGraph, number: int, buffers: Mapping[str, Buffer], kept: frozenset[str], target: TargetFacts
) -> None:
    """Takes in one nest after the other, until no template accepts a further one."""
    is_growing = True
    while is_growing:
        is_growing = False
        for first, second, grown in _candidates(graph, number, buffers, kept):
            if registry.template_for(grown, target) is not None:
                number = graph.merge(first, second, grown)
                is_growing = True
                break


def _candidates(
    graph: StepGraph, number: int, buffers: Mapping[str, Buffer], kept: frozenset[str]
) -> Iterator[tuple[int, int, Contraction]]:
    """A contraction with each neighbour that may move in: the two steps in order, and what they become."""
    step = graph.steps[number]
    assert isinstance(step, Contraction)
    touched = effects(step)
    for buffer in touched.writes:
        if buffer not in kept and _is_between_two(graph, buffer, buffers):
            (reader,) = graph.readers(buffer)
            nest = graph.steps[reader]
            if isinstance(nest, Nest) and graph.between(number, reader) is None:
                grown = with_epilogue(step, nest, buffer, buffers)
                if grown is not None:
                    yield number, reader, grown
    for buffer in touched.reads:
        if buffer not in kept and _is_between_two(graph, buffer, buffers):
            (writer,) = graph.writers(buffer)
            nest = graph.steps[writer]
            if isinstance(nest, Nest) and graph.between(writer, number) is None:
                grown = with_prologue(step, nest, buffer, buffers)
                if grown is not None:
                    yield writer, number, grown


def _is_between_two(graph: StepGraph, buffer: str, buffers: Mapping[str, Buffer]) -> bool:
    """Whether one step makes a buffer, and one other reads it."""
    is_ours = buffers[buffer].kind is BufferKind.INTERMEDIATE
    readers, writers = graph.readers(buffer), graph.writers(buffer)
    return is_ours and len(readers) == len(writers) == 1 and readers != writers


def with_epilogue(
    contraction: Contraction, nest: Nest, handed: str, buffers: Mapping[str, Buffer]
) -> Contraction | None:
    """The contraction with what a nest makes of its result.

    Args:
        contraction: Makes `handed`.
        nest: The only one that reads `handed`.
        handed: A buffer that nobody needs afterwards.
        buffers: Of the program.

    Returns:
        None where the nest is not element by element over the result, or reads it at another place.
    """
    if reduced_axes(nest):
        return None
    joined = join(contraction.loops, nest, buffers, frozenset({handed}))
    if isinstance(joined, str):
        return None
    grown = _with_body(contraction, joined)
    return grown and dataclasses.replace(grown, after=(*contraction.after, nest))


def with_prologue(
    contraction: Contraction, nest: Nest, handed: str, buffers: Mapping[str, Buffer]
) -> Contraction | None:
    """The contraction that makes an operand itself, each element wherever it is a factor.

    Args:
        contraction: The only one that reads `handed`.
        nest: Makes `handed` and nothing else.
        handed: A buffer that nobody needs afterwards.
        buffers: Of the program.

    Returns:
        None where the nest is not element by element, or what the contraction reads is not one of its elements.
    """
    if reduced_axes(nest) or effects(nest).writes != (handed,):
        return None
    joined = absorb(nest, handed, contraction.loops, buffers)
    if isinstance(joined, str):
        return None
    grown = _with_body(contraction, joined)
    return grown and dataclasses.replace(grown, before=(nest, *contraction.before))


def _with_body(contraction: Contraction, joined: Nest) -> Contraction | None:
    """The contraction with another body, what it keeps first; None if that is no sum of one product any more."""
    sums = [value for value in joined.body if isinstance(value, Reduce)]
    if len(sums) != 1:
        return None
    axes = tuple(sorted(joined.axes, key=lambda axis: axis.name in sums[0].axes))
    return dataclasses.replace(contraction, axes=axes, body=joined.body)
