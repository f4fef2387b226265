"""What a function of model.py or backward.py consists of: the plan's steps, and layers that are called."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from longhand.schedule.layers.divergent_runs import Alternative
from longhand.schedule.layers.listed_inputs import ListedInput
from longhand.schedule.layers.saved_layers import SavedLayers
from longhand.schedule.plan import PlanStep, Repeat, UnitStep

LoopKey = tuple[
    str, tuple[int, ...], tuple[str, ...]
]  # whose layers, which of them, what the first one hands on


@dataclasses.dataclass(frozen=True)
class LoopTail:
    """What two kinds of layers do alike at their end.

    Attributes:
        start: The first of the pattern's steps that belongs to it.
        inputs: What it takes, the layer's own weights left out.
        outputs: Which of the pattern's outputs it makes.
    """

    start: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Following:
    """The module in which layers end: of the layer behind, a norm of it, or of the last one what is behind all layers.

    Attributes:
        path: Below the layer: ``input_layernorm``.
        last: Of the one behind all layers: ``model.norm``.
        weights: By buffer of the pattern: its name in the module, ``weight``.
    """

    path: str
    last: str
    weights: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Preceding:
    """In a backward pass: the module in whose derivative layers end: the layer before's, of the first one another.

    Attributes:
        path: Below the layer: ``output.LayerNorm``.
        first: What it is for the first layer: ``embeddings.LayerNorm``.
        weights: By buffer of the pattern: its name in the module, ``weight``.
        trained: The paths of those of the pattern's whose gradients are returned, and their names in the module.
    """

    path: str
    first: str
    weights: Mapping[str, str]
    trained: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Loop:
    """A repeat, ready to be printed as ``for block in self.h: x = block(x)``.

    Attributes:
        repeat: The plan's.
        owner: The path of the list that holds the blocks: ``h``, ``model.layers``.
        positions: The blocks' positions in it, in order.
        class_name: The block's class in the user's code: ``Block``.
        carried: For each of the run's inputs: its position among the outputs of the run before.
        shared: Buffers from outside that all runs read alike, in order of first use.
        own_weights: By buffer of the pattern: the path below the block: ``ln_1.weight``.
        previous: Likewise the weights that it is given of the block before: the path below that one.
        following: The weights that it is given of a module of the layer behind it, or of the one behind all layers.
        preceding: In a backward pass: those of a module of the layer before, or of the one before all layers.
        collected: Positions of outputs of all runs that are read after the loop; in a backward pass the gradients.
        gathered: In a backward pass: positions of outputs of all runs that later steps read, and nothing else.
        is_in_turn: Whether the layers are of one of several kinds in turn: each is called by itself.
        is_apart: Whether other steps stand between the layers: all that each of them hands on has a name.
        first: The position of the layer before, whose end is the layers' second function; None if there is none.
        n_head: How many of each run's steps come before those that the run before the loop shares; 0 if none does.
        rest_inputs: What the shared steps of the pattern take, its own weights left out.
        rest_outputs: Which of the pattern's outputs they make.
        own: In a backward pass, for each run: what it alone reads, its weights and what the forward saved for it.
        pattern: The number of the run that the function is printed from.
        alternatives: What some runs do otherwise.
        record: In training: what each layer saves for its backward pass, if that is a record of its own.
        tail: What another kind of layers does, too, at its end.
        listed: By buffer of the pattern: the entries of lists that the call is given one of for each layer.
    """

    repeat: Repeat
    owner: str
    positions: tuple[int, ...]
    class_name: str
    carried: tuple[int, ...]
    shared: tuple[str, ...]
    own_weights: dict[str, str]
    collected: tuple[int, ...]
    n_head: int = 0
    rest_inputs: tuple[str, ...] = ()
    rest_outputs: tuple[str, ...] = ()
    own: tuple[tuple[str, ...], ...] = ()
    pattern: int = 0
    alternatives: tuple[Alternative, ...] = ()
    record: SavedLayers | None = None
    previous: Mapping[str, str] = dataclasses.field(default_factory=dict)
    gathered: tuple[int, ...] = ()
    is_in_turn: bool = False
    is_apart: bool = False
    first: int | None = None
    tail: LoopTail | None = None
    following: Following | None = None
    preceding: Preceding | None = None
    listed: Mapping[str, ListedInput] = dataclasses.field(default_factory=dict)

    @property
    def own_inputs(self) -> dict[str, str]:
        """By buffer of the pattern: what stands below the block's path, its weights and its entries of lists."""
        return {**self.own_weights, **{name: one.below for name, one in self.listed.items()}}

    @property
    def run(self) -> tuple[PlanStep, ...]:
        """The steps of the pattern."""
        return self.repeat.runs[self.pattern]

    @property
    def inputs(self) -> tuple[str, ...]:
        """What the pattern takes from the run before."""
        return self.repeat.inputs[self.pattern]

    @property
    def key(self) -> LoopKey:
        """What tells loops apart: the same layers may run in several."""
        return self.owner, self.positions, self.repeat.outputs[0]

    @property
    def outputs(self) -> tuple[str, ...]:
        """What the pattern hands on."""
        return self.repeat.outputs[self.pattern]

    @property
    def saved(self) -> tuple[str, ...]:
        """The pattern's buffers that its record holds."""
        return self.record.buffers[self.positions[self.pattern]] if self.record is not None else ()


