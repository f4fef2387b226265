"""The derivative of group norm, written as a person would.

With x_hat the normalized group, g = d y * weight, and sums over the space of an image kept for each channel,

    d weight = sum(d y * x_hat)        d bias = sum(d y)
    d x      = (g - mean(g) - x_hat * mean(g * x_hat)) * rstd

where the means are over a group: mean(g) is the sum of weight * d bias over its channels, by its size, so that x and
d y are read once for all sums. Kept are x and two numbers for each group; the rest is computed again where x is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from longhand.capture.autograd.norm_rules import NormSteps, Pairs
from longhand.capture.autograd.rules import Rewritten, Setting, called, derivative_rule
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter
from longhand.capture.roles import Role

aten = torch.ops.aten
# Sums of d y, and of d y * x_hat.
_OF_CHANNELS = (Role.CHANNEL_GRADIENTS, Role.CHANNEL_PROJECTIONS)
_OF_GROUPS = (Role.GROUP_GRADIENTS, Role.GROUP_PROJECTIONS)


@derivative_rule(aten.group_norm.default)
def _group_norm(
    rewriter: Rewriter, given: dict[str, Any], eager: torch.Tensor, setting: Setting
) -> Rewritten | None:
    if not eager.numel():
        return None
    norm = _GroupNorm(rewriter, given)
    return Rewritten((norm.result(),), lambda grads: norm.pullback(grads[0]))


class _GroupNorm(NormSteps):
    """One call, in float32 where it is narrower, with channels as (groups, channels of a group)."""

    def __init__(self, rewriter: Rewriter, given: dict[str, Any]) -> None:
        self.rewriter, self.call = rewriter, rewriter.call
        self.x, self.weight, self.bias = given["input"], given["weight"], given["bias"]
        self.wide = torch.promote_types(self.x.fake.dtype, torch.float32)
        batch, channels, *space = self.x.fake.shape
        self.groups, self.per_group = given["num_groups"], channels // given["num_groups"]
        self.shape = [batch, self.groups, self.per_group, *space]
        self.space = list(range(3, len(self.shape)))
        grouped = self._cast(self._reshape(self.x, self.shape), self.wide)
        variance, mean = rewriter.call(
            aten.var_mean.correction, (grouped, [2, *self.space]), {"correction": 0, "keepdim": True}
        )
        self.mean = called(Role.MEAN, mean)
        shifted = self.call(aten.add.Tensor, (variance, given["eps"]), {})
        self.rstd = called(Role.RSTD, self.call(aten.rsqrt.default, (shifted,), {}))
        self.grouped = grouped

    def _x_hat(self) -> Proxy:
        centered = called(Role.CENTERED, self.call(aten.sub.Tensor, (self.grouped, self.mean), {}))
        return called(Role.NORMALIZED, self._mul(centered, self.rstd))

    def result(self) -> Proxy:
        """What the norm computes."""
        normed = self._x_hat()
        if self.weight is not None:
            normed = self._mul(normed, self._per_channel(self.weight))
        if self.bias is not None:
            normed = self.call(aten.add.Tensor, (normed, self._per_channel(self.bias)), {})
        return self._reshape(self._cast(normed, self.x.fake.dtype), self.x.fake.shape)

    def pullback(self, d_out: Proxy | None) -> Pairs:
        """The gradients of x and of the parameters."""
        if d_out is None:
            return []
        gradient = self._cast(self._reshape(d_out, self.shape), self.wide)
        x_hat = self._x_hat()
        summands = gradient, self._mul(gradient, x_hat)
        sums = [
            called(role, self._sum(value, self.space))
            for role, value in zip(_OF_CHANNELS, summands, strict=True)
        ]
        scaled, scaled_sums = gradient, sums
        if self.weight is not None:
            weight = self._per_channel(self.weight)
            scaled = called(Role.D_NORMALIZED, self._mul(gradient, weight))
            scaled_sums = [self._mul(one, weight) for one in sums]
        through = [
            self._by_size(called(role, self._sum(one, [2])))
            for role, one in zip(_OF_GROUPS, scaled_sums, strict=True)
        ]
        # x_hat is taken apart, as in eager: by then nothing of x's size but x itself is read again.
        slope = called(Role.SLOPE, self._mul(through[1], self.rstd))
        offset = called(
            Role.OFFSET, self.call(aten.sub.Tensor, (self._mul(self.mean, slope), through[0]), {})
        )
        d_x = self.call(aten.sub.Tensor, (scaled, self._mul(self.grouped, slope)), {})
        d_x = self._mul(self.call(aten.add.Tensor, (d_x, offset), {}), self.rstd)
        d_x = self._reshape(self._cast(d_x, self.x.fake.dtype), self.x.fake.shape)
        pairs: Pairs = [(self.x, d_x)]
        for parameter, total in ((self.bias, sums[0]), (self.weight, sums[1])):
            if parameter is not None:
                pairs.append((parameter, self._to_parameter(total, parameter)))
        return pairs

    def _to_parameter(self, total: Proxy, parameter: Proxy) -> Proxy:
        over_batch = self._sum(total, [0])
        return self._cast(self._reshape(over_batch, parameter.fake.shape), parameter.fake.dtype)

    def _per_channel(self, parameter: Proxy) -> Proxy:
        shape = [self.groups, self.per_group, *(1 for _ in self.space)]
        return self._cast(self._reshape(parameter, shape), self.wide)

    def _by_size(self, total: Proxy) -> Proxy:
        size = self.per_group
        for one in self.shape[3:]:
            size = size * one
        quotient: Proxy = self.call(aten.div.Tensor, (total, size), {})
        return quotient

    def _sum(self, value: Proxy, dims: Sequence[int]) -> Proxy:
        if not dims:
            return value
        total: Proxy = self.call(aten.sum.dim_IntList, (value, list(dims), True), {})
        return total

    def _reshape(self, value: Proxy, shape: Sequence[Any]) -> Proxy:
        reshaped: Proxy = self.call(aten.reshape.default, (value, list(shape)), {})
        return reshaped
