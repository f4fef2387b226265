"""What an op that makes new tensors by its schema returns is, now and then, its argument: a trace loses that.

``dropout`` that drops nothing, ``conj_physical`` of real numbers, ``type_as`` of the same type: ATen makes such an op
of others, and hands its argument back; the rules by which torch traces it clone. So what is traced as fresh memory,
and looks as an argument does, is called again, on tensors without data.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree

from longhand.capture import torch_private, torch_tracing
from longhand.capture.functionalize.functional_proxies import Number, Proxy

__all__ = ["may_be_argument", "returned_argument"]


def may_be_argument(target: torch._ops.OpOverload, args: Any, kwargs: Any, eager: Any) -> bool:
    """Whether a call could return one of its arguments, though its schema says nothing of it."""
    if not isinstance(eager, torch.Tensor) or not _is_made_of_others(target):
        return False
    return any(
        isinstance(leaf, Proxy) and _looks(leaf.fake) == _looks(eager)
        for leaf in pytree.tree_leaves((args, kwargs))
    )


def returned_argument(target: torch._ops.OpOverload, args: Any, kwargs: Any) -> int | None:
    """Which leaf of its arguments a call returns; None where it returns none, or cannot be called without data."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    with torch_tracing.no_modes(), torch.no_grad():
        try:
            given = [_without_data(leaf) for leaf in leaves]
            args, kwargs = pytree.tree_unflatten(given, spec)
            result = target(*args, **kwargs)
        except Exception:  # it asks the data, or there is none of it without
            return None
    for place, made in enumerate(given):
        if isinstance(made, torch.Tensor) and torch_private.storage_key(made) == torch_private.storage_key(
            result
        ):
            return place if _looks(made) == _looks(result) else None
    return None


def _is_made_of_others(target: torch._ops.OpOverload) -> bool:
    key: Any = "CompositeImplicitAutograd"  # torch takes the name; the type that it declares is private
    schema = target._schema
    is_silent = not any(one.alias_info for one in (*schema.arguments, *schema.returns))
    return is_silent and target.has_kernel_for_dispatch_key(key)


def _looks(tensor: torch.Tensor) -> Any:
    return (str(tuple(tensor.shape)), str(tensor.stride()), tensor.dtype, tensor.device)


def _without_data(leaf: Any) -> Any:
    """The argument, with the sizes that it had at capture."""
    if isinstance(leaf, Number):
        return _known(leaf.value)
    if not isinstance(leaf, Proxy):
        return leaf
    shape, stride = map(_known, leaf.fake.shape), map(_known, leaf.fake.stride())
    return torch.empty_strided(tuple(shape), tuple(stride), dtype=leaf.fake.dtype, device="meta")


def _known(size: Any) -> Any:
    """A number; None, of which nothing can be made, where it depends on data."""
    return torch_private.symbolic_hint(size) if isinstance(size, torch.SymInt) else size
