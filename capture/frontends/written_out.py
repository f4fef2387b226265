"""Functions that ask the data on their way, as calls that do not: torch.export has no symbol for what they ask.

``torch.equal`` and ``torch.allclose`` are reductions whose number is read; which elements ``torch.combinations`` takes
follows from how many there are; ``torch.cov`` without weights only asks whether there are enough observations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch

from longhand.capture import torch_private

_MOST_COMBINATIONS = 100_000  # as many rows of a table


def _equal(left: torch.Tensor, right: torch.Tensor) -> Any:
    if left.dtype is not right.dtype or left.device != right.device:
        return torch.equal(left, right)  # which raises
    if left.shape != right.shape:
        return False
    return (left == right).all().item()


def _allclose(*args: Any, **kwargs: Any) -> Any:
    return torch.isclose(*args, **kwargs).all().item()


def _combinations(input: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
    count = input.shape[0] if input.dim() == 1 and r > 0 else None
    n_rows = math.comb(count + (r - 1) * with_replacement, r) if isinstance(count, int) else None
    if n_rows is None or n_rows > _MOST_COMBINATIONS:
        return torch.combinations(input, r, with_replacement)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(count or 0), r))
    return input[torch.tensor(rows, dtype=torch.int64, device=input.device).reshape(-1, r)]


def _cov(input: torch.Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    count = input.shape[-1] if input.dim() else 1
    has_enough = isinstance(count, int) and count > correction  # else it warns
    if input.dim() > 2 or input.dtype is torch.bool or not (fweights is aweights is None and has_enough):
        return torch.cov(input, correction=correction, fweights=fweights, aweights=aweights)
    rows = input if input.dim() == 2 else input.reshape(1, -1)
    centered = rows - (rows.sum(1) / count).unsqueeze(1)
    return ((centered @ centered.t().conj()) / (count - correction)).squeeze()


def _corrcoef(input: torch.Tensor) -> Any:
    # It raises; or its clipping stops gradients where a correlation of 1 happens to be rounded upwards.
    if input.dim() > 2 or input.dtype is torch.bool or torch.is_grad_enabled():
        return torch.corrcoef(input)
    found = _cov(input)
    if found.dim() == 0:
        return found / found
    own = found.diagonal()
    deviation = (own.real if own.is_complex() else own).sqrt()
    scaled = found / deviation.reshape(-1, 1) / deviation.reshape(1, -1)
    if not scaled.is_complex():
        return scaled.clip(-1, 1)
    return torch.complex(scaled.real.clip(-1, 1), scaled.imag.clip(-1, 1))


_WRITTEN_OUT: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.equal: _equal,
    torch.Tensor.equal: _equal,
    torch.allclose: _allclose,
    torch.Tensor.allclose: _allclose,
    torch.combinations: _combinations,
    torch.cov: _cov,
    torch.Tensor.cov: _cov,
    torch.corrcoef: _corrcoef,
    torch.Tensor.corrcoef: _corrcoef,
}


class WrittenOut(torch_private.TorchFunctionMode):
    """While on, these functions are traced as what they are made of."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Calls the function, or what it is made of."""
        return _WRITTEN_OUT.get(func, func)(*args, **(kwargs or {}))
