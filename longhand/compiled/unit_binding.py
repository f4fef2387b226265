"""A unit as a function of what a frontend passes with each call: the arguments, and the weights.

The same graph may serve many layers: each call puts the user's own tensors where the unit's module has its weights. A
recording reads weights where they lie, so where calls are recorded as CUDA graphs each layer has a module of its own.

A call whose weights are the last one's, where they lay then, neither places them nor lets the unit look at them again:
hundreds of tensors take longer than a small model's kernels. Guards have compared their types, sizes and strides.

A backward pass reads weights in the module that its forward pass ran with. Where it runs in another thread, that module
holds its weights until it is done: a call that brings others meanwhile gets a new module.
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from longhand.capture.graph import CapturedGraph, InputKind
from longhand.compiled.call_state import GraphFunction, arguments_of
from longhand.compiled.filters_of_call import FiltersOfCall, Slot
from longhand.lower.layouts import input_strides
from longhand.options import Device

__all__ = ["ModulesOfThread", "bind_unit", "keep_while_backward_reads", "look_only_where_moved"]

_ARGUMENTS = (InputKind.ARGUMENT, InputKind.SIZE)
_MOST_LAYERS = 64  # with a module of their own; others share the first one's, and are not replayed
_BOUND = "bound weights"  # where a unit's module has its BoundModule: no attribute's name


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
    look_only_where_moved(unit)
    keep_while_backward_reads(unit)
    modules = ModulesOfThread(unit, weights, device, is_recorded)
    places = [i for i, _ in weights]
    spread = _spread_out(graph)

    def run(*inputs: Any) -> Any:
        bound = modules.holding(
            inputs, [inputs[i].contiguous() if i in spread else inputs[i] for i in places]
        )
        # Not its call: hooks of every module's are for the user's modules.
        with bound.filters:
            return bound.module.forward(*[inputs[i] for i in arguments])

    return run


def look_only_where_moved(unit: Any) -> None:
    """Puts a check in the place of the unit's own check of weights that asks it only for weights that are not known."""
    names = vars(sys.modules[unit.__module__])
    look = names.get("check_weights")
    if look is None or hasattr(look, "asks"):
        return

    def check_weights(module: nn.Module, device: torch.device) -> None:
        bound = module.__dict__.get(_BOUND)
        if bound is None or not bound.is_known:
            look(module, device)
            if bound is not None:
                bound.know()

    check_weights.asks = look  # type: ignore[attr-defined]
    names["check_weights"] = check_weights


def keep_while_backward_reads(unit: Any) -> None:
    """Lets the backward passes of a unit tell its module when they read weights in another thread than its calls'."""
    for function in vars(sys.modules[unit.__module__]).values():
        if isinstance(function, type) and issubclass(function, torch.autograd.Function):
            backward = function.backward
            if not hasattr(backward, "tells"):
                function.backward = staticmethod(_telling(backward))  # type: ignore[method-assign]


def _telling(backward: Callable[..., Any]) -> Callable[..., Any]:
    def told(ctx: Any, *gradients: torch.Tensor) -> Any:
        bound = _read_module(ctx)
        if bound is None:
            return backward(ctx, *gradients)
        is_here = bound.thread == threading.get_ident()
        with contextlib.nullcontext() if is_here else bound.read_elsewhere(), bound.filters:
            return bound.filters.as_parameters_lie(bound.module, backward(ctx, *gradients))

    told.tells = True  # type: ignore[attr-defined]
    return told


def _read_module(ctx: Any) -> BoundModule | None:
    """Whose weights the backward pass reads, if it does: of a step that the unit may record, or of a plain one."""
    module = ctx.step.graph.module if hasattr(ctx, "step") else ctx.kept[0] if hasattr(ctx, "kept") else None
    return None if module is None else module.__dict__.get(_BOUND)


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


