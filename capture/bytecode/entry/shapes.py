"""Sizes: static at first, symbolic from the second value on; what was decided about symbols becomes guards."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch import fx

from longhand.capture import torch_private
from longhand.capture.bytecode.entry.breaks import NeedsFixedSizes, SkipFrame
from longhand.capture.frontends.dynamo_run import records_gradients

__all__ = ["DynamicSizes", "size_guards"]


@dataclasses.dataclass
class DynamicSizes:
    """Which dimensions of which inputs are symbolic in the next capture of one frame.

    Attributes:
        dynamic: None: those that were seen to differ; True: all; False: none.
        seen: The sizes seen so far, by the input's path; None for a dimension that differed.
        equal_sizes_are_one: Whether sizes that are equal at capture share a symbol.
        held: What buffers of whole numbers were when they were met first, by whose call that was and their path; None
            for one that was something else later.
    """

    dynamic: bool | None = None
    seen: dict[str, list[int | None]] = dataclasses.field(default_factory=dict)
    equal_sizes_are_one: bool = True
    held: dict[tuple[int, str], Any] = dataclasses.field(default_factory=dict)

    def is_steady(self, called: object, name: str, value: torch.Tensor) -> bool:
        """Whether a module's buffer is what it was in earlier captures: what counts calls, say, is not.

        Args:
            called: Whose call is captured: many modules share the code.
            name: The buffer's path.
            value: The buffer.
        """
        key, now = (id(called), name), value.tolist()
        if self.held.setdefault(key, now) != now:
            self.held[key] = None
        return self.held[key] is not None

    def static_dims(self, name: str, value: torch.Tensor, *, is_held: bool = False) -> tuple[bool, ...]:
        """For each dimension whether it is to be static. Sizes 0 and 1 always are; what a module holds is, too.

        Args:
            name: The input's path.
            value: The input.
            is_held: It is a module's buffer: no argument of a call tells its sizes.
        """
        marked: set[int] = getattr(value, "_dynamo_dynamic_indices", set())
        sizes = list(value.shape)
        known = self.seen.setdefault(name, list(sizes))
        if len(known) == len(sizes):
            for position, size in enumerate(sizes):
                if known[position] != size:
                    known[position] = None
        else:
            known = self.seen[name] = list(sizes)
        is_held = is_held or isinstance(value, torch.nn.Parameter)
        if self.dynamic is False or is_held or not value.is_contiguous():
            return (True,) * len(sizes)
        return tuple(
            size < 2 or not (self.dynamic or known[position] is None or position in marked)
            for position, size in enumerate(sizes)
        )

    def fixed(self) -> DynamicSizes:
        """The same without symbols: each size is compiled for, up to the limit."""
        return dataclasses.replace(self, dynamic=False)

    def require_known(self, module: fx.GraphModule, inputs: Sequence[Any], fakes: Sequence[Any]) -> None:
        """A backward pass made ahead of time knows its sizes: symbols that nobody asked for are taken back.

        Raises:
            NeedsFixedSizes: Capture is to begin again, with `fixed`.
        """
        is_symbolic = any(isinstance(size, torch.SymInt) for fake in fakes for size in fake.shape)
        carries = any(isinstance(value, torch.Tensor) and value.requires_grad for value in inputs)
        if self.dynamic is None and is_symbolic and carries and records_gradients(module):
            raise NeedsFixedSizes

    def fake(self, mode: torch_private.FakeTensorMode, value: torch.Tensor, static: tuple[bool, ...]) -> Any:
        """A fake tensor whose sizes are symbols where they are not static."""
        if all(static):
            return mode.from_tensor(value, static_shapes=True)
        return mode.from_tensor(value, symbolic_context=torch_private.symbolic_sizes(static))


def size_guards(environment: Any, inputs: list[tuple[str, Any]]) -> list[str]:
    """Conditions on the sizes of inputs under which the graph is right.

    Args:
        environment: The ShapeEnv of the capture.
        inputs: (expression, fake tensor) of each input.

    Raises:
        SkipFrame: A condition cannot be written down.
    """
    names: dict[sympy.Symbol, str] = {}
    conditions: list[str] = []
    for expression, fake in inputs:
        for dim, size in enumerate(fake.shape):
            if not isinstance(size, torch.SymInt):
                if any(isinstance(s, torch.SymInt) for s in fake.shape):
                    conditions.append(f"{expression}.shape[{dim}] == {size}")
                continue
            known = torch_private.symbolic_expression(size)
            place = f"{expression}.shape[{dim}]"
            if isinstance(known, sympy.Symbol) and known not in names:
                names[known] = place
            else:
                conditions.append((place, known))  # type: ignore[arg-type]
    texts = []
    for condition in conditions:
        if isinstance(condition, str):
            texts.append(condition)
        else:
            place, known = condition
            texts.append(f"{place} == {_text(known, names)}")
    for symbol, place in names.items():
        lower, upper = torch_private.symbol_range(environment, symbol)
        texts.append(f"{place} >= {max(2, int(lower))}")
        if upper.is_Integer and int(upper) < 2**60:
            texts.append(f"{place} <= {int(upper)}")
    for guard in environment.guards:
        condition = environment.replace(guard.expr)
        if condition is not sympy.true:
            texts.append(f"({_text(condition, names)})")
    for symbol, known in environment.replacements.items():
        if symbol in names:
            texts.append(f"{names[symbol]} == {_text(known, names)}")
    return list(dict.fromkeys(texts))


def size_text(size: Any, inputs: list[tuple[str, Any]]) -> str:
    """A symbolic size as Python text over the sizes of inputs."""
    names: dict[sympy.Symbol, str] = {}
    for expression, fake in inputs:
        for dim, known in enumerate(fake.shape):
            if isinstance(known, torch.SymInt):
                symbol = torch_private.symbolic_expression(known)
                if isinstance(symbol, sympy.Symbol):
                    names.setdefault(symbol, f"{expression}.shape[{dim}]")
    return _text(torch_private.symbolic_expression(size), names)


def _text(expression: Any, names: dict[sympy.Symbol, str]) -> str:
    if isinstance(expression, sympy.Symbol):
        if expression not in names:
            raise SkipFrame(f"a size, {expression}, depends on data")
        return names[expression]
    if isinstance(expression, sympy.Integer):
        return str(int(expression))
    if expression is sympy.true:
        return "True"
    if expression is sympy.false:
        return "False"
    parts = [_text(argument, names) for argument in expression.args]
    kind = type(expression).__name__
    joiners = {"Add": " + ", "Mul": " * ", "And": " and ", "Or": " or ", "Pow": " ** "}
    comparisons = {
        "Equality": "==",
        "Unequality": "!=",
        "StrictLessThan": "<",
        "LessThan": "<=",
        "StrictGreaterThan": ">",
        "GreaterThan": ">=",
    }
    if kind == "Pow" and not (isinstance(expression.args[1], sympy.Integer) and expression.args[1] >= 0):
        raise SkipFrame(f"a condition on sizes cannot be printed: {expression}")
    if kind in joiners:
        return "(" + joiners[kind].join(parts) + ")"
    if kind in comparisons:
        return f"({parts[0]} {comparisons[kind]} {parts[1]})"
    if kind in ("FloorDiv", "CleanDiv"):
        return f"({parts[0]} // {parts[1]})"
    if kind in ("Mod", "PythonMod"):
        return f"({parts[0]} % {parts[1]})"
    if kind in ("Max", "Min"):
        return f"{kind.lower()}({', '.join(parts)})"
    if kind == "Not":
        return f"(not {parts[0]})"
    raise SkipFrame(f"a condition on sizes cannot be printed: {expression}")
