"""Functions that ask the data on their way, as calls that do not: torch.export has no symbol for what they ask.

``torch.equal`` and ``torch.allclose`` are reductions whose number is read; which elements ``torch.combinations`` takes
follows from how many there are; ``torch.cov`` without weights only asks whether there are enough. What is not made of
such calls stays whole: `capture.whole_calls` and, by a rule, `capture.whole_by_rule`. Where eager raises for a
variance below zero, there is NaN.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import torch

from longhand.capture import torch_private, whole_calls
from longhand.capture.whole_by_rule import whole

_MOST_COMBINATIONS = 100_000  # as many rows of a table


def _whole(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The call as one op, where it can be."""
    made = whole(function, args, kwargs)
    return function(*args, **kwargs) if made is NotImplemented else made


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
    if input.dim() > 2 or input.dtype is torch.bool or not isinstance(count, int) or count == 0:
        return torch.cov(input, correction=correction, fweights=fweights, aweights=aweights)
    rows = input if input.dim() == 2 else input.reshape(1, -1)
    if not (fweights is aweights is None) or count <= correction:  # it may raise, or warn
        return _whole(torch.cov, rows, correction=correction, fweights=fweights, aweights=aweights)
    centered = rows - (rows.sum(1) / count).unsqueeze(1)
    return ((centered @ centered.t().conj()) / (count - correction)).squeeze()


def _corrcoef(input: torch.Tensor) -> Any:
    if input.dim() > 2 or input.dtype is torch.bool:
        return torch.corrcoef(input)  # which raises
    if torch.is_grad_enabled():
        return _whole(torch.corrcoef, input)  # its clipping stops the gradients of what is rounded beyond 1
    covariance = _cov(input)
    if covariance.dim() == 0:
        return covariance / covariance
    own = covariance.diagonal()
    deviation = (own.real if own.is_complex() else own).sqrt()
    scaled = covariance / deviation.reshape(-1, 1) / deviation.reshape(1, -1)
    if not scaled.is_complex():
        return scaled.clip(-1, 1)
    return torch.complex(scaled.real.clip(-1, 1), scaled.imag.clip(-1, 1))


def _gaussian_nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    if not isinstance(var, torch.Tensor):
        var = torch.full_like(input, var) if var >= 0 else var
    if not isinstance(var, torch.Tensor) or reduction not in ("none", "mean", "sum"):
        return torch.nn.functional.gaussian_nll_loss(input, target, var, full, eps, reduction)  # which raises
    if var.shape != input.shape:
        pairs = zip(input.shape, var.shape, strict=False)
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif input.dim() != var.dim() or sum(mine for own, mine in pairs if own != mine) != 1:
            raise ValueError("var is of incorrect size")
    # Eager puts eps in where no gradients are recorded: they are those of var.
    enough = torch.where(var < eps, eps + (var - var.detach()), var)
    enough = torch.where(var < 0, torch.full_like(var, math.nan), enough)
    loss = 0.5 * (torch.log(enough) + (input - target) ** 2 / enough)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    lengths = (input_lengths, target_lengths)
    which = {"none": 0, "mean": 1, "sum": 2}.get(reduction)
    if which is None:
        return torch.nn.functional.ctc_loss(log_probs, targets, *lengths, blank, reduction, zero_infinity)
    return _whole(torch.ctc_loss, log_probs, targets, *lengths, blank, which, zero_infinity)


def _with_places(function: Callable[..., Any]) -> Callable[..., Any]:
    """Places and counts are whole numbers; torch before 2.12 gives fake ones the type of the values."""

    def call(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        if not isinstance(made, tuple):
            return made
        return (made[0], *(one if one.dtype is torch.int64 else one.to(torch.int64) for one in made[1:]))

    return call


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
    torch.nn.functional.gaussian_nll_loss: _gaussian_nll_loss,
    torch.narrow: whole_calls.narrow,
    torch.Tensor.narrow: whole_calls.narrow,
    torch.linalg.lstsq: whole_calls.least_squares,
    torch.nn.functional.ctc_loss: _ctc_loss,
    torch.unique: _with_places(torch.unique),
    torch.unique_consecutive: _with_places(torch.unique_consecutive),
    torch.Tensor.unique: _with_places(torch.Tensor.unique),
    torch.Tensor.unique_consecutive: _with_places(torch.Tensor.unique_consecutive),
    torch.ctc_loss: functools.partial(_whole, torch.ctc_loss),
}


class WrittenOut(torch_private.TorchFunctionMode):
    """While on, these functions are traced as what they are made of."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Calls the function, or what it is made of."""
        given = kwargs or {}
        try:
            return _WRITTEN_OUT.get(func, func)(*args, **given)
        except torch_private.LOOKS_AT_DATA:
            made = whole(func, args, given)
            if made is NotImplemented:
                raise
            return made
