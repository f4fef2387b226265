"""The functions of a block's class: from steps of one run to a text with words for its sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.emit.layers.layer_numbers import NO_NUMBERS, LayerNumbers
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.module_place import ModulePlace
from longhand.emit.module.paragraphs import (
    LineKind,
    Paragraph,
    PythonLine,
    kind_of,
    quote_lines,
    returned_value,
)
from longhand.emit.text.sizes import BoundSizes, SizeWriter
from longhand.schedule.named_plan import SAVED, ModelStep, plain_steps
from longhand.schedule.plan import Release, buffers_made

_WIDEST = 98


@dataclasses.dataclass(frozen=True)
class Method:
    """A function of a block's class.

    Attributes:
        name: ``forward``; of what the run before the loop shares, ``after_ln_1``.
        remark: What its docstring says, or empty.
        parameters: Its parameters.
        bound: The words for sizes.
        paragraphs: (quotes, lines).
        needed: Symbols of sizes that none of its tensors tells: their words are its last parameters.
    """

    name: str
    remark: str
    parameters: tuple[str, ...]
    bound: BoundSizes
    paragraphs: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    needed: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[str, ...]:
        """Lines that bind sizes to words."""
        return self.bound.lines()

    @property
    def stated(self) -> Mapping[str, int | str]:
        """What words for sizes stand for that no tensor tells."""
        return self.bound.stated

    def does_what(self, other: Method) -> bool:
        """Whether its text is the other's but for its name, quotes, remarks, and what words for sizes stand for."""
        same = [
            (
                one.parameters,
                one.bound.told,
                tuple(one.bound.stated),
                one.bound.padding,
                [
                    line
                    for _, lines in one.paragraphs
                    for line in lines
                    if kind_of(line) is not LineKind.COMMENT
                ],
                one.needed,
            )
            for one in (self, other)
        ]
        return same[0] == same[1]


def write_method(
    name: str,
    remark: str,
    inputs: Sequence[str],
    steps: Sequence[ModelStep],
    results: list[str],
    outer: BodyWriter,
    variables: dict[str, str],
    device: str,
    position: str = "",
    saved: str = "",
    sizes: SizeWriter | None = None,
    numbers: LayerNumbers = NO_NUMBERS,
    last: PythonLine | None = None,
    whose: ModulePlace | None = None,
) -> Method:
    """A function of a block from the steps of one run.

    Args:
        name: The function.
        remark: What its docstring says, or empty.
        inputs: The buffers that it takes.
        steps: What it does.
        results: What it returns, as expressions.
        outer: The writer of the function around the loop.
        variables: The variable of each buffer.
        device: Of new tensors, as an expression.
        position: The attribute that holds the layer's place, if the steps ask for it.
        saved: What it returns last for its backward pass, or empty.
        sizes: The sizes inside, if some are used already.
        numbers: What it is given of the numbers that layers differ in.
        last: A line after the steps, or none.
        whose: The module at hand.
    """
    parameters = [variables[buffer] for buffer in inputs]
    sizes = sizes or sizes_inside(inputs, outer, variables)
    body = BodyWriter(
        outer.plan,
        outer.names,
        outer.words,
        variables,
        sizes,
        device,
        position=position,
        is_of_layers=True,
        numbers=numbers.at,
        whose=whose,
    )
    body.calls = outer.calls
    paragraphs = body.write(steps, {})
    if last is not None:
        paragraphs.append(Paragraph((), [last]))
    if saved:
        paragraphs.append(Paragraph((), [PythonLine.assignment(SAVED, saved)]))
        results = [*results, SAVED]
    _return(paragraphs, results)
    outer.needs.merge(body.needs)
    printed = tuple((tuple(quote_lines(p.quotes, _WIDEST)), tuple(p.lines)) for p in paragraphs)
    needed = sizes.needed
    parameters += [*map(sizes.word_of, needed), *numbers.words]
    return Method(name, remark, tuple(parameters), sizes.bound(), printed, needed)


def device_inside(buffers: Sequence[str], outer: BodyWriter, variables: dict[str, str]) -> str:
    """The device of new tensors in a function of layers, which may take nothing: that of a weight then."""
    there = (buffer for buffer in buffers if buffer not in outer.plan.program.on_cpu)
    buffer = next(there, None)
    return outer.device if buffer is None else f"{variables[buffer]}.device"


def own_releases(steps: Sequence[ModelStep]) -> list[ModelStep]:
    """Steps without releases of what came from outside: the caller holds it."""
    made: set[str] = set()
    found: list[ModelStep] = []
    for step in steps:
        if isinstance(step, Release):
            step = Release(tuple(buffer for buffer in step.buffers if buffer in made))
        made.update(buffer for one in plain_steps(step) for buffer in buffers_made(one))
        found.append(step)
    return found


def sizes_inside(
    inputs: Sequence[str],
    outer: BodyWriter,
    variables: dict[str, str],
    reads_shapes: bool = False,
    numbers: Sequence[str] = (),
) -> SizeWriter:
    """Sizes from the shapes of a function's own arguments; all that tensors tell, if it is one for several sizes."""
    tensors = []
    for buffer in inputs:
        found = outer.plan.buffers[buffer]
        words = outer.sizes.words_of(found)
        if reads_shapes:  # one size's word for a dimension may be none for another
            words = (*words[:1], *(None for _ in words[1:]))
        tensors.append((variables[buffer], words, found.shape))
    return outer.sizes.for_tensors(tensors, {*variables.values(), *numbers}, reads_shapes, numbers)


def _return(paragraphs: list[Paragraph], results: list[str]) -> None:
    returned = ", ".join(results)
    value = returned_value(paragraphs[-1].lines[-1] if paragraphs else "", returned)
    if value is not None:
        paragraphs[-1].lines[-1] = f"return {value}"
    elif paragraphs:
        paragraphs[-1].lines.append(f"return {returned}")
