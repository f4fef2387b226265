"""Calls that no trace can follow, since they look at data on their way, as ops that a trace takes whole.

torch's own op would be taken apart while it is traced. Each op here stands for one of torch's: in a trace its body only
says what the results look like, and `finish` puts torch's op in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from longhand.capture import torch_private

__all__ = ["NAMESPACE", "NARROW", "define", "least_squares", "narrow", "original"]

NAMESPACE = "longhand_whole"
_LIBRARY = torch.library.Library(NAMESPACE, "DEF")
aten = torch.ops.aten
_ORIGINAL: dict[Any, torch._ops.OpOverload] = {}


def define(
    schema: str, looks: Callable[..., Any], stands_for: torch._ops.OpOverload | None = None
) -> torch._ops.OpOverload:
    """An op that a trace takes whole.

    Args:
        schema: Its name, arguments and results.
        looks: What its results look like.
        stands_for: torch's op; None where it stays what it is.
    """
    name = schema.partition("(")[0]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, looks, "CompositeImplicitAutograd")
    overload: torch._ops.OpOverload = getattr(getattr(torch.ops, NAMESPACE), name).default
    if stands_for is not None:
        _ORIGINAL[overload] = stands_for
    return overload


def original(target: Any) -> torch._ops.OpOverload | None:
    """torch's op that an op of this module stands for; None for every other."""
    return _ORIGINAL.get(target)


# A part whose place a tensor tells


def _part(x: torch.Tensor, dim: int, positions: torch.Tensor) -> torch.Tensor:
    return x.narrow(dim, 0, positions.shape[0])


# A view of x, as the functional graph follows them: `capture.functionalize.views` knows how it is taken and written.
NARROW = define("part_at(Tensor(a) x, int dim, Tensor positions) -> Tensor(a)", _part)


def narrow(x: torch.Tensor, dim: int, start: Any, length: Any) -> torch.Tensor:
    """``torch.narrow``, whose start may be a tensor."""
    plain = isinstance(length, int) and all(isinstance(size, int) for size in x.shape)
    if not isinstance(start, torch.Tensor) or start.dim() != 0 or not plain or not -x.dim() <= dim < x.dim():
        return torch.narrow(x, dim, start, length)
    if start.is_floating_point() or start.is_complex() or start.dtype is torch.bool or length < 0:
        return torch.narrow(x, dim, start, length)
    size = x.shape[dim]
    first = start.to(torch.int64)
    first = torch.where(first < 0, first + size, first)
    return NARROW(x, dim, first + torch.arange(length, device=start.device))


# Least squares: how many residuals there are follows from the rank


def _solved(
    a: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    m, n = a.shape[-2:]
    driver = driver or ("gels" if a.is_cuda else "gelsy")
    is_vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    right = b.unsqueeze(-1) if is_vector else b
    batch = torch.broadcast_shapes(a.shape[:-2], right.shape[:-2])
    zero = a.sum() + b.sum()
    solution = zero.expand(*batch, n, right.shape[-1]).clone()
    residuals = a.new_empty(0, dtype=a.real.dtype)
    if m > n and driver == "gels":
        residuals = a.new_empty(*batch, right.shape[-1], dtype=a.real.dtype)
    elif m > n and driver in ("gelss", "gelsd"):
        if batch:
            # There are residuals of a batch, and sizes of them, only where no rank is too low.
            raise torch_private.LOOKS_AT_DATA[1](aten.linalg_lstsq.default)
        residuals = b.new_empty(right.shape[-1], dtype=a.real.dtype)
        residuals = residuals.masked_select(residuals == 0)
    rank = a.new_empty(0 if driver == "gels" else a.shape[:-2], dtype=torch.int64)
    has_values = driver in ("gelss", "gelsd")
    values = a.new_empty((*a.shape[:-2], min(m, n)) if has_values else 0, dtype=a.real.dtype)
    return solution.squeeze(-1) if is_vector else solution, residuals, rank, values


_LSTSQ = define(
    "linalg_lstsq(Tensor a, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor, Tensor, Tensor, Tensor)",
    _solved,
    aten.linalg_lstsq.default,
)


def least_squares(a: torch.Tensor, b: torch.Tensor, rcond: Any = None, *, driver: str | None = None) -> Any:
    """``torch.linalg.lstsq``."""
    return torch.return_types.linalg_lstsq(_LSTSQ(a, b, rcond, driver=driver))  # type: ignore[attr-defined]
