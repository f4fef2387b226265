"""The derivative of batch norm whose values have 16 bits and whose statistics have 32: on CUDA, and under autocast.

The library's statistics have 32 bits there, torch's fake ones 16: a trace of torch's own derivative would take them for
what they are not. With x_hat the normalized value, and means over all but the channels,

    d x = (d y - mean(d y) - x_hat * mean(d y * x_hat)) * weight * rstd
    d weight = sum(d y * x_hat), d bias = sum(d y)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from longhand.capture.autograd.rules import Rewritten, Setting, derivative_rule
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter

aten = torch.ops.aten
Pairs = list[tuple[Proxy, Proxy | None]]


@derivative_rule(
    aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit.no_stats,
)
def _batch_norm(rewriter: Rewriter, given: dict[str, Any], eager: Any, setting: Setting) -> Rewritten | None:
    x, weight, bias = given["input"], given["weight"], given["bias"]
    is_mixed = x.fake.dtype.itemsize == 2 and eager[1].dtype is torch.float32
    if not is_mixed or not given["training"] or not x.fake.numel():
        return None
    call, n_channels = rewriter.call, x.fake.shape[1]
    has_running = "running_mean" in given
    op = (
        aten._native_batch_norm_legit_functional.default
        if has_running
        else aten._native_batch_norm_legit.no_stats
    )
    results = rewriter.keep(op, tuple(given.values()), {}, tuple(eager))
    _, mean, rstd, *_ = results
    dims = [dim for dim in range(x.fake.ndim) if dim != 1]
    by_channel = [1, n_channels, *(1 for _ in dims[1:])]

    def wide(value: Proxy) -> Proxy:
        if value.fake.dtype is torch.float32:
            return value
        widened: Proxy = call(aten._to_copy.default, (value,), {"dtype": torch.float32})
        return widened

    def narrow(value: Proxy, like: Proxy) -> Proxy:
        if value.fake.dtype == like.fake.dtype:
            return value
        narrowed: Proxy = call(aten._to_copy.default, (value,), {"dtype": like.fake.dtype})
        return narrowed

    def of_channels(value: Proxy) -> Proxy:
        reshaped: Proxy = call(aten.reshape.default, (wide(value), by_channel), {})
        return reshaped

    def pullback(grads: Sequence[Proxy | None]) -> Pairs:
        if grads[0] is None:
            return []
        d_out = wide(grads[0])
        x_hat = call(
            aten.mul.Tensor, (call(aten.sub.Tensor, (wide(x), of_channels(mean)), {}), of_channels(rstd)), {}
        )
        d_bias = call(aten.sum.dim_IntList, (d_out, dims), {})
        d_weight = call(aten.sum.dim_IntList, (call(aten.mul.Tensor, (d_out, x_hat), {}), dims), {})
        n = x.fake.numel() // n_channels
        shift = of_channels(call(aten.div.Scalar, (d_bias, n), {}))
        slope = of_channels(call(aten.div.Scalar, (d_weight, n), {}))
        less = call(aten.sub.Tensor, (d_out, shift), {})
        less = call(aten.sub.Tensor, (less, call(aten.mul.Tensor, (x_hat, slope), {})), {})
        d_x = call(aten.mul.Tensor, (less, of_channels(rstd)), {})
        if weight is not None:
            d_x = call(aten.mul.Tensor, (d_x, of_channels(weight)), {})
        pairs: Pairs = [(x, narrow(d_x, x))]
        if weight is not None:
            pairs.append((weight, narrow(d_weight, weight)))
        if bias is not None:
            pairs.append((bias, narrow(d_bias, bias)))
        return pairs

    return Rewritten(tuple(results), pullback)
