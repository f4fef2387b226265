"""The derivative of batch norm in training, and what its forward pass writes out for it.

With x_hat the normalized value, and means over all but the channels,

    d x = (d y - mean(d y) - x_hat * mean(d y * x_hat)) * rstd * weight
    d weight = sum(d y * x_hat), d bias = sum(d y)

The statistics are kept, one number for each channel; torch's fake ones have another type than the library's where the
values have 16 bits, so a trace of torch's own derivative would take them for what they are not.

Where kernels of ours normalize, on CUDA, y is a step of its own (`batch_normalized`), from x and statistics:
the derivative, which reads x anyway, computes from it what it wants to know of y, and nobody keeps y. Of a relu that
follows it wants to know the sign, so that is y's there, and not the result's, which would have to be read besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from longhand.capture.autograd.rules import Rewritten, Setting, called, derivative_rule
from longhand.capture.functionalize.batch_normalized import batch_normalized_op
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter
from longhand.capture.known.channel_pieces import has_channel_pieces
from longhand.capture.roles import Role
from longhand.options import Device

aten = torch.ops.aten
Pairs = list[tuple[Proxy, Proxy | None]]
_WITH_RUNNING = aten._native_batch_norm_legit_functional.default
_WITHOUT = aten._native_batch_norm_legit.no_stats


@derivative_rule(_WITH_RUNNING)
def _batch_norm(rewriter: Rewriter, given: dict[str, Any], eager: Any, setting: Setting) -> Rewritten | None:
    x = given["input"]
    if not given["training"] or x.fake.ndim < 2 or not x.fake.numel():
        return None
    norm = _Normalization(rewriter, given)
    results = rewriter.keep(_WITH_RUNNING, tuple(given.values()), {}, tuple(eager))
    out, mean, rstd, *running = results
    if setting.machine.device is Device.CUDA and has_channel_pieces(x.fake.shape):
        given_to = (x, given["weight"], given["bias"], mean, rstd)
        out = rewriter.keep(batch_normalized_op, given_to, {}, out.fake)
    return Rewritten((out, mean, rstd, *running), lambda grads: norm.pullback(grads[0], mean, rstd))


@derivative_rule(_WITHOUT)
def _batch_norm_alone(
    rewriter: Rewriter, given: dict[str, Any], eager: Any, setting: Setting
) -> Rewritten | None:
    """Of values of 16 bits with statistics of 32: on CUDA, and under autocast. Else torch's own is right."""
    x = given["input"]
    is_mixed = x.fake.dtype.itemsize == 2 and eager[1].dtype is torch.float32
    if not is_mixed or not given["training"] or not x.fake.numel():
        return None
    norm = _Normalization(rewriter, given)
    results = rewriter.keep(_WITHOUT, tuple(given.values()), {}, tuple(eager))
    return Rewritten(tuple(results), lambda grads: norm.pullback(grads[0], results[1], results[2]))


class _Normalization:
    """The arithmetic of one call, in float32 or wider."""

    def __init__(self, rewriter: Rewriter, given: dict[str, Any]) -> None:
        self.call = rewriter.call
        self.x, self.weight, self.bias = given["input"], given["weight"], given["bias"]
        self.wide = torch.promote_types(self.x.fake.dtype, torch.float32)
        self.dims = [dim for dim in range(self.x.fake.ndim) if dim != 1]

    def pullback(self, gradient: Proxy | None, mean: Proxy, rstd: Proxy) -> Pairs:
        if gradient is None:
            return []
        gradient = self._cast(gradient, self.wide)
        x_hat = self._normalized(mean, rstd)
        product = self.call(aten.mul.Tensor, (gradient, x_hat), {})
        through_mean = called(Role.THROUGH_MEAN, self._over_channel(aten.mean.dim, gradient))
        through_rstd = called(Role.THROUGH_RSTD, self._over_channel(aten.mean.dim, product))
        less_mean = called(Role.LESS_MEAN, self.call(aten.sub.Tensor, (gradient, through_mean), {}))
        along = self.call(aten.mul.Tensor, (x_hat, through_rstd), {})
        projected = self.call(aten.sub.Tensor, (less_mean, along), {})
        scale = self._per_channel(rstd)
        if self.weight is not None:
            scale = called(
                Role.SCALE, self.call(aten.mul.Tensor, (scale, self._per_channel(self.weight)), {})
            )
        d_x = self._cast(self.call(aten.mul.Tensor, (projected, scale), {}), self.x.fake.dtype)
        pairs: Pairs = [(self.x, d_x)]
        for parameter, summand in ((self.weight, product), (self.bias, gradient)):
            if parameter is not None:
                total = self._over_channel(aten.sum.dim_IntList, summand)
                pairs.append((parameter, self._cast(total, parameter.fake.dtype)))
        return pairs

    def _normalized(self, mean: Proxy, rstd: Proxy) -> Proxy:
        centered = self.call(aten.sub.Tensor, (self._cast(self.x, self.wide), self._per_channel(mean)), {})
        return called(Role.NORMALIZED, self.call(aten.mul.Tensor, (centered, self._per_channel(rstd)), {}))

    def _cast(self, value: Proxy, dtype: torch.dtype) -> Proxy:
        if value.fake.dtype == dtype:
            return value
        converted: Proxy = self.call(aten._to_copy.default, (value,), {"dtype": dtype})
        return converted

    def _per_channel(self, value: Proxy) -> Proxy:
        shape = [-1 if dim == 1 else 1 for dim in range(self.x.fake.ndim)]
        reshaped: Proxy = self.call(aten.reshape.default, (self._cast(value, self.wide), shape), {})
        return reshaped

    def _over_channel(self, op: Any, value: Proxy) -> Proxy:
        reduced: Proxy = self.call(op, (value, self.dims, op is aten.mean.dim), {})
        return reduced


@derivative_rule(aten.relu.default)
def _relu(
    rewriter: Rewriter, given: dict[str, Any], eager: torch.Tensor, setting: Setting
) -> Rewritten | None:
    """Of batch norm: by the sign of what it is of."""
    x = given["self"]
    if x.node.target is not batch_normalized_op or x.parent is not None:
        return None
    out = rewriter.keep(aten.relu.default, (x,), {}, eager)

    def pullback(grads: Sequence[Proxy | None]) -> Pairs:
        if grads[0] is None:
            return []
        is_clamped = rewriter.call(aten.le.Scalar, (x, 0), {})
        return [(x, rewriter.call(aten.where.ScalarSelf, (is_clamped, 0.0, grads[0]), {}))]

    return Rewritten((out,), pullback)
