"""A plan in the making: what each pass of `schedule.passes` takes and returns.

Its steps begin as the loop program's (nests, contractions and library calls); a pass in the middle turns each nest into
the launch of a kernel and each contraction into a launch or a library call, and those after it add what memory and
repeats need.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import cast

from torch import fx

from longhand.capture.graph import Literal, Provenance
from longhand.lower.ir import Buffer, Contraction, Extern, Nest, Program, Size, Step, View
from longhand.options import Options
from longhand.schedule.kernels.kernel_plan import KernelPlan
from longhand.schedule.plan import Launch, PlanStep, Refusal, Repeat, UnitPlan, UnitStep, flat_steps, touched
from longhand.schedule.sizes import Hints, Limits, guess


@dataclasses.dataclass(frozen=True, eq=False)
class Draft:
    """The state between two passes.

    Attributes:
        program: What lower made.
        options: What is generated.
        steps: In order: nests and contractions before kernels are planned, launches from then on.
        buffers: Every buffer that the steps name, by name, and maybe more.
        results: What the call returns.
        kernels: By key, in order of first launch; empty before kernels are planned.
        refusals: Fusions not done so far.
        nests: What the steps did when kernels were planned from them, place by place.
        spared: What nothing takes over although nothing reads it later, as of the layers before the last.
    """

    program: Program
    options: Options
    steps: tuple[Step | UnitStep, ...]
    buffers: Mapping[str, Buffer]
    results: tuple[View | Literal, ...]
    kernels: Mapping[str, KernelPlan] = dataclasses.field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()
    nests: tuple[Nest | Extern, ...] = ()
    spared: frozenset[str] = frozenset()

    @classmethod
    def of(cls, program: Program, options: Options) -> Draft:
        """Before the first pass."""
        return cls(program, options, program.steps, program.buffers, program.results)

    @functools.cached_property
    def kept(self) -> frozenset[str]:
        """The buffers that the caller sees."""
        return frozenset(result.buffer for result in self.results if isinstance(result, View))

    @functools.cached_property
    def hints(self) -> Hints:
        """What each symbol was when the model was captured."""
        return self.program.graph.examples

    @functools.cached_property
    def limits(self) -> Limits:
        """The largest value of each symbol."""
        return {size.symbol: size.maximum for size in self.program.graph.symbols}

    @functools.cached_property
    def nodes(self) -> Mapping[str, fx.Node]:
        """The nodes of the captured graph, by name."""
        return {node.name: node for node in self.program.graph.graph.nodes}

    @functools.cached_property
    def position_of(self) -> Mapping[str, int]:
        """Where each node stands in the captured graph."""
        return {name: place for place, name in enumerate(self.nodes)}

    @functools.cached_property
    def layers(self) -> Mapping[str, str]:
        """By node the path of the layer of a list that it is of, where layers have modules inside; else left out."""
        layers: dict[str, str] = {}
        have_modules: set[str] = set()
        for name, node in self.nodes.items():
            origin: Provenance = node.meta.get("provenance", Provenance())
            parts = origin.module.split(".")
            place = next((at for at in range(len(parts) - 1, 0, -1) if parts[at].isdecimal()), None)
            if place is not None:
                layers[name] = ".".join(parts[: place + 1])
                have_modules |= {layers[name]} if place + 1 < len(parts) else set()
        return {name: layer for name, layer in layers.items() if layer in have_modules}

    def guess(self, size: Size) -> int:
        """A number for comparing sizes."""
        return guess(size, self.hints)

    @property
    def loops(self) -> tuple[Step, ...]:
        """The steps, before kernels are planned."""
        assert all(isinstance(step, Nest | Extern | Contraction) for step in self.steps)
        return cast(tuple[Step, ...], self.steps)

    @property
    def unit_steps(self) -> tuple[UnitStep, ...]:
        """The steps, once kernels are planned."""
        assert self.has_kernels
        return cast(tuple[UnitStep, ...], self.steps)

    @property
    def plan_steps(self) -> tuple[PlanStep, ...]:
        """The steps, once kernels are planned and before repeats are folded."""
        assert not any(isinstance(step, Repeat) for step in self.unit_steps)
        return cast(tuple[PlanStep, ...], self.steps)

    @property
    def calls(self) -> tuple[Launch | Extern, ...]:
        """The steps, once kernels are planned and before memory is placed."""
        assert all(isinstance(step, Launch | Extern) for step in self.steps)
        return cast("tuple[Launch | Extern, ...]", self.steps)

    @property
    def has_kernels(self) -> bool:
        """Whether the nests have become launches, and contractions calls or launches."""
        return not any(isinstance(step, Nest | Contraction) for step in self.steps)

    def with_steps(self, steps: Iterable[Step | UnitStep]) -> Draft:
        """The same with other steps."""
        return dataclasses.replace(self, steps=tuple(steps))

    @property
    def whole(self) -> Program:
        """The program with the buffers and results of now; its steps are those of the beginning."""
        return dataclasses.replace(self.program, buffers=self.buffers, results=self.results)

    def as_program(self) -> Program:
        """The steps as a loop program, before kernels are planned."""
        return dataclasses.replace(self.whole, steps=self.loops)

    def as_plan(self) -> UnitPlan:
        """The steps as a plan, once kernels are planned."""
        return UnitPlan(self.whole, self.options, self.kernels, self.unit_steps, self._used(), self.refusals)

    def _used(self) -> dict[str, Buffer]:
        """The buffers that the steps name, in the program's order."""
        names = set(self.kept)
        for step in flat_steps(self.unit_steps):
            names.update(touched(step))
        return {name: buffer for name, buffer in self.buffers.items() if name in names}
