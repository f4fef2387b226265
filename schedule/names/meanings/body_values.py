"""What a value is to the formula that it stands in, as far as the kernel's body alone tells: ``centered``, ``scores``.

The reference calls its lines so, too, which are others than the kernel's.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from longhand.capture.graph import Role
from longhand.lower.ir import (
    AxisSize,
    Constant,
    Load,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Store,
    Value,
    arguments,
)
from longhand.schedule.plan import KernelPlan
from longhand.schedule.sizes import rank

_MEANS = frozenset({Role.MEAN, Role.RUNNING_MEAN})
_OF_NORMS = frozenset({Role.RSTD, Role.CENTERED, Role.NORMALIZED, Role.D_NORMALIZED, Role.SCALE})
_OF_BACKWARD = frozenset({Role.THROUGH_MEAN, Role.THROUGH_RSTD, Role.THROUGH_LENGTH, Role.LESS_MEAN})


def words_in_formula(position: int, plan: KernelPlan) -> Iterator[str]:
    """The words, best first; none where a value is only what its operation makes."""
    value = plan.body[position]
    if isinstance(value, Pointwise) and _says_where(position, plan):
        yield "row_index"
    if not isinstance(value, Pointwise) or not value.dtype.is_floating_point:
        return
    if value.op is PointwiseOp.SUB:
        yield from _of_difference(value, plan)
    if value.op is PointwiseOp.MUL and any(_is_normalized(side, plan) for side in value.args):
        yield from ["weighted"] if any(_is_weight(side, plan) for side in value.args) else []
    if value.op is PointwiseOp.MUL and any(is_rotated(plan.body[side], plan) for side in value.args):
        yield "rotated"
    if value.op is PointwiseOp.MUL:
        yield from _of_product(position, value, plan)
    if _is_of_softmax(position, plan):
        yield "masked_scores" if _is_masked(value, plan) else "scores"


def _of_difference(value: Pointwise, plan: KernelPlan) -> Iterator[str]:
    """``centered``, of what a mean is taken from; ``less_means``, where it is the gradient's in a norm."""
    whole, taken = (plan.body[side] for side in value.args)
    if _is_of_norm_backward(whole, plan) or _is_of_norm_backward(taken, plan):
        yield "less_means"
    elif _is_mean(value.args[1], value.args[0], plan):
        yield "centered"
    if _is_of_softmax_backward(value, plan):
        yield "d_scores"


def _of_product(position: int, value: Pointwise, plan: KernelPlan) -> Iterator[str]:
    """``weighted``, whose sum a softmax's derivative takes away; ``through_norm``; ``scaled`` by a vector."""
    body = plan.body
    if any(
        isinstance(user, Pointwise)
        and user.op is PointwiseOp.SUB
        and user.args[0] == position
        and _is_of_softmax_backward(user, plan)
        for user in body
    ):
        yield "weighted"
    for side, factor in (value.args, value.args[::-1]):
        if _is_inverse_root(body[factor]) and _is_through_norm(body[side], plan):
            yield "through_norm"
    roles = {getattr(body[side], "name", None) for side in value.args}
    if (
        value.name is None
        and roles.isdisjoint(_OF_NORMS)
        and any(is_of_column(side, plan) for side in value.args)
    ):
        yield "scaled"


def _is_inverse_root(value: Value) -> bool:
    is_root = isinstance(value, Pointwise) and value.op is PointwiseOp.RSQRT
    return is_root or getattr(value, "name", None) is Role.RSTD


def _is_through_norm(value: Value, plan: KernelPlan) -> bool:
    """``g - through_mean - x_hat * through_rstd``: a gradient without what a norm takes from it."""
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.SUB:
        return False
    sides = [plan.body[side] for side in value.args]
    return any(_is_of_norm_backward(side, plan) or _is_through_norm(side, plan) for side in sides)


def is_of_column(position: int, plan: KernelPlan) -> bool:
    """Whether a value is loaded, and the same in every row, or in all of a kernel without rows."""
    value = plan.body[position]
    if not isinstance(value, Load) or value.mask is not None or value.index.values:
        return False
    along = {axis for axis, _ in plan.addresses[position].axes}
    others = {axis.name for axis in plan.rows or plan.cols}
    return bool(others) and along.isdisjoint(others)