@dataclasses.dataclass(eq=False)
class BoundModule:
    """A unit's module, and where the weights of a call belong in it.

    Attributes:
        module: The unit's.
        slots: Of each weight the dict that holds it, the module's own dict, where it is found at once, and its name.
        is_recorded: What was recorded is told by the unit's check where weights lie: it sees each move.
        filters: Brings those of convolutions channels last, several at once.
        held: The weights of the last call; addresses where they lay.
        is_known: Whether the unit's own check has seen weights at these addresses.
        thread: Which one calls the module.
    """

    module: nn.Module
    slots: tuple[Slot, ...]
    is_recorded: bool
    filters: FiltersOfCall
    held: Sequence[torch.Tensor] = ()
    addresses: tuple[int, ...] | None = None
    is_known: bool = False
    thread: int = dataclasses.field(default_factory=threading.get_ident)
    _readers: int = 0  # backward passes that read it in other threads
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    _seen: set[tuple[int, ...]] = dataclasses.field(default_factory=set)

    @classmethod
    def made(
        cls,
        unit: Callable[[], nn.Module],
        weights: Sequence[tuple[int, str]],
        device: Device,
        is_recorded: bool,
    ) -> BoundModule:
        """A new module of the unit's; `weights` tells the number of the input and the path of each."""
        module = unit()
        places = []
        for _, path in weights:
            holder_path, _, name = path.rpartition(".")
            holder = module.get_submodule(holder_path)
            slots = holder._parameters if name in holder._parameters else holder._buffers
            places.append((slots, holder.__dict__, name))
        given = {(id(slots), name) for slots, _, name in places}
        for part in module.modules():  # what comes with no call lies where the unit runs
            for name, value in part._buffers.items():
                if value is not None and (id(part._buffers), name) not in given:
                    part._buffers[name] = value.to(device.value)
        is_brought = device is Device.CUDA and not is_recorded
        bound = cls(module, tuple(places), is_recorded, FiltersOfCall(places if is_brought else ()))
        module.__dict__[_BOUND] = bound
        return bound

    def hold(self, weights: Sequence[torch.Tensor]) -> bool:
        """Puts the weights of a call in their places; False where others are being read there by another thread."""
        addresses = (*map(torch.Tensor.data_ptr, weights),)
        if addresses == self.addresses and all(map(operator.is_, weights, self.held)):
            return True
        with self._lock:
            if self._readers:
                return False
            for (slots, attributes, name), weight in zip(self.slots, weights, strict=True):
                slots[name] = weight
                if name in attributes:
                    attributes[name] = weight
        self.held = weights
        self.filters.look_at(weights)
        self.is_known = (self.is_known and addresses == self.addresses) or addresses in self._seen
        self.addresses = addresses
        return True

    @contextlib.contextmanager
    def read_elsewhere(self) -> Iterator[None]:
        """While another thread reads its weights."""
        with self._lock:
            self._readers += 1
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1

    def know(self) -> None:
        """The unit's check has seen the weights."""
        self.is_known = True
        if not self.is_recorded and self.addresses is not None and len(self._seen) < _MOST_LAYERS:
            self._seen.add(self.addresses)


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
        self._made_of = unit, weights, device, is_recorded
        self._first = BoundModule.made(*self._made_of)
        self._ends = (weights[0][0], weights[-1][0]) if is_recorded and weights else None
        self._of_layer: dict[tuple[int, int], BoundModule] = {}

    def holding(self, inputs: Sequence[Any], weights: Sequence[torch.Tensor]) -> BoundModule:
        """The module for a call, which holds these weights."""
        bound = self.of(inputs)
        if not bound.hold(weights):
            bound = self._renewed(bound)
            bound.hold(weights)
        return bound

    def of(self, inputs: Sequence[Any]) -> BoundModule:
        """The module for a call, whatever it holds."""
        if self._ends is None:
            return self._first
        first, last = self._ends
        layer = id(inputs[first]), id(inputs[last])
        bound = self._of_layer.get(layer)
        if bound is None:
            if len(self._of_layer) >= _MOST_LAYERS:
                return self._first
            bound = BoundModule.made(*self._made_of) if self._of_layer else self._first
            self._of_layer[layer] = bound
        return bound

    def _renewed(self, bound: BoundModule) -> BoundModule:
        """A new module in the place of one that a backward pass reads."""
        new = BoundModule.made(*self._made_of)
        if bound is self._first:
            self._first = new
        self._of_layer = {layer: new if one is bound else one for layer, one in self._of_layer.items()}
        return new
