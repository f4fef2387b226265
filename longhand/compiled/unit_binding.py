"""A unit as a function of what a frontend passes with each call: the arguments, and the weights.

The same graph may serve many layers: each call puts the user's own tensors where the unit's module has its weights. A
recording reads weights where they lie, so where calls are recorded as CUDA graphs each layer has a module of its own.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from longhand.capture.graph import CapturedGraph, InputKind
from longhand.compiled.call_state import GraphFunction, arguments_of
from longhand.lower.layouts import input_strides
from longhand.options import Device

__all__ = ["ModulesOfThread", "bind_unit"]

_ARGUMENTS = (InputKind.ARGUMENT, InputKind.SIZE)
_MOST_LAYERS = 64  # with a module of their own; others share the first one's, and are not replayed


def bind_unit(unit: Any, graph: CapturedGraph, device: Device, *, is_recorded: bool) -> GraphFunction:
    """The unit as a function of the graph's inputs.

    Args:
        unit: The function or the class of the unit.
        graph: What the unit was made of.
        device: The unit's.
        is_recorded: Calls are recorded as CUDA graphs.
    """
    given = [entry for entry in graph.inputs if entry.kind is not InputKind.CONSTANT]
    arguments = [i for i, entry in enumerate(given) if entry.kind in _ARGUMENTS]
    if not graph.is_module:
        take = arguments_of(graph)
        return lambda *inputs: unit(*take(inputs))
    weights = [(i, entry.target) for i, entry in enumerate(given) if entry.kind not in _ARGUMENTS]
    modules = ModulesOfThread(unit, weights, device, is_recorded)
    spread = _spread_out(graph)

    def run(*inputs: Any) -> Any:
        bound = modules.of(inputs)
        for slots, name, i in bound.slots:
            slots[name] = inputs[i].contiguous() if i in spread else inputs[i]
        return bound.module(*(inputs[i] for i in arguments))

    return run


def _spread_out(graph: CapturedGraph) -> frozenset[int]:
    """Weights that do not lie in memory as the unit holds them (rows of a larger table, one row repeated).

    What the call writes into is not among them: the unit refuses it.
    """
    values = {node.name: node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"}
    written = {mutation.input_node for mutation in graph.mutations}
    given = [entry for entry in graph.inputs if entry.kind is not InputKind.CONSTANT]
    return frozenset(
        i
        for i, entry in enumerate(given)
        if entry.kind not in _ARGUMENTS
        and entry.node not in written
        and input_strides(entry, values[entry.node]) != values[entry.node].stride()
    )


@dataclasses.dataclass(frozen=True)
class BoundModule:
    """A unit's module, and where the weights of a call belong in it.

    Attributes:
        module: The unit's.
        slots: Of each weight the dict that holds it, its name there, and the number of the input.
    """

    module: nn.Module
    slots: tuple[tuple[dict[str, Any], str, int], ...]

    @classmethod
    def made(
        cls, unit: Callable[[], nn.Module], weights: Sequence[tuple[int, str]], device: Device
    ) -> BoundModule:
        """A new module of the unit's; `weights` tells the number of the input and the path of each."""
        module = unit()
        found = []
        for i, path in weights:
            holder_path, _, name = path.rpartition(".")
            holder = module.get_submodule(holder_path)
            found.append((holder._parameters if name in holder._parameters else holder._buffers, name, i))
        given = {(id(slots), name) for slots, name, _ in found}
        for part in module.modules():  # what comes with no call lies where the unit runs
            for name, value in part._buffers.items():
                if value is not None and (id(part._buffers), name) not in given:
                    part._buffers[name] = value.to(device.value)
        return cls(module, tuple(found))


class ModulesOfThread(threading.local):
    """The modules of a unit that this thread calls: no other thread may see whose weights they hold.

    Args:
        unit: Makes one.
        weights: Of each weight the number of the input and its path in the module.
        device: The unit's.
        is_recorded: Each layer, told by its first and its last weight, has a module of its own.
    """

    def __init__(
        self,
        unit: Callable[[], nn.Module],
        weights: Sequence[tuple[int, str]],
        device: Device,
        is_recorded: bool,
    ) -> None:
        self._made_of = unit, weights, device
        self._first = BoundModule.made(unit, weights, device)
        self._ends = (weights[0][0], weights[-1][0]) if is_recorded and weights else None
        self._of_layer: dict[tuple[int, int], BoundModule] = {}

    def of(self, inputs: Sequence[Any]) -> BoundModule:
        """The module for a call."""
        if self._ends is None:
            return self._first
        first, last = self._ends
        layer = id(inputs[first]), id(inputs[last])
        found = self._of_layer.get(layer)
        if found is None:
            if len(self._of_layer) >= _MOST_LAYERS:
                return self._first
            found = BoundModule.made(*self._made_of) if self._of_layer else self._first
            self._of_layer[layer] = found
        return found
