"""The functions of a block's class: from steps of one run to a text with words for its sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from longhand.emit.layers.layer_numbers import NO_NUMBERS, LayerNumbers
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.module_place import ModulePlace
from longhand.emit.module.paragraphs import (
    Paragraph,
    PythonLine,
    WrittenParagraph,
    returned_value,
    statements_of,
)
from longhand.emit.text.python_code import Code, NameCode, PythonStatement, SeveralCode, words_in
from longhand.emit.text.sizes import SizeWriter
from longhand.emit.text.told_sizes import BoundSizes
from longhand.schedule.named_plan import SAVED, Home, ModelStep, overwritten, plain_steps
from longhand.schedule.plan import Release, buffers_made


@dataclasses.dataclass(frozen=True)
class MethodStatements:
    """What a function does, whatever it is called and whatever its words for sizes stand for."""

    parameters: tuple[str, ...]
    told: tuple[PythonStatement, ...]
    stated: tuple[str, ...]
    padding: tuple[PythonStatement, ...]
    needed: tuple[str, ...]
    statements: tuple[PythonStatement, ...]


@dataclasses.dataclass(frozen=True)
class Method:
    """A function of a block's class.

    Two do the same where they are given the same and bind the same words to what shapes tell, and their statements are
    the same: what words for sizes stand for, names, quotes and remarks may be others.

    Attributes:
        name: ``forward``; of what the run before the loop shares, ``after_ln_1``.
        remark: What its docstring says, or empty.
        parameters: Its parameters.
        bound: The words for sizes.
        paragraphs: What it does, in order.
        statements: Those lines, before they were printed.
        needed: Symbols of sizes that none of its tensors tells: their words are its last parameters.
        overwritten: The parameters that it writes over.
    """

    name: str
    remark: str
    parameters: tuple[str, ...]
    bound: BoundSizes
    paragraphs: tuple[WrittenParagraph, ...]
    statements: tuple[PythonStatement, ...]
    needed: tuple[str, ...] = ()
    overwritten: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[str, ...]:
        """Lines that bind sizes to words."""
        return self.bound.lines()

    @property
    def stated(self) -> Mapping[str, int | str]:
        """What words for sizes stand for that no tensor tells."""
        return self.bound.stated

    @property
    def pads(self) -> bool:
        """Whether it binds words for padded sizes."""
        return bool(self.bound.padding)

    @property
    def work(self) -> MethodStatements:
        """What it does: schedule/layers/written_functions.py compares that."""
        bound = self.bound
        return MethodStatements(
            self.parameters, bound.told, tuple(bound.stated), bound.padding, self.needed, self.statements
        )


def write_method(
    name: str,
    remark: str,
    inputs: Sequence[str],
    steps: Sequence[ModelStep],
    results: Sequence[Code],
    outer: BodyWriter,
    variables: dict[str, str],
    device: str,
    position: str = "",
    saved: Code | None = None,
    sizes: SizeWriter | None = None,
    numbers: LayerNumbers = NO_NUMBERS,
    last: PythonLine | None = None,
    whose: ModulePlace | None = None,
    home: Home | None = None,
    is_of_layers: bool = True,
) -> Method:
    """A function of a block from the steps of one run.

    Args:
        name: The function.
        remark: What its docstring says, or empty.
        inputs: The buffers that it takes.
        steps: What it does.
        results: What it returns.
        outer: The writer of the function around the loop.
        variables: The variable of each buffer.
        device: Of new tensors, as an expression.
        position: The attribute that holds the layer's place, if the steps ask for it.
        saved: What it returns last for its backward pass, or nothing.
        sizes: The sizes inside, if some are used already.
        numbers: What it is given of the numbers that layers differ in.
        last: A line after the steps, or none.
        whose: The module at hand.
        home: The module whose function it is.
        is_of_layers: Whether it is one of many layers'.
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
        is_of_layers=is_of_layers,
        numbers=numbers.at,
        whose=whose,
        home=home,
    )
    body.calls, body.of_some, body.in_backward = outer.calls, outer.of_some, outer.in_backward
    body.returned = {word for code in results for word in words_in(code)}
    paragraphs = body.write(steps, {})
    if last is not None:
        paragraphs.append(Paragraph((), [last]))
    if saved is not None:
        paragraphs.append(Paragraph((), [PythonLine.binding([SAVED], saved)]))
        results = [*results, NameCode(SAVED)]
    _return(paragraphs, results)
    outer.needs.merge(body.needs)
    printed = WrittenParagraph.of(paragraphs)
    needed = sizes.needed
    parameters += [*map(sizes.word_of, needed), *numbers.words]
    statements = tuple(statement for p in paragraphs for statement in statements_of(p.lines))
    given = [buffer for buffer in inputs if variables[buffer].isidentifier()]
    plain = [one for step in steps for one in plain_steps(step)]
    over = tuple(variables[buffer] for buffer in overwritten(plain, given, outer.plan.kernels))
    return Method(name, remark, tuple(parameters), sizes.bound(), printed, statements, needed, over)


