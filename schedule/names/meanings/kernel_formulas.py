"""What a whole kernel is, where its operations say less: ``merge_heads`` for a copy, ``causal_softmax``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from longhand.capture.graph import Role
from longhand.lower.ir import Load, Store
from longhand.schedule.names.value_rules import word_of_order
from longhand.schedule.plan import KernelPlan

_HEADS = re.compile(r"(?:\w+_)?heads")


def heads_moved(plan: KernelPlan, words: Mapping[str, tuple[str, ...]]) -> str | None:
    """``split_heads``, of a copy that brings heads before positions; ``merge_heads``, of one that takes them back.

    Args:
        plan: A kernel that only copies.
        words: For axes the words of the dimensions that they walk, as far as all calls have them.
    """
    match plan.body:
        case (Load() as load, Store() as store):
            dims = {pointer.name: pointer.dims for pointer in plan.pointers}
            read, written = dims[load.buffer], dims[store.buffer]
        case _:
            return None
    if not read or not written or {*read} != {*written} or read[-1] != written[-1]:
        return None
    moved = [axis for axis, other in zip(read, written, strict=True) if axis != other]
    heads = [axis for axis in moved if any(map(_HEADS.fullmatch, words.get(axis, ())))]
    if len(moved) != 2 or len(heads) != 1:
        return None
    return "merge_heads" if moved[0] == heads[0] else "split_heads"


def derivative_of_norm(plan: KernelPlan) -> str:
    """``rms_norm``, ``layer_norm``, of a kernel that holds the derivative of one, however it was written; or empty."""
    roles = {getattr(value, "name", None) for value in plan.body}
    if Role.THROUGH_RSTD not in roles:
        return ""
    return "layer_norm" if Role.THROUGH_MEAN in roles else "rms_norm"


def softmax_of_visible(name: str, plan: KernelPlan) -> str:
    """``causal_softmax``, ``window_softmax``: a softmax with what its own comparisons of places hide."""
    if not re.search(r"(^|_)softmax$", name) or "d_softmax" in name:
        return name
    bounds = {word for value in plan.body for word in word_of_order(value, plan)}
    kind = "window" if "in_window" in bounds else "causal" if "is_causal" in bounds else ""
    plain = re.sub(r"(scale_|add_)*softmax$", "softmax", name)
    return re.sub(r"softmax$", f"{kind}_softmax", plain) if kind and "masked" not in name else name
