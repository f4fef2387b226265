"""Whether something is decided by a value: then another last place of it may be another index or another choice.

A comparison, a cast to whole numbers, a floor or a sort decide; sums, products and smooth functions hand a difference
in the last place on as one. Of an op that is not PyTorch's own nothing is known: it may decide. What is decided outside
of the graph, by what it returns, is not looked at: results are compared to within rounding anyway.

(`schedule.numerics.roundings` asks the same of the loops that PyTorch's ops have become.)
"""

from __future__ import annotations

import torch
from torch import fx

# Their results are floats that jump.
_STEPS_TEXT = """
    floor ceil round trunc fix frac sign sgn fmod remainder floor_divide heaviside nextafter hardshrink threshold
    bernoulli histc mode fake_quantize_per_tensor_affine fake_quantize_per_channel_affine
"""
_STEPS = frozenset(_STEPS_TEXT.split())
# Their whole numbers are what random numbers are drawn by, whatever the values.
_DRAWS = ("_scaled_dot_product", "native_dropout")


def decides(node: fx.Node) -> bool:
    """Whether a call behind a node's, in its graph, decides something by the value."""
    seen = {node}
    waiting = [node]
    for one in waiting:  # grows
        for user in one.users:
            if user in seen or user.op != "call_function":
                continue
            if _is_decision(user):
                return True
            seen.add(user)
            waiting.append(user)
    return False


def _is_decision(call: fx.Node) -> bool:
    """Whether a call's result jumps where an argument moves by a last place."""
    name = call_name(call)
    if isinstance(call.target, torch._ops.OpOverload) and call.target.namespace not in ("aten", "prims"):
        return True
    if name in _STEPS or (name == "div" and call.kwargs.get("rounding_mode") is not None):
        return True
    value = call.meta.get("val")
    if name == "getitem" and any(call_name(source).startswith(_DRAWS) for source in call.all_input_nodes):
        return False
    return isinstance(value, torch.Tensor) and not (value.dtype.is_floating_point or value.dtype.is_complex)


def call_name(node: fx.Node) -> str:
    """``add`` of aten.add.Tensor."""
    target = node.target
    named = target.overloadpacket if isinstance(target, torch._ops.OpOverload) else target
    return str(getattr(named, "__name__", ""))