def device_inside(buffers: Sequence[str], outer: BodyWriter, variables: dict[str, str]) -> str:
    """The device of new tensors in a function of layers, which may take nothing: that of a weight then."""
    there = (buffer for buffer in buffers if buffer not in outer.plan.program.on_cpu)
    buffer = next(there, None)
    return outer.device if buffer is None else f"{variables[buffer]}.device"


def own_releases(steps: Sequence[ModelStep]) -> list[ModelStep]:
    """Steps without releases of what came from outside: the caller holds it."""
    made: set[str] = set()
    kept_steps: list[ModelStep] = []
    for step in steps:
        if isinstance(step, Release):
            step = Release(tuple(buffer for buffer in step.buffers if buffer in made))
        made.update(buffer for one in plain_steps(step) for buffer in buffers_made(one))
        kept_steps.append(step)
    return kept_steps


def sizes_inside(
    inputs: Sequence[str],
    outer: BodyWriter,
    variables: dict[str, str],
    reads_shapes: bool = False,
    numbers: Sequence[str] = (),
    symbols: Sequence[str] = (),
    weights: Sequence[str] = (),
    uneven: Mapping[str, int] = MappingProxyType({}),
) -> SizeWriter:
    """Sizes from the shapes of a function's own arguments; all that tensors tell, if it is one for several sizes.

    Args:
        inputs: The buffers that it takes.
        outer: The writer of the function around it.
        variables: The variable of each buffer.
        reads_shapes: Whether it is one for several sizes, which are numbers.
        numbers: That it is given.
        symbols: The words of its sizes, if it is one for several, and these are symbols.
        weights: What tells symbols that no buffer does: the buffers of its module.
        uneven: Of those that have more dimensions, or fewer, in other calls: how many of the last all have.
    """
    tensors = []
    for buffer in (*inputs, *weights):
        outer_buffer = outer.plan.buffers[buffer]
        words = outer.sizes.words_of(outer_buffer)
        if reads_shapes:  # one size's word for a dimension may be none for another
            words = (*words[:1], *(None for _ in words[1:]))
        if buffer in uneven:
            n_others = len(words) - uneven[buffer]
            words = (*(None for _ in words[:n_others]), *words[n_others:])
        if symbols:
            own = (None for _ in words) if buffer in weights else words
            words = tuple(
                str(size) if str(size) in symbols else word
                for size, word in zip(outer_buffer.shape, own, strict=True)
            )
        tensors.append((variables[buffer], words, outer_buffer.shape))
    made = outer.sizes.for_tensors(
        tensors, {*variables.values(), *numbers}, reads_shapes, (*numbers, *symbols), numbers
    )
    made.uneven = frozenset(variables[buffer] for buffer in uneven)
    return made


def _return(paragraphs: list[Paragraph], results: Sequence[Code]) -> None:
    targets = [one.name for one in results if isinstance(one, NameCode)]
    is_bound = len(targets) == len(results)
    value = returned_value(paragraphs[-1].lines[-1], targets) if paragraphs and is_bound else None
    said = PythonLine.worded("return", value or SeveralCode(tuple(results), ""))
    if value is not None:
        paragraphs[-1].lines[-1] = said
    elif paragraphs:
        paragraphs[-1].lines.append(said)