@dataclasses.dataclass(frozen=True)
class FirstCall:
    """The run before a loop, as a call of what it shares with the loop's runs: see schedule/layers/peeled_first.py.

    Attributes:
        repeat: Its steps, as a repeat of one run; `inputs` are the call's arguments.
        position: The block's position in the list that holds the blocks.
    """

    repeat: Repeat
    position: int


@dataclasses.dataclass(frozen=True)
class Choice:
    """Steps of which a layer does one group: ``if self.layer == 3: ... else: ...``.

    Attributes:
        cases: (positions of the layers, what these do).
        otherwise: What all others do.
    """

    cases: tuple[tuple[tuple[int, ...], tuple[PlanStep, ...]], ...]
    otherwise: tuple[PlanStep, ...]

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        """All of them."""
        return (*self.otherwise, *(step for _, steps in self.cases for step in steps))


@dataclasses.dataclass(frozen=True)
class LayerCall:
    """One layer of several kinds in turn: a call of its kind's function.

    Attributes:
        loop: The layers of its kind, which are one function.
        number: Which of them.
    """

    loop: Loop
    number: int

    @property
    def repeat(self) -> Repeat:
        """Its run alone."""
        whole = self.loop.repeat
        return Repeat(
            (whole.runs[self.number],),
            (whole.paths[self.number],),
            (whole.inputs[self.number],),
            (whole.outputs[self.number],),
            whole.own[self.number : self.number + 1],
            whole.previous[self.number : self.number + 1],
            following=whole.following[self.number : self.number + 1],
        )

    @property
    def position(self) -> int:
        """Its place in the list."""
        return self.loop.positions[self.number]


ModelStep = PlanStep | Loop | FirstCall | LayerCall | Choice


def plain_steps(step: ModelStep) -> tuple[UnitStep, ...]:
    """The plan's steps behind one of model.py's."""
    if isinstance(step, Choice):
        return step.steps
    return (step.repeat,) if isinstance(step, Loop | FirstCall | LayerCall) else (step,)


def steps_of(loop: Loop, start: int = 0, stop: int | None = None) -> list[ModelStep]:
    """The steps that a loop's function consists of, those that some layers do otherwise as a Choice.

    Args:
        loop: The loop.
        start: The first of the pattern's steps.
        stop: The one after the last; None: to the end.
    """
    run = loop.run
    end = len(run) if stop is None else stop
    stretches = sorted(
        {(one.start, one.stop) for one in loop.alternatives if start <= one.start < max(end, 1)}
    )
    steps: list[ModelStep] = []
    for begin, over in stretches:
        cases = tuple(
            (tuple(loop.positions[number] for number in one.runs), one.steps)
            for one in loop.alternatives
            if (one.start, one.stop) == (begin, over)
        )
        steps += [*run[start:begin], Choice(cases, run[begin:over])]
        start = over
    return [*steps, *run[start:end]]


def layers_called(loop: Loop) -> frozenset[int]:
    """The positions of the layers that are called by the methods of the loop's class."""
    first = () if loop.first is None else (loop.first,)
    return frozenset((*first, *loop.positions))


def loops_of(steps: Iterable[ModelStep]) -> list[Loop]:
    """The layers that are one function each, in order: those of loops, and those that are called in turn."""
    loops: dict[int, Loop] = {}
    for step in steps:
        loop = step.loop if isinstance(step, LayerCall) else step
        if isinstance(loop, Loop):
            loops[id(loop)] = loop
    return list(loops.values())


def records_apart(steps: Sequence[ModelStep]) -> list[tuple[SavedLayers, int, tuple[str, ...]]]:
    """(record, place in the list, buffers) of the layers outside of the loops, whose records are made apart.

    The list is in the order in which the layers run, which is the last one first in ``for layer in reversed(...)``:
    the backward pass takes the record of the layer that ran last from its end.
    """
    records: list[tuple[SavedLayers, int, tuple[str, ...]]] = []
    for loop in loops_of(steps):
        if loop.record is not None:
            inside = layers_called(loop)
            is_reversed = loop.positions[0] > loop.positions[-1]
            layers = sorted(loop.record.buffers.items(), reverse=is_reversed)
            records += [
                (loop.record, number, buffers)
                for number, (position, buffers) in enumerate(layers)
                if position not in inside
            ]
    return records
