"""Every private name of torch that tells of the transforms of torch.func (grad, vmap and their like)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

_FUNCTORCH = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "_functorch") + os.sep


def is_inside_transform() -> bool:
    """Whether a transform of torch.func (grad, vmap and their like) is running: tensors are wrapped."""
    return torch._C._functorch.peek_interpreter_stack() is not None


are_transforms_active = torch._C._are_functorch_transforms_active


TRANSFORMS = (
    "_grad_increment_nesting",
    "_vmap_increment_nesting",
    "_jvp_increment_nesting",
    "_func_increment_nesting",
)
# What ends a transform, by its kind.
_ENDS = {"Grad": "_grad", "Vmap": "_vmap", "Jvp": "_jvp", "Functionalize": "_func"}


def vmap_levels() -> tuple[Any, ...]:
    """What opens and what closes a level of vmap."""
    return torch._C._functorch._vmap_increment_nesting, torch._C._functorch._vmap_decrement_nesting


def vmap_wrappers() -> tuple[Any, ...]:
    """What makes a batched tensor, and a plain one of it."""
    return torch._C._functorch._add_batch_dim, torch._C._functorch._remove_batch_dim


def unbatched(tensor: torch.Tensor) -> torch.Tensor:
    """What all of vmap's batched tensors are around, which alone knows whether gradients flow through it."""
    while torch._C._functorch.is_batchedtensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


# Where torch.vmap itself finds it.
load_vmap_rules = torch.vmap.__globals__["vmap_impl"].__globals__["lazy_load_decompositions"]


def is_wrapped(tensor: torch.Tensor) -> bool:
    """Whether a transform of torch.func has wrapped a tensor: it does not tell whose memory it is."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def opens_transform(node: fx.Node) -> bool:
    """Whether a call in Dynamo's graph begins a transform of torch.func."""
    return getattr(node.target, "__name__", "") in TRANSFORMS


def differentiates(node: fx.Node) -> bool:
    """Whether a call in Dynamo's graph begins a transform with derivatives of its own: any but vmap."""
    return opens_transform(node) and "vmap" not in node.target.__name__  # type: ignore[union-attr]


def is_transformed(function: Any) -> bool:
    """Whether a function is what a transform of torch.func made of another."""
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename.startswith(_FUNCTORCH)


def n_transforms() -> int:
    """How many transforms of torch.func are running."""
    return int(torch._C._functorch.get_dynamic_layer_stack_depth())


@contextlib.contextmanager
def keeping_transforms() -> Iterator[None]:
    """Ends, where something raises inside, the transforms that were begun inside."""
    depth = n_transforms()
    try:
        yield
    except BaseException:
        # One by one: torch 2.11's own function for it ends two at a time.
        while n_transforms() > depth:
            kind = torch._C._functorch.peek_interpreter_stack().key().name
            getattr(torch._C._functorch, f"{_ENDS[kind]}_decrement_nesting")()
        raise
