"""LONGHAND_VERIFY=1: the rules that a program in the making keeps after every pass; the tests always check them.

What a finished program must be besides (accesses inside their buffers, masks that cover, dtypes that agree) is checked
where schedule takes it over, by the rules of plans.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Iterator

from longhand.errors import BrokenPlanError
from longhand.lower.draft import LoweringDraft
from longhand.lower.ir import BufferKind, Extent, Extern, Load, Reduce, Step, Store, View, arguments
from longhand.lower.views import TensorView

__all__ = ["DraftRule", "faults", "verify"]


class DraftRule(enum.Enum):
    """What holds of every draft, after every pass."""

    ORDER = "what is read comes earlier"
    NAMES = "names of nodes, buffers and axes exist"
    VALUES = "every node that is lowered has a value"
    LAYERS = "a layer is in the program or told by one that is"


Fault = tuple[str, DraftRule, str]  # where, which rule, how


def verify(pass_name: str, draft: LoweringDraft) -> None:
    """Checks what a pass made, if LONGHAND_VERIFY says so.

    Raises:
        BrokenPlanError: It breaks a rule.
    """
    if os.environ.get("LONGHAND_VERIFY", "") in ("", "0"):
        return
    for where, rule, what in faults(draft):
        raise BrokenPlanError(pass_name, where, rule.value, what)


def faults(draft: LoweringDraft) -> Iterator[Fault]:
    """The breaches of a draft."""
    yield from _graph_faults(draft)
    yield from _layer_faults(draft)
    if draft.context is not None:
        yield from _value_faults(draft)
        yield from _step_faults(draft)


def _graph_faults(draft: LoweringDraft) -> Iterator[Fault]:
    known: set[str] = set()
    for node in draft.nodes:
        if late := [source.name for source in node.all_input_nodes if source.name not in known]:
            yield f"the node {node.name}", DraftRule.ORDER, f"it reads {late[0]}, which comes later or nowhere"
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
                    yield f"layer {number} of a chain that keeps {chain.n_kept}", DraftRule.LAYERS, f"{name} is {fate}"


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


def _step_faults(draft: LoweringDraft) -> Iterator[Fault]:
    buffers = draft.buffers
    written = {name for name, buffer in buffers.items() if buffer.kind is not BufferKind.INTERMEDIATE}
    for number, step in enumerate(draft.steps):
        where = f"step {number}"
        yield from ((where, DraftRule.NAMES, what) for what in _unknown_axes(step))
        made: set[str] = set()
        for name, is_read in _accesses(step):
            if name not in buffers:
                yield where, DraftRule.NAMES, f"there is no buffer {name}"
            elif is_read and name not in written | made:
                yield where, DraftRule.ORDER, f"nothing has written {name}"
            made |= set() if is_read else {name}
        written |= made
    for result in draft.results:
        if isinstance(result, View) and result.buffer not in written:
            yield "the call's result", DraftRule.ORDER, f"nothing has written {result.buffer}"


def _accesses(step: Step) -> Iterator[tuple[str, bool]]:
    """(buffer, whether it is read), in order."""
    if isinstance(step, Extern):
        yield from ((view.buffer, True) for view in step.views())
        yield from ((name, False) for name in (*step.outputs, *step.mutates) if name)
        return
    for value in step.body:
        if isinstance(value, Load | Store):
            yield value.buffer, isinstance(value, Load)


def _unknown_axes(step: Step) -> Iterator[str]:
    if isinstance(step, Extern):
        return
    names = {axis.name for axis in step.axes}
    for position, value in enumerate(step.body):
        if late := [argument for argument in arguments(value) if argument >= position]:
            yield f"value {position} reads value {late[0]}"
        used: Iterable[str] = ()
        if isinstance(value, Reduce | Extent):
            used = value.axes
        elif isinstance(value, Load | Store):
            used = [axis for axis, _ in value.index.axes]
        if unknown := [axis for axis in used if axis not in names]:
            yield f"there is no axis {unknown[0]}"
