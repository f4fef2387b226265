"""Derivatives of layer norm and RMS norm, written as a person would.

With x_hat the normalized row and g = d y * weight,

    layer norm  d x = (g - mean(g) - x_hat * mean(g * x_hat)) * rstd
    RMS norm    d x = (g - x_hat * mean(g * x_hat)) * rstd

and for both d weight = sum(d y * x_hat), d bias = sum(d y). Means are over the row. Nothing but x is kept: mean and
rstd are computed again where the row is read anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from longhand.capture.autograd.rules import Rewritten, Setting, called, derivative_rule
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter
from longhand.capture.roles import Role

aten = torch.ops.aten
Pairs = list[tuple[Proxy, Proxy | None]]


@derivative_rule(aten.layer_norm.default)
def _layer_norm(
    rewriter: Rewriter, given: dict[str, Any], eager: torch.Tensor, setting: Setting
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
    rewriter: Rewriter, given: dict[str, Any], eager: torch.Tensor, setting: Setting
) -> Rewritten | None:
    if not given["normalized_shape"] or not eager.numel():
        return None
    norm = _Norm(rewriter, given)
    args = (norm.x, given["normalized_shape"], norm.weight, given["eps"])
    out, rstd = rewriter.keep(aten._fused_rms_norm.default, args, {}, (eager, norm.statistic(eager)))
    return Rewritten((out,), lambda grads: norm.pullback(grads[0], None, rstd))


class NormSteps:
    """The calls that derivatives of norms are made of."""

    call: Callable[..., Any]

    def _mul(self, one: Proxy, other: Proxy) -> Proxy:
        product: Proxy = self.call(aten.mul.Tensor, (one, other), {})
        return product

    def _cast(self, value: Proxy, dtype: torch.dtype) -> Proxy:
        if value.fake.dtype == dtype:
            return value
        converted: Proxy = self.call(aten._to_copy.default, (value,), {"dtype": dtype})
        return converted


class _Norm(NormSteps):
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

    def pullback(self, d_out: Proxy | None, mean: Proxy | None, rstd: Proxy) -> Pairs:
        """The gradients of x and of the parameters; `mean` is None where the norm subtracts none."""
        if d_out is None:
            return []
        x = self._widened(self.x)
        centered = x if mean is None else called(Role.CENTERED, self._sub(x, mean))
        x_hat = called(Role.NORMALIZED, self._mul(centered, rstd))
        gradient = scaled = self._widened(d_out)
        if self.weight is not None:
            scaled = called(Role.D_NORMALIZED, self._mul(gradient, self._widened(self.weight)))
        through_rstd = called(Role.THROUGH_RSTD, self._mean(self._mul(scaled, x_hat)))
        d_x = self._sub(scaled, self._mul(x_hat, through_rstd))
        if mean is not None:
            d_x = self._sub(d_x, called(Role.THROUGH_MEAN, self._mean(scaled)))
        pairs: Pairs = [(self.x, self._narrowed(self._mul(d_x, rstd), self.x))]
        if self.weight is not None:
            # Between the kernels that sum over rows and over columns it travels in the type of x.
            kept = x_hat
            if self.x.fake.dtype != self.wide:
                kept = self._widened(called(Role.NORMALIZED, self._narrowed(x_hat, self.x)))
            pairs.append((self.weight, self._column_sum(self._mul(gradient, kept), self.weight)))
        if self.bias is not None:
            pairs.append((self.bias, self._column_sum(gradient, self.bias)))
        return pairs

    def _sub(self, one: Proxy, other: Proxy) -> Proxy:
        difference: Proxy = self.call(aten.sub.Tensor, (one, other), {})
        return difference

    def _mean(self, value: Proxy) -> Proxy:
        mean: Proxy = self.call(aten.mean.dim, (value, self.cols, True), {})
        return mean

    def _column_sum(self, value: Proxy, parameter: Proxy) -> Proxy:
        total = value if not self.rows else self.call(aten.sum.dim_IntList, (value, self.rows), {})
        return self._narrowed(total, parameter)

    def _widened(self, value: Proxy) -> Proxy:
        return self._cast(value, self.wide)

    def _narrowed(self, value: Proxy, like: Proxy) -> Proxy:
        return self._cast(value, like.fake.dtype)
