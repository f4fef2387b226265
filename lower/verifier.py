"""LONGHAND_VERIFY=1: the rules that a program in the making keeps after every pass; the tests always check them.

Those on the graph, its layers and the nodes' values are here, those on the steps (accesses inside their buffers, masks
that cover, dtypes that agree, ...) in `lower.rules`, which a plan keeps, too.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

import torch
from torch import fx

from longhand.errors import BrokenPlanError
from longhand.lower.draft import LoweringDraft
from longhand.lower.ir import View
from longhand.lower.rules.breaches import PlanRule, Surroundings, is_verifying
from longhand.lower.rules.steps import StepChecks
from longhand.lower.views import TensorView


class DraftRule(enum.Enum):
    """What holds of every draft, after every pass."""

    ORDER = "a node that is read comes earlier"
    NAMES = "names of nodes and buffers exist"
    VALUES = "every node that is lowered has a value"
    LAYERS = "a layer is in the program or told by one that is"


Fault = tuple[str, DraftRule | PlanRule, str]  # where, which rule, how


class DraftVerifier:
    """Checks what passes make of one program. Steps that a pass left as they are are not checked again."""

    def __init__(self, is_on: bool) -> None:
        self._is_on = is_on
        self._steps = StepChecks()

    @classmethod
    def from_environment(cls) -> DraftVerifier:
        """As LONGHAND_VERIFY says now."""
        return cls(is_verifying())

    def check(self, pass_name: str, draft: LoweringDraft) -> None:
        """Checks what a pass made.

        Raises:
            BrokenPlanError: It breaks a rule.
        """
        if not self._is_on:
            return
        for where, rule, what in self.faults(draft):
            raise BrokenPlanError(pass_name, where, rule.value, what)

    def faults(self, draft: LoweringDraft) -> Iterator[Fault]:
        """The breaches of a draft."""
        yield from _graph_faults(draft)
        yield from _layer_faults(draft)
        if draft.context is not None:
            yield from _value_faults(draft)
            for breach in self._steps.faults(draft.steps, _surroundings(draft)):
                yield breach.step, breach.rule, breach.what


def _graph_faults(draft: LoweringDraft) -> Iterator[Fault]:
    known: set[str] = set()
    for node in draft.nodes:
        if late := [source.name for source in node.all_input_nodes if source.name not in known]:
            yield (
                f"the node {node.name}",
                DraftRule.ORDER,
                f"it reads {late[0]}, which comes later or nowhere",
            )
        known.add(node.name)
    for output in draft.short.outputs:
        if isinstance(output.value, str) and output.value not in known:
            yield "the call's result", DraftRule.NAMES, f"there is no node {output.value}"
    everywhere = {node.name for node in draft.graph.graph.nodes}
    for word, names in (("held channels last", draft.weights), ("computed by the host", draft.host)):
        if missing := sorted(names - everywhere):
            yield "the graph", DraftRule.NAMES, f"{missing[0]} is {word} and no node"


def _layer_faults(draft: LoweringDraft) -> Iterator[Fault]:
    present = {node.name for node in draft.nodes}
    everywhere = {node.name for node in draft.graph.graph.nodes}
    told = {name for chain in draft.layers for layer in chain.names for name in layer}
    if lost := sorted(everywhere - present - told):
        yield "the graph", DraftRule.LAYERS, f"{lost[0]} is of no layer and left out"
    for chain in draft.layers:
        for number, layer in enumerate(chain.names):
            for name in layer:
                if (name in present) is not (number < chain.n_kept):
                    fate = "lowered, too" if name in present else "left out"
                    yield (
                        f"layer {number} of a chain that keeps {chain.n_kept}",
                        DraftRule.LAYERS,
                        f"{name} is {fate}",
                    )


def _value_faults(draft: LoweringDraft) -> Iterator[Fault]:
    values = draft.lowered.values
    for node in draft.nodes:
        if node.op == "output":
            continue
        if node.name not in values:
            yield f"the node {node.name}", DraftRule.VALUES, "it has none"
        for value in _views(values.get(node.name)):
            if value.buffer not in draft.lowered.buffers:
                yield f"the node {node.name}", DraftRule.NAMES, f"there is no buffer {value.buffer}"


def _views(value: object) -> Iterator[TensorView]:
    if isinstance(value, TensorView):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _views(item)


def _surroundings(draft: LoweringDraft) -> Surroundings:
    values = draft.lowered.values
    written = {*draft.graph.overwritten, *(name for node in draft.nodes for name in _written_by(node))}
    mutated = {view.buffer for name in written for view in _views(values.get(name))}
    kept = {result.buffer for result in draft.results if isinstance(result, View)}
    return Surroundings(draft.buffers, draft.graph.examples.keys(), kept, mutated)


def _written_by(node: fx.Node) -> Iterator[str]:
    """What an operator of the graph writes into itself: one of the user's own that nobody could make functional."""
    if not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.is_mutable:
        return
    for place, parameter in enumerate(node.target._schema.arguments):
        value = node.args[place] if place < len(node.args) else node.kwargs.get(parameter.name)
        if parameter.alias_info is not None and parameter.alias_info.is_write:
            parts = value if isinstance(value, list | tuple) else [value]
            yield from (part.name for part in parts if isinstance(part, fx.Node))
