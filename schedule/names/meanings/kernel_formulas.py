"""What a whole kernel is, where its operations say less: ``merge_heads`` for a copy, ``causal_softmax``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from torch import fx

from longhand.capture.graph import Role
from longhand.lower.ir import AxisSize, Load, Pointwise, PointwiseOp, Reduce, ReduceOp, Store, Value
from longhand.schedule.names.operation_names import provenance_of
from longhand.schedule.names.value_rules import word_of_order
from longhand.schedule.plan import KernelPlan

_TURNS = re.compile(r"\.(t|transpose|permute|swapaxes)\(|\.m?T\b")
_HEADS = re.compile(r"(?:\w+_)?heads")


def heads_moved(plan: KernelPlan, words: Mapping[str, tuple[str, ...]]) -> str | None:
    """``split_heads``, of a copy that brings heads before positions; ``merge_heads``, of one that takes them back.

    Args:
        plan: A kernel that only copies.
        words: For axes the words of the dimensions that they walk, as far as all calls have them.
    """
    read, written = _copied_dims(plan)
    if not read or {*read} != {*written} or read[-1] != written[-1]:
        return None
    moved = [axis for axis, other in zip(read, written, strict=True) if axis != other]
    heads = [axis for axis in moved if any(map(_HEADS.fullmatch, words.get(axis, ())))]
    if len(moved) != 2 or len(heads) != 1:
        return None
    return "merge_heads" if moved[0] == heads[0] else "split_heads"


def name_of_more_than_copy(name: str, plan: KernelPlan) -> str:
    """``permute``, of a copy in another order; ``normalize``, where what a norm's derivative reads is made, too.

    Any other name as it is.
    """
    before, _, last = name.rpartition("copy")
    read, written = _copied_dims(plan)
    if last or (before and not before.endswith("_")):
        return name
    if {*read} == {*written} and read != written:
        return f"{before}permute"
    is_normalized = any(getattr(value, "name", None) is Role.NORMALIZED for value in plan.body)
    return "normalize" if is_normalized and not before else name


def name_in_tiles(name: str, nodes: Sequence[fx.Node]) -> str:
    """``transpose``, of a copy; ``transpose_add``, where the user transposes: else it is tensors that lie otherwise."""
    if name == "copy" or "transpose" in name:
        return "transpose" if name == "copy" else name
    origins = [provenance_of(node) for node in nodes]
    is_users = any(_TURNS.search(one.statement) for one in origins if not one.differentiates)
    return f"transpose_{name}" if is_users else name


def _copied_dims(plan: KernelPlan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The axes along which what a kernel copies lies, and its copy; none of any other kernel."""
    match plan.body:
        case (Load() as load, Store() as store):
            dims = {pointer.name: pointer.dims or () for pointer in plan.pointers}
            return dims[load.buffer], dims[store.buffer]
    return (), ()


def sums_of_one(plan: KernelPlan) -> str | None:
    """``column_sum``, ``column_mean_and_sum``: of a kernel that adds up one tensor and does nothing else with it.

    Which gradient the sums are says not what it computes: None of any other kernel.
    """
    body = plan.body
    if sum(isinstance(value, Load) for value in body) != 1:
        return None
    made = [_as_sum(body, store.value) for store in body if isinstance(store, Store)]
    kinds = sorted(kind for kind in {*made} if kind)
    if not kinds or None in made:
        return None
    schedule = plan.schedule
    where = "column_" if schedule.is_down_columns else "row_" if schedule.is_row_wise else ""
    return f"{where}{'_and_'.join(kinds)}"


def _as_sum(body: Sequence[Value], place: int) -> str | None:
    """``sum`` or ``mean`` of what is loaded; None of any other value."""
    match body[place]:
        case Pointwise(op=PointwiseOp.CAST, args=(of,)):
            return _as_sum(body, of)
        case Pointwise(op=PointwiseOp.DIV, args=(of, by)):
            total, count = body[of], body[by]
            is_mean = isinstance(count, AxisSize) and isinstance(total, Reduce) and total.axes == count.axes
            return "mean" if is_mean and _as_sum(body, of) else None
        case Reduce(op=ReduceOp.SUM, arg=of):
            while isinstance(cast := body[of], Pointwise) and cast.op is PointwiseOp.CAST:
                (of,) = cast.args
            return "sum" if isinstance(body[of], Load) else None
    return None


def derivative_of_norm(plan: KernelPlan) -> str:
    """``rms_norm``, ``layer_norm``, ``l2_normalize``, of a kernel that holds the derivative of one; or empty."""
    roles = {getattr(value, "name", None) for value in plan.body}
    if Role.THROUGH_RSTD in roles:
        return "layer_norm" if Role.THROUGH_MEAN in roles else "rms_norm"
    return "l2_normalize" if Role.THROUGH_LENGTH in roles and Role.THROUGH_MEAN not in roles else ""


def softmax_of_visible(name: str, plan: KernelPlan) -> str:
    """``causal_softmax``, ``window_softmax``: a softmax with what its own comparisons of places hide."""
    if not re.search(r"(^|_)softmax$", name) or "d_softmax" in name:
        return name
    bounds = {word for value in plan.body for word in word_of_order(value, plan)}
    kind = "window" if "in_window" in bounds else "causal" if "is_causal" in bounds else ""
    plain = re.sub(r"(scale_|add_)*softmax$", "softmax", name)
    return re.sub(r"softmax$", f"{kind}_softmax", plain) if kind and "masked" not in name else name
