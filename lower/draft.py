"""What lower's passes hand on: the captured graph and what is known of it, then the program that it becomes."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping

from torch import fx

from longhand.capture.graph import CapturedGraph, Literal
from longhand.lower.context import Context
from longhand.lower.ir import Buffer, Layers, Program, Step, View
from longhand.options import Options

Memory = Mapping[str, tuple[View, Buffer]]


@dataclasses.dataclass(frozen=True)
class LoweringDraft:
    """A program in the making. What a pass is not about stays as it is.

    Attributes:
        graph: What was captured; products aligned after `align_products`.
        options: What is to be generated.
        memory: For a backward pass: placeholders that are results of the forward's program, as they lie in memory.
        every_layer: Whether the program holds all of many equal layers.
        filters: Of a pass of a training step: the weights that both hold channels last.
        short: The graph that is lowered: `graph`, or all of it but the layers that are left out.
        layers: The chains of equal layers of which `short` holds the first few.
        keeps_channels_last: Whether images lie with their channels last.
        weights: The weights of convolutions that are held like that.
        host: What the host computes, by node.
        context: Every value of `short` and the steps so far, once its nodes are lowered. No pass changes the one
            that it is given: it works on a `fork`.
        buffers: Of the program, once it is complete.
        steps: In order.
        results: What the call returns.
    """

    graph: CapturedGraph
    options: Options
    memory: Memory
    every_layer: bool
    filters: frozenset[str]
    short: CapturedGraph
    layers: tuple[Layers, ...] = ()
    keeps_channels_last: bool = False
    weights: frozenset[str] = frozenset()
    host: frozenset[str] = frozenset()
    context: Context | None = None
    buffers: Mapping[str, Buffer] = dataclasses.field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    results: tuple[View | Literal, ...] = ()

    @classmethod
    def of(
        cls,
        graph: CapturedGraph,
        options: Options,
        memory: Memory,
        every_layer: bool,
        filters: frozenset[str] = frozenset(),
    ) -> LoweringDraft:
        """Before the first pass."""
        return cls(graph, options, memory, every_layer, filters, short=graph)

    def with_graph(self, graph: CapturedGraph) -> LoweringDraft:
        """Another graph, of which nothing was left out yet."""
        return dataclasses.replace(self, graph=graph, short=graph)

    def with_context(self, context: Context) -> LoweringDraft:
        """The nodes lowered, or something appended to them."""
        return dataclasses.replace(
            self, context=context, buffers=dict(context.buffers), steps=tuple(context.steps)
        )

    @property
    def lowered(self) -> Context:
        """What the nodes became; only after `lower_nodes`."""
        assert self.context is not None
        return self.context

    @property
    def nodes(self) -> list[fx.Node]:
        """Of the graph that is lowered, in order."""
        return list(self.short.graph.nodes)

    def as_program(self) -> Program:
        """What there is of the program."""
        host = frozenset(self.context.host_buffers) if self.context is not None else frozenset()
        return Program(self.graph, dict(self.buffers), self.steps, self.results, self.layers, host)


def fork(context: Context) -> Context:
    """A copy that can be added to: its lists, sets and tables are its own, the values in them are shared."""
    made = copy.copy(context)
    for name, value in vars(context).items():
        if isinstance(value, list | set | dict):
            setattr(made, name, copy.copy(value))
    return made