def _says_where(position: int, plan: KernelPlan) -> bool:
    """Whether a whole number is all that says which row of a tensor is read or written."""
    value = plan.body[position]
    dtype = value.dtype  # type: ignore[union-attr]
    accesses = (one for one in plan.body if isinstance(one, Load | Store))
    return dtype in (torch.int32, torch.int64) and any(
        [place for place, _ in one.index.values] == [position] for one in accesses
    )


def _is_mean(position: int, of: int, plan: KernelPlan) -> bool:
    """Whether a value is the mean of another one, by its role, by its name, or by what it is made of."""
    value = plan.body[position]
    if getattr(value, "name", None) in _MEANS:
        return True
    if isinstance(value, Load):
        return value.buffer.endswith("running_mean")
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.DIV:
        return False
    total, count = (plan.body[side] for side in value.args)
    return _sums(total, of) and isinstance(count, AxisSize)


def _is_of_norm_backward(value: Value, plan: KernelPlan) -> bool:
    """Whether a value is a mean that a norm takes from a gradient, or a product with one."""
    if getattr(value, "name", None) in _OF_BACKWARD:
        return True
    if not isinstance(value, Pointwise) or value.op not in (PointwiseOp.MUL, PointwiseOp.SUB):
        return False
    return any(getattr(plan.body[side], "name", None) in _OF_BACKWARD for side in value.args)


def _is_of_softmax_backward(value: Pointwise, plan: KernelPlan) -> bool:
    """``p - weights * sum(p)``, where p is ``d * weights``."""
    product, scaled = (plan.body[side] for side in value.args)
    if not (isinstance(product, Pointwise) and isinstance(scaled, Pointwise)):
        return False
    if product.op is not PointwiseOp.MUL or scaled.op is not PointwiseOp.MUL:
        return False
    sums = [side for side in scaled.args if _sums(plan.body[side], value.args[0])]
    return len(sums) == 1 and bool({*product.args} & {*scaled.args})


def _sums(value: Value, position: int) -> bool:
    return isinstance(value, Reduce) and value.op is ReduceOp.SUM and value.arg == position


def _is_normalized(position: int, plan: KernelPlan) -> bool:
    value = plan.body[position]
    if getattr(value, "name", None) is Role.NORMALIZED:
        return True
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.MUL:
        return False
    roles = {getattr(plan.body[side], "name", None) for side in value.args}
    return Role.RSTD in roles and Role.CENTERED in roles


def _is_weight(position: int, plan: KernelPlan) -> bool:
    """Whether a value is loaded from a vector."""
    value = plan.body[position]
    dims = {pointer.name: pointer.dims for pointer in plan.pointers}
    return isinstance(value, Load) and len(dims.get(value.buffer) or (0, 0)) == 1


def is_rotated(value: Value, plan: KernelPlan) -> bool:
    """Whether a value is one half of a row or the negative of the other, by where it is."""
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.WHERE:
        return False
    condition, *sides = (plan.body[side] for side in value.args)
    negated = [isinstance(side, Pointwise) and side.op is PointwiseOp.NEG for side in sides]
    is_of_places = not any(isinstance(plan.body[side], Load) for side in arguments(condition))
    return negated[0] != negated[1] and is_of_places


def _is_of_softmax(position: int, plan: KernelPlan) -> bool:
    return any(
        isinstance(value, Reduce) and value.name is Role.ROW_MAX and value.arg == position
        for value in plan.body
    )


def _is_masked(value: Pointwise, plan: KernelPlan) -> bool:
    """Whether a value is a sum with what hides some of it, or a choice between it and a number."""
    sides = [plan.body[side] for side in value.args]
    if value.op is PointwiseOp.WHERE:
        return any(isinstance(side, Constant) for side in sides)
    choices = [side for side in sides if isinstance(side, Pointwise) and side.op is PointwiseOp.WHERE]
    return value.op is PointwiseOp.ADD and any(
        all(isinstance(plan.body[side], Constant) for side in choice.args[1:]) for choice in choices
    )


def places_of(load: Load) -> list[int]:
    """The values that say where a load reads, rows before columns: a step of theirs is the longer one."""
    return [position for position, step in sorted(load.index.values, key=lambda place: -rank(place[1]))]
