"""Every private name of torch that capture cannot do without; a test names each and fails when it is gone."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols
from torch.fx.proxy import TracerBase

__all__ = [
    "FakeTensor",
    "FakeTensorMode",
    "ShapeEnv",
    "dynamo_source_name",
    "fake_constant",
    "fake_mode_of",
    "free_unbacked_symbols",
    "make_fx",
    "shape_env_of",
    "stacks_since",
    "storage_key",
    "symbol_range",
    "symbolic_expression",
    "symbolic_hint",
    "writes",
]


def storage_key(tensor: torch.Tensor) -> int:
    """Equal for two tensors if and only if they share a storage, fake tensors included."""
    return int(tensor.untyped_storage()._cdata)


def fake_mode_of(tensor: FakeTensor) -> FakeTensorMode:
    """The mode that made a fake tensor."""
    return tensor.fake_mode


def fake_constant(tensor: torch.Tensor) -> torch.Tensor | None:
    """The real tensor behind a fake one that was made from data, else None."""
    return tensor.constant if isinstance(tensor, FakeTensor) else tensor


def symbolic_expression(size: Any) -> Any:
    """The SymPy expression of a SymInt (or SymFloat, SymBool)."""
    return size.node.expr


def symbolic_hint(size: Any) -> int | None:
    """The value that a symbolic size had at capture, None if it depends on data."""
    hint = size.node.hint
    return None if hint is None else int(hint)


def shape_env_of(size: Any) -> ShapeEnv:
    """The environment that a SymInt's symbols live in."""
    return size.node.shape_env


def symbol_range(environment: ShapeEnv, symbol: Any) -> tuple[Any, Any]:
    """The (lower, upper) bounds known for a symbol, as SymPy numbers."""
    found = environment.var_to_range[symbol]
    return found.lower, found.upper


def writes(target: torch._ops.OpOverload) -> tuple[str, ...]:
    """The names of the arguments that an op writes into."""
    return tuple(
        argument.name
        for argument in target._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    )


def dynamo_source_name(placeholder: fx.Node) -> str | None:
    """Where Dynamo took an input from: ``L['self']._modules['q']._parameters['weight']``; None for other graphs."""
    argument = placeholder.meta.get("grapharg")
    source = getattr(argument, "source", None)
    if source is None:
        return None
    name = source.name
    return str(name() if callable(name) else name)


_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_MODULES = os.path.join(_TORCH, "nn", "modules") + os.sep


@contextlib.contextmanager
def stacks_since(file: str) -> Iterator[None]:
    """While inside, traced nodes record every frame below the innermost one of `file`, less torch's own.

    torch.export would keep frames of functions called `forward` only, and so lose the user's helper functions.
    """

    def frames_below(tracer: Any, summary: traceback.StackSummary) -> traceback.StackSummary:
        frames = list(summary)
        starts = [position for position, frame in enumerate(frames) if frame.filename == file]
        below = frames[starts[-1] + 1 :] if starts else frames
        kept = [f for f in below if not f.filename.startswith(_TORCH) or f.filename.startswith(_MODULES)]
        return traceback.StackSummary.from_list(
            [f for f in kept if f.name not in ("_wrapped_call_impl", "_call_impl")]
        )

    tracer: Any = TracerBase
    original = tracer._filter_traceback_frames
    tracer._filter_traceback_frames = frames_below
    try:
        yield
    finally:
        tracer._filter_traceback_frames = original
