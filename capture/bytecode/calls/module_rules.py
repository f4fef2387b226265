"""`module.to(...)` of a module that is of that type, and there, already: nothing happens; the module comes back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from longhand.capture.bytecode.calls.rules import Rules
from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.constants import as_python
from longhand.capture.bytecode.values.tracked import Dict, Obj, Tensor, Value

__all__ = ["RULES"]

RULES = Rules()


@RULES.of(torch.nn.Module.to)
def _to(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    module = trace.force(args[0])
    if not isinstance(module, Obj):
        raise Unsupported("a module that the code made is cast or moved")
    given = [*map(trace.force, args[1:]), *map(trace.force, kwargs.values())]
    asked = [as_python(trace, value) for value in given if not isinstance(value, Tensor)]
    if len(asked) < len(given) or not all(isinstance(one, torch.dtype | torch.device) for one in asked):
        raise Unsupported("a module is cast or moved by more than a dtype and a device")
    if any(type(part)._apply is not torch.nn.Module._apply for part in module.value.modules()):
        raise Unsupported("a module that says itself how it is cast is cast or moved")
    if not all(_is_as_asked(tensor.fake, asked) for tensor in _tensors(trace, module)):
        raise Unsupported("a module is cast or moved", "Do it once, outside of what is compiled.")
    return module


def _is_as_asked(tensor: torch.Tensor, asked: list[Any]) -> bool:
    has_fraction = tensor.is_floating_point() or tensor.is_complex()
    return all(
        tensor.device == one if isinstance(one, torch.device) else not has_fraction or tensor.dtype is one
        for one in asked
    )


def _tensors(trace: Trace, module: Obj) -> Iterator[Tensor]:
    """Parameters and buffers, as inputs of the graph: guards hold their types."""
    if module in trace.attributes:
        raise Unsupported("a module whose attributes were set is cast or moved")
    for store in ("_parameters", "_buffers", "_modules"):
        held = trace.get_attribute(module, store)
        assert isinstance(held, Dict)
        trace.guard_keys(held)
        for value in map(trace.force, held.items.values()):
            if isinstance(value, Tensor):
                yield value
            elif isinstance(value, Obj):
                yield from _tensors(trace, value)
