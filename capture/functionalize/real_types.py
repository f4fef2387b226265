"""Types of results whose sizes the data tell, as the call itself gives them: torch's fakes may have others.

torch before 2.12 gives fake places and counts of unique elements the type of the elements. So such a call is made once
more, of one element each.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree

from longhand.capture import torch_tracing
from longhand.capture.functionalize.functional_proxies import Number, Proxy

__all__ = ["with_real_types"]


def with_real_types(target: torch._ops.OpOverload, args: Any, kwargs: Any, eager: Any) -> Any:
    """What a call gives, `eager`, with the types that it has when it runs."""
    if torch.Tag.dynamic_output_shape not in target.tags:
        return eager
    with torch_tracing.no_modes(), torch.no_grad():
        try:
            small_args, small_kwargs = pytree.tree_map(_small, (args, kwargs))
            made = target(*small_args, **small_kwargs)
        except Exception:  # one element is none of its arguments
            return eager
    if isinstance(eager, torch.Tensor):
        return _of_type(eager, made.dtype)
    if not isinstance(eager, list | tuple):
        return eager
    return [
        _of_type(one, real.dtype) if isinstance(one, torch.Tensor) else one
        for one, real in zip(eager, made, strict=True)
    ]


def _of_type(fake: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return fake if fake.dtype is dtype else fake.to(dtype)


def _small(leaf: Any) -> Any:
    if isinstance(leaf, Proxy):
        return torch.ones([1] * leaf.fake.dim(), dtype=leaf.fake.dtype)
    return 1 if isinstance(leaf, Number) else leaf
