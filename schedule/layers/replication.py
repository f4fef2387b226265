"""The layers that a program leaves out, made from their equals: one planned run of a repeat, under other names.

A program holds the first few of a chain of equal layers (`Program.layers`). If two neighbouring runs of a repeat of
its plan are the same steps, the second on what the first hands on, and each is one layer further along the chain, then
a run computes one layer, whatever it is given: the runs left out are that run again. What comes after takes over from
the last of them. Where the plan is not like that, the whole graph has to be lowered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from longhand.lower.ir import Buffer, Extern, Layers, Literal, Program, View
from longhand.schedule.kernels.kernel_plan import KernelPlan
from longhand.schedule.layers.outside import made_inside, references
from longhand.schedule.plan import (
    Launch,
    PlanStep,
    Repeat,
    UnitStep,
    flat_steps,
    touched,
)
from longhand.schedule.renaming import (
    Names,
    renamed_all,
    renamed_argument,
    renamed_kernel,
    renamed_plan_step,
    renamed_step,
)

_Run: TypeAlias = tuple[
    tuple[PlanStep, ...],
    str,
    tuple[str, ...],
    tuple[str, ...],
    tuple[str, ...],
    tuple[str, ...],
    tuple[str, ...],
]  # as in Repeat


class LayersDiffer(Exception):
    """The runs of a plan tell nothing certain about the layers that its program leaves out."""


@dataclasses.dataclass(frozen=True)
class Replicas:
    """A plan with every layer.

    Attributes:
        steps: The plan's.
        kernels: With the origins of their first launches.
        buffers: Of all layers.
        results: What the call returns.
    """

    steps: tuple[UnitStep, ...]
    kernels: Mapping[str, KernelPlan]
    buffers: Mapping[str, Buffer]
    results: tuple[View | Literal, ...]


def replicate_layers(
    steps: Sequence[UnitStep], kernels: Mapping[str, KernelPlan], program: Program
) -> Replicas:
    """The steps of a plan, with the runs of all layers.

    Args:
        steps: The plan of what the program holds, repeats folded.
        kernels: Of the plan.
        program: With `layers`.

    Raises:
        LayersDiffer: Some chain of layers is not the runs of one repeat.
    """
    made = Replicas(tuple(steps), kernels, program.buffers, program.results)
    for chain in program.layers:
        made = _Chain(made, chain, program).replicas()
    return made


class _Chain:
    """One chain of layers, and the repeat whose runs they are."""

    def __init__(self, plan: Replicas, chain: Layers, program: Program) -> None:
        self._plan = plan
        self._chain = chain
        self._targets = {entry.node: entry.target for entry in program.graph.inputs}
        self._taken = {*plan.buffers, *(node.name for node in program.graph.graph.nodes)}
        kept = chain.names[: chain.n_kept]
        self._layer_of = {name: number for number, names in enumerate(kept) for name in names}
        for place, step in enumerate(plan.steps):
            if isinstance(step, Repeat) and not step.kinds and step.family is None:
                for run in range(len(step.runs) - 1, 0, -1):
                    if self._is_certain(place, step, run):
                        self._place, self._repeat, self._run = place, step, run
                        return
        raise LayersDiffer

    def replicas(self) -> Replicas:
        """The plan with this chain's layers."""
        repeat, run, buffers = self._repeat, self._run, dict(self._plan.buffers)
        last = max(self._layers(repeat.runs[run]))
        own = made_inside(repeat.runs[run])
        twins = dict(zip(made_inside(repeat.runs[run - 1]), own, strict=True))
        inserted: list[_Run] = []
        made = {name: name for name in own}
        renamed: dict[str, str] = {}
        for distance in range(1, self._distance + 1):
            renamed = self._moved(_window(last), distance)
            handed_on = {name: made[twin] for name, twin in twins.items()}
            made = {name: renamed.get(name) or self._fresh(name, renamed) for name in own}
            renamed |= {**handed_on, **made}
            inserted.append(self._renamed_run(run, renamed))
            _add_renamed(buffers, renamed)
        later = {**renamed, **self._moved(range(last + 1, self._chain.n_kept), self._distance)}
        _add_renamed(buffers, later)
        first_runs = [self._renamed_run(n, {}) for n in range(run + 1)]
        last_runs = [self._renamed_run(n, later) for n in range(run + 1, len(repeat.runs))]
        columns = zip(*first_runs, *inserted, *last_runs, strict=True)
        runs, paths, inputs, outputs, its_own, previous, following = columns
        whole = Repeat(runs, paths, inputs, outputs, its_own, previous, following=following)
        before, after = self._plan.steps[: self._place], self._plan.steps[self._place + 1 :]
        done = (*flat_steps(before), *(step for one in repeat.runs[: run + 1] for step in one))
        launched = {step.kernel for step in done if isinstance(step, Launch)}
        return Replicas(
            (*before, whole, *(renamed_step(step, later) for step in after)),
            {
                key: kernel if key in launched else renamed_kernel(kernel, later)
                for key, kernel in self._plan.kernels.items()
            },
            buffers,
            tuple(renamed_argument(result, later) for result in self._plan.results),
        )

    def _renamed_run(self, number: int, names: Names) -> _Run:
        """What a repeat holds of a run, under other names."""
        repeat = self._repeat
        steps, path = repeat.runs[number], repeat.paths[number]
        own = (name for step in steps for name in references(step))
        weight = next(name for name in own if self._targets.get(name, "").startswith(f"{path}."))
        target = self._targets[names.get(weight, weight)]
        return (
            tuple(renamed_plan_step(step, names) for step in steps),
            ".".join(target.split(".")[: path.count(".") + 1]),
            renamed_all(repeat.inputs[number], names),
            renamed_all(repeat.outputs[number], names),
            renamed_all(repeat.own[number], names),
            renamed_all(repeat.previous[number], names),
            renamed_all(repeat.following[number] if repeat.following else (), names),
        )

    @property
    def _distance(self) -> int:
        """How many layers are left out."""
        return len(self._chain.names) - self._chain.n_kept

    def _layers(self, steps: Iterable[PlanStep]) -> set[int]:
        """The kept layers that steps compute or touch a part of."""
        names = (name for step in steps for name in (*_origins(step), *touched(step)))
        return {self._layer_of[name] for name in names if name in self._layer_of}

    def _is_certain(self, place: int, repeat: Repeat, run: int) -> bool:
        """Whether this run and the one before are one layer apart, and runs like these compute all of a layer."""
        layers = self._layers(repeat.runs[run])
        last = max(layers, default=-1)
        earlier = (
            *flat_steps(self._plan.steps[:place]),
            *(step for one in repeat.runs[: run - 1] for step in one),
        )
        later = (
            *(step for one in repeat.runs[run + 1 :] for step in one),
            *flat_steps(self._plan.steps[place + 1 :]),
        )
        returned = {result.buffer for result in self._plan.results if isinstance(result, View)}
        reached = self._layers(later) | {self._layer_of[name] for name in returned if name in self._layer_of}
        return (
            last >= 0
            and layers <= set(_window(last))
            and self._is_next(repeat, run)
            and all(number < last - 1 for number in self._layers(earlier))
            and all(number in _window(last) or number > last for number in reached)
            and self._computed((*repeat.runs[run], *later), (last,))
            == self._computed(repeat.runs[run], _window(last))
        )

    def _computed(self, steps: Iterable[PlanStep], layers: Sequence[int]) -> set[int]:
        """The places, in these layers, of the nodes that steps compute."""
        places = {name: place for number in layers for place, name in enumerate(self._chain.names[number])}
        return {places[name] for step in steps for name in _origins(step) if name in places}

    def _is_next(self, repeat: Repeat, run: int) -> bool:
        """Whether a run does to the next layer what the run before it does. That they do the same, the repeat says."""
        one, other = repeat.runs[run - 1], repeat.runs[run]
        following = self._moved(range(self._chain.n_kept - 1), 1)
        twins = dict(zip(repeat.inputs[run - 1], repeat.inputs[run], strict=True))
        twins |= dict(zip(made_inside(one), made_inside(other), strict=True))

        def is_next(name: str, twin: str) -> bool:
            return (following if name in self._layer_of else twins).get(name, name) == twin

        return not repeat.numbers and all(
            len(_origins(step)) == len(_origins(next_step))
            and all(map(is_next, _names(step), _names(next_step)))
            for step, next_step in zip(one, other, strict=True)
        )

    def _moved(self, layers: Iterable[int], distance: int) -> dict[str, str]:
        """The names of layers, and those of the layers that are so far away."""
        names = self._chain.names
        return {
            name: new
            for number in layers
            for name, new in zip(names[number], names[number + distance], strict=True)
        }

    def _fresh(self, name: str, renamed: Names) -> str:
        """A name like `name` for a buffer of another layer: ``q_3_contiguous`` for ``q_contiguous``."""
        stem = next((n for n in range(len(name), 0, -1) if name[:n] in renamed), 0)
        wanted = f"{renamed.get(name[:stem], '')}{name[stem:]}"
        fresh, count = wanted, 1
        while fresh in self._taken:
            count += 1
            fresh = f"{wanted}_{count}"
        self._taken.add(fresh)
        return fresh


def _window(last: int) -> range:
    """The layers of which one run may compute a part, if `last` is the last of them."""
    return range(max(last - 2, 0), last + 1)


def _add_renamed(buffers: dict[str, Buffer], renamed: Names) -> None:
    for name, new in renamed.items():
        if name in buffers and new not in buffers:
            old = buffers[name]
            derived = old.derived
            if derived is not None:
                derived = dataclasses.replace(derived, of=renamed.get(derived.of, derived.of))
            buffers[new] = dataclasses.replace(old, name=new, derived=derived)


def _origins(step: PlanStep) -> tuple[str, ...]:
    """The nodes that a step computes."""
    if isinstance(step, Launch):
        return step.origins
    return (step.origin,) if isinstance(step, Extern) else ()


def _names(step: PlanStep) -> tuple[str, ...]:
    return (*_origins(step), *references(step))
