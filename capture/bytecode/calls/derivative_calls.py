"""Calls that differentiate what the code computed: autograd runs them, behind a break.

A unit's backward pass has no derivative of its own. Where the code asks for one (create_graph=True), everything that
led there must have been run by eager: the whole function, and what it calls.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

import torch

from longhand.capture.bytecode.calls.rules import Rule, Rules
from longhand.capture.bytecode.entry.breaks import LeftWithCalls, Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.tracked import Const, Tensor, Value

__all__ = ["RULES", "asks_for_second_derivative", "leave_second_derivative", "refuse_backward"]

RULES = Rules()
_CREATES = "create_graph"
_HINT = "Compile on its own what no such gradient goes through."
_functional: Any = torch.autograd.functional
# Where each takes create_graph; what differentiates twice by itself has none.
_PLACES: dict[Any, tuple[str, int | None]] = {
    torch.autograd.grad: ("torch.autograd.grad", 4),
    torch.autograd.backward: ("torch.autograd.backward", 3),
    _functional.vjp: ("torch.autograd.functional.vjp", 3),
    _functional.jacobian: ("torch.autograd.functional.jacobian", 2),
    _functional.jvp: ("torch.autograd.functional.jvp", None),
    _functional.hessian: ("torch.autograd.functional.hessian", None),
    _functional.hvp: ("torch.autograd.functional.hvp", None),
    _functional.vhp: ("torch.autograd.functional.vhp", None),
}
# What the code does next is known, whatever else it says: no graph of gradients is made there.
_BREAKS = frozenset(f"{title} is called" for title, _ in _PLACES.values())
_BACKWARD = 3  # Tensor.backward(self, gradient, retain_graph, create_graph)


def _rule(title: str, place: int | None) -> Rule:
    def rule(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if place is None:
            raise _left(trace, f"{title} is called")
        if _creates_graph(trace, args, kwargs, place):
            raise _left(trace, f"{title} is called with {_CREATES}=True")
        raise Unsupported(f"{title} is called")

    return rule


for _function, (_title, _place) in _PLACES.items():
    RULES[_function] = _rule(_title, _place)


def refuse_backward(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> None:
    """Raises for ``tensor.backward(...)`` where it makes a graph of the gradients; any other is a break as well."""
    if any(isinstance(trace.force(one), Tensor) for one in args[:1]) and _creates_graph(
        trace, args, kwargs, _BACKWARD
    ):
        raise _left(trace, f"Tensor.backward is called with {_CREATES}=True")


def _creates_graph(trace: Trace, args: list[Value], kwargs: dict[str, Value], place: int) -> bool:
    """Whether a graph of the gradients may be made; autograd.grad's None means no, too."""
    given = kwargs.get(_CREATES, args[place] if place < len(args) else Const(False))
    value = trace.force(given)
    return bool(value.value) if isinstance(value, Const) else True


def _left(trace: Trace, what: str) -> LeftWithCalls:
    return LeftWithCalls(f"{what}, and no unit has a second derivative", _HINT, trace.where())


def asks_for_second_derivative(code: CodeType) -> bool:
    """Whether a call in this code, or in a function that it makes, is given create_graph by name."""
    for constant in code.co_consts:
        if isinstance(constant, tuple) and _CREATES in constant:
            return True
        if isinstance(constant, CodeType) and asks_for_second_derivative(constant):
            return True
    return False


def leave_second_derivative(codes: list[CodeType], error: Unsupported) -> None:
    """Looks at a frame that is to break: the graph before it may be differentiated twice behind it.

    Args:
        codes: Of the frame, and of what was interpreted in it.
        error: What breaks it.

    Raises:
        LeftWithCalls: One of them asks for a graph of gradients, and gradients are recorded.
    """
    if not torch.is_grad_enabled() or error.reason in _BREAKS:
        return
    for code in codes:
        if asks_for_second_derivative(code):
            raise LeftWithCalls(
                f"{error.reason}, in a function that asks for a second derivative ({_CREATES}), which no unit has",
                error.hint,
                error.where,
            )
