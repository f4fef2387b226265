"""Whether lowering a chain of equal layers has come to rest: the last kept layer left behind what the one before did.

A lowering knows more of a value than its type: how a view maps it, that it is one number everywhere, that it counts
up. A layer may change that every time (flip what the layer before flipped, add 1 to a counter) without a step to show
for it. If two neighbours left behind the same, up to names, so will every layer after them.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from longhand.lower.context import Context
from longhand.lower.ir import Layers
from longhand.lower.views import TensorView


def is_fixpoint(ctx: Context, layers: Layers) -> bool:
    """Whether the last two kept layers are known to be alike.

    Args:
        ctx: Every node lowered.
        layers: The chain.
    """
    kept = layers.names[: layers.n_kept]
    following = {
        name: twin
        for layer, after in itertools.pairwise(kept)
        for name, twin in zip(layer, after, strict=True)
    }
    twins: dict[str, str] = {}
    return all(
        _is_alike(ctx, ctx.values[name], ctx.values[twin], following, twins)
        for name, twin in zip(kept[-2], kept[-1], strict=True)
    ) and len(set(twins.values())) == len(twins)


def _is_alike(ctx: Context, one: Any, other: Any, following: dict[str, str], twins: dict[str, str]) -> bool:
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(
            _is_alike(ctx, a, b, following, twins) for a, b in zip(one, other, strict=True)
        )
    if not isinstance(one, TensorView) or not isinstance(other, TensorView):
        return type(one) is type(other) and bool(one == other)
    # A copy that a lowering made has a name of its own kind, in both layers.
    expected = twins.setdefault(one.buffer, following.get(one.buffer, other.buffer))
    return (
        other.buffer == expected
        and dataclasses.replace(one, buffer=other.buffer) == other
        and dataclasses.replace(ctx.buffers[one.buffer], name="", derived=None)
        == dataclasses.replace(ctx.buffers[other.buffer], name="", derived=None)
        and repr(ctx.fills.get(one.buffer)) == repr(ctx.fills.get(other.buffer))  # 0.0 == -0.0
        and ctx.progressions.get(one.buffer) == ctx.progressions.get(other.buffer)
    )
