"""Eager where no operation's numbers depend on how what it is given lies in memory: PyTorch's own mistakes, settled.

Some operations of PyTorch are wrong for a layout: batch norm's derivative on the CPU, of a contiguous image of one
column, where the gradient lies channels last. In float64 they are as wrong. An operation that gives other numbers for
the same numbers in contiguous memory is wrong once; its decomposition into simple operations, which shares no code
with it, tells when.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.utils._pytree as pytree

from longhand.capture.torch_tracing import TorchDispatchMode
from longhand.lower.sizes import contiguous_strides
from longhand.verify.comparison import distance

__all__ = ["SettledLayouts", "wrong_in_torch"]

_PLAINLY = 8  # times as far from the decomposition in float64 as the other: chance is not that


class SettledLayouts(TorchDispatchMode):
    """While inside, operations that are wrong for a layout give what they give for contiguous memory.

    What is settled lies in memory as before. Where the decomposition agrees with neither, or there is none, nothing
    is changed.

    Attributes:
        wrong: How often each operation was wrong for the layout of what it was given: ``native_batch_norm_backward``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wrong: Counter[str] = Counter()

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        decomposed = _decompositions().get(func) if _gives_numbers(func) else None
        if decomposed is None or all(map(_is_contiguous, _floats((args, kwargs)))):
            return func(*args, **kwargs)
        plain_args, plain_kwargs = pytree.tree_map_only(torch.Tensor, _contiguous, (args, kwargs))
        result, plain = func(*args, **kwargs), func(*plain_args, **plain_kwargs)
        if _is_far(result, plain):
            exact_args, exact_kwargs = pytree.tree_map_only(torch.Tensor, _double, (plain_args, plain_kwargs))
            exact = decomposed(*exact_args, **exact_kwargs)
            if _error(plain, exact) * _PLAINLY < _error(result, exact):
                self.wrong[func._schema.name.partition("::")[2]] += 1
                for one, other in _pairs(result, plain):
                    one.copy_(other)
        return result


def wrong_in_torch(operations: Iterable[str]) -> str:
    """What is wrong with operations of PyTorch, and what is right instead."""
    return (
        f"PyTorch is wrong there ({', '.join(sorted(operations))}, for how what it is given lies in memory); what it "
        "gives for the same in contiguous memory is right, says its decomposition, and the unit is held against that"
    )


@functools.cache
def _decompositions() -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    table = torch.export.default_decompositions().materialize()
    return {op: function for op, function in table.items() if isinstance(op, torch._ops.OpOverload)}


def _gives_numbers(func: torch._ops.OpOverload) -> bool:
    """Whether an operation makes new tensors whose numbers are told by what it is given."""
    schema = func._schema
    is_fresh = not schema.is_mutable and all(one.alias_info is None for one in schema.returns)
    return is_fresh and torch.Tag.nondeterministic_seeded not in func.tags and "empty" not in schema.name


def _floats(tree: Any) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves(tree)
    return [one for one in leaves if isinstance(one, torch.Tensor) and one.is_floating_point()]


def _is_contiguous(tensor: torch.Tensor) -> bool:
    """Also in dimensions of one element, where is_contiguous() takes any stride, and operations may not."""
    return tensor.layout is not torch.strided or tensor.stride() == contiguous_strides(tensor.shape)


def _contiguous(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if _is_contiguous(tensor) else tensor.clone(memory_format=torch.contiguous_format)


def _double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _pairs(result: Any, other: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The floats of a result beside those of another, which may hold some that were not asked for."""
    leaves = zip(pytree.tree_leaves(result), pytree.tree_leaves(other), strict=True)
    return [pair for pair in leaves if isinstance(pair[0], torch.Tensor) and pair[0].is_floating_point()]


def _is_far(result: Any, other: Any) -> bool:
    """Whether two results differ by more than roundings in another order."""
    return any(
        distance(one, plain) > math.sqrt(torch.finfo(one.dtype).eps) * float(plain.abs().max())
        for one, plain in _pairs(result, other)
        if one.numel()
    )


def _error(result: Any, exact: Any) -> float:
    """The largest distance from the exact result."""
    return max(distance(one, other) for one, other in _pairs(result, exact))
