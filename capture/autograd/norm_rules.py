"""Derivatives of layer norm and RMS norm, written as a person would: means over the row, sums over the rows.

With x_hat the normalized row and g = d y * weight,

    layer norm  d x = (g - mean(g) - x_hat * mean(g * x_hat)) * rstd
    RMS norm    d x = (g - x_hat * mean(g * x_hat)) * rstd

and for both d weight = sum(d y * x_hat), d bias = sum(d y). Nothing but x is kept: mean and rstd are computed again
where the row is read anyway.
"""

from __future__ import annotations

from typing import Any

import torch

from longhand.capture.autograd.rules import Rewritten, called, derivative_rule
from longhand.capture.functional import Handle, Rewriter
from longhand.options import Target

aten = torch.ops.aten
Pairs = list[tuple[Handle, Handle | None]]


@derivative_rule(aten.layer_norm.default)
def _layer_norm(
    rewriter: Rewriter, given: dict[str, Any], eager: torch.Tensor, machine: Target
) -> Rewritten | None:
    if not given["normalized_shape"] or not eager.numel():
        return None
    norm = _Norm(rewriter, given)
    args = (norm.x, given["normalized_shape"], norm.weight, norm.bias, given["eps"])
    statistic = norm.statistic(eager)
    out, mean, rstd = rewriter.keep(aten.native_layer_norm.default, args, {}, (eager, statistic, statistic))
    return Rewritten((out,), lambda grads: norm.pullback(grads[0], mean, rstd))


@derivative_rule(aten.rms_norm.default)
def _rms_norm(
    rewriter: Rewriter, given: dict[str, Any], eager: torch.Tensor, machine: Target
) -> Rewritten | None:
    if not given["normalized_shape"] or not eager.numel():
        return None
    norm = _Norm(rewriter, given)
    args = (norm.x, given["normalized_shape"], norm.weight, given["eps"])
    out, rstd = rewriter.keep(aten._fused_rms_norm.default, args, {}, (eager, norm.statistic(eager)))
    return Rewritten((out,), lambda grads: norm.pullback(grads[0], None, rstd))


class _Norm:
    """One call of a norm, in float32 where it is narrower."""

    def __init__(self, rewriter: Rewriter, given: dict[str, Any]) -> None:
        self.call = rewriter.call
        self.x, self.weight, self.bias = given["input"], given["weight"], given.get("bias")
        self.wide = torch.promote_types(self.x.fake.dtype, torch.float32)
        rank, n_dims = self.x.fake.ndim, len(given["normalized_shape"])
        self.cols = list(range(rank - n_dims, rank))
        self.rows = list(range(rank - n_dims))

    def statistic(self, eager: torch.Tensor) -> torch.Tensor:
        """What the mean of each row looks like."""
        shape = [*eager.shape[: len(self.rows)], *(1 for _ in self.cols)]
        return eager.new_empty(shape, dtype=self.wide)

    def pullback(self, d_out: Handle | None, mean: Handle | None, rstd: Handle) -> Pairs:
        """The gradients of x and of the parameters; `mean` is None where the norm subtracts none."""
        if d_out is None:
            return []
        x = self._widened(self.x)
        centered = x if mean is None else called("centered", self._sub(x, mean))
        x_hat = called("normalized", self._mul(centered, rstd))
        gradient = scaled = self._widened(d_out)
        if self.weight is not None:
            scaled = called("d_normalized", self._mul(gradient, self._widened(self.weight)))
        through_rstd = called("through_rstd", self._mean(self._mul(scaled, x_hat)))
        d_x = self._sub(scaled, self._mul(x_hat, through_rstd))
        if mean is not None:
            d_x = self._sub(d_x, called("through_mean", self._mean(scaled)))
        found: Pairs = [(self.x, self._narrowed(self._mul(d_x, rstd), self.x))]
        if self.weight is not None:
            # Between the kernels that sum over rows and over columns it travels in the type of x.
            kept = x_hat
            if self.x.fake.dtype != self.wide:
                kept = self._widened(called("normalized", self._narrowed(x_hat, self.x)))
            found.append((self.weight, self._column_sum(self._mul(gradient, kept), self.weight)))
        if self.bias is not None:
            found.append((self.bias, self._column_sum(gradient, self.bias)))
        return found

    def _mul(self, one: Handle, other: Handle) -> Handle:
        found: Handle = self.call(aten.mul.Tensor, (one, other), {})
        return found

    def _sub(self, one: Handle, other: Handle) -> Handle:
        found: Handle = self.call(aten.sub.Tensor, (one, other), {})
        return found

    def _mean(self, value: Handle) -> Handle:
        found: Handle = self.call(aten.mean.dim, (value, self.cols, True), {})
        return found

    def _column_sum(self, value: Handle, parameter: Handle) -> Handle:
        total = value if not self.rows else self.call(aten.sum.dim_IntList, (value, self.rows), {})
        return self._narrowed(total, parameter)

    def _widened(self, value: Handle) -> Handle:
        return self._cast(value, self.wide)

    def _narrowed(self, value: Handle, like: Handle) -> Handle:
        return self._cast(value, like.fake.dtype)

    def _cast(self, value: Handle, dtype: torch.dtype) -> Handle:
        if value.fake.dtype == dtype:
            return value
        found: Handle = self.call(aten._to_copy.default, (value,), {"dtype": dtype})
        return found
