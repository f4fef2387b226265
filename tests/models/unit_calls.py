"""Generates a unit for the CPU and compares its calls with eager's: results, strides, and what is written to."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree

import longhand
from longhand.loading import bound


def generated(
    model: Callable[..., Any], args: tuple[Any, ...], folder: Path, dynamic_shapes: Any = None
) -> Any:
    """The unit of one call, on the model's own weights."""
    with torch.no_grad():
        longhand.generate(model, args, out=folder, dynamic_shapes=dynamic_shapes)
    return bound(longhand.load(folder), model)


def agree(actual: Any, expected: Any) -> None:
    """Values, dtypes, shapes, strides and containers are the same, floats up to rounding."""
    ours, our_spec = pytree.tree_flatten(actual)
    theirs, their_spec = pytree.tree_flatten(expected)
    assert our_spec == their_spec
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(other, torch.Tensor):
            tolerance = {"rtol": 2e-2, "atol": 2e-2} if other.dtype in (torch.float16, torch.bfloat16) else {}
            torch.testing.assert_close(
                one, other, equal_nan=True, check_stride=other.numel() > 0, **tolerance
            )
        else:
            assert one == other


def compare(
    model: Callable[..., Any], calls: Sequence[tuple[Any, ...]], folder: Path, dynamic_shapes: Any = None
) -> Any:
    """The unit for the first call, after all the calls agreed with eager, inputs that are written to included."""
    unit = generated(model, calls[0], folder, dynamic_shapes)
    with torch.no_grad():
        for args in calls:
            given, ours = copy.deepcopy(args), copy.deepcopy(args)
            expected = model(*given)
            agree(unit(*ours), expected)
            agree(ours, given)
    return unit
