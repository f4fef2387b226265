"""Sums, quotients, powers and shifts: elementwise ops whose numbers and dtypes decide what they become."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from longhand.capture.graph import Provenance, Role, range_of
from longhand.lower.body import ROUNDED
from longhand.lower.builder import Handle, Number
from longhand.lower.context import Context, Operand
from longhand.lower.lowerings.pointwise import apply, held_number
from longhand.lower.ops import PointwiseOp
from longhand.lower.registry import lowers
from longhand.lower.unsupported import UnsupportedLowering
from longhand.lower.views import TensorView

aten = torch.ops.aten
Op = PointwiseOp

# --- sums and differences ---

_LARGEST_EPS = 1e-2
_AWAY_FROM_ZERO = frozenset(
    {aten.rsqrt.default, aten.sqrt.default, aten.log.default, aten.reciprocal.default}
)


@lowers(aten.add.Tensor, aten.add.Scalar)
def _add(ctx: Context, x: Operand, y: Operand, alpha: Number) -> TensorView:
    if alpha == 1 and isinstance(y, float) and _keeps_from_zero(ctx.node, y):
        return ctx.pointwise([x], lambda x: x + x.body.scalar(y, x.dtype, Role.EPS))
    return ctx.pointwise([x, y], lambda x, y: apply(Op.ADD, x, scaled(y, alpha)))


def _keeps_from_zero(node: fx.Node, number: float) -> bool:
    """Whether a small number is added only to what is then divided by, or whose root or logarithm is taken: an eps.

    It is an argument of the kernel, as it is where the norm is one call (layer_norm), so that norms which differ in
    it share their kernel.
    """
    if not 0.0 < number <= _LARGEST_EPS or not node.users or not node.meta["val"].is_floating_point():
        return False
    return all(
        user.target in _AWAY_FROM_ZERO or (user.target is aten.div.Tensor and user.args[1] is node)
        for user in node.users
    )


@lowers(aten.sub.Tensor, aten.sub.Scalar)
def _sub(ctx: Context, x: Operand, y: Operand, alpha: Number) -> TensorView:
    return ctx.pointwise([x, y], lambda x, y: apply(Op.SUB, x, scaled(y, alpha)))


@lowers(aten.rsub.Tensor, aten.rsub.Scalar)
def _rsub(ctx: Context, x: Operand, y: Operand, alpha: Number) -> TensorView:
    return ctx.pointwise([x, y], lambda x, y: apply(Op.SUB, y, scaled(x, alpha)))


def scaled(x: Handle, alpha: Number) -> Handle:
    """x * alpha, without the product where alpha is 1."""
    return x if alpha == 1 else apply(Op.MUL, x, alpha)


# --- division ---


@lowers(aten.div.Tensor, aten.div.Scalar, aten.true_divide.Tensor)
def _div(ctx: Context, x: Operand, y: Operand) -> TensorView:
    is_of_sizes = isinstance(y, int) and (y > _FEW or _is_spread_over(ctx.node.args[0], y))
    if is_of_sizes and ctx.result().dtype.is_floating_point and _is_of_a_derivative(ctx):
        # Of how many a mean is taken follows from sizes: no kernel is tied to it.
        return ctx.pointwise([x], lambda x: x / x.body.scalar(y, x.dtype, Role.N_AVERAGED))
    return ctx.pointwise([x, y], lambda x, y: x / y)


_FEW = 9


def _is_spread_over(node: object, n_elements: int) -> bool:
    """Whether a value is an expand by so many elements: divided by them it is the derivative of their mean."""
    if not isinstance(node, fx.Node) or node.target is not aten.expand.default:
        return False
    given, spread = node.args[0].meta["val"], node.meta["val"]  # type: ignore[union-attr]
    sizes = [*given.shape, *spread.shape]
    is_plain = all(isinstance(size, int) for size in sizes) and given.numel() > 0
    return is_plain and n_elements > 1 and spread.numel() == n_elements * given.numel()


def _is_of_a_derivative(ctx: Context) -> bool:
    origin: Provenance = Provenance.of(ctx.node)
    return bool(origin.differentiated or origin.differentiates)


@lowers(aten.div.Tensor_mode, aten.div.Scalar_mode)
def _div_mode(ctx: Context, x: Operand, y: Operand, rounding_mode: str | None) -> TensorView:
    if rounding_mode is None:
        return _div(ctx, x, y)
    op = Op.FLOOR_DIV if rounding_mode == "floor" else Op.TRUNC_DIV
    return _whole_division(ctx, op, x, y)


@lowers(aten.floor_divide.default, aten.floor_divide.Scalar)
def _floor_divide(ctx: Context, x: Operand, y: Operand) -> TensorView:
    return _whole_division(ctx, Op.FLOOR_DIV, x, y)


@lowers(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def _remainder(ctx: Context, x: Operand, y: Operand) -> TensorView:
    return _whole_division(ctx, Op.REMAINDER, x, y)


@lowers(aten.fmod.Tensor, aten.fmod.Scalar)
def _fmod(ctx: Context, x: Operand, y: Operand) -> TensorView:
    return _whole_division(ctx, Op.FMOD, x, y)


def _whole_division(ctx: Context, op: PointwiseOp, x: Operand, y: Operand) -> TensorView:
    dtype = ctx.result().dtype
    if dtype is torch.bool:
        raise UnsupportedLowering("Division of bools is left to ATen.")
    if not dtype.is_floating_point and (isinstance(y, TensorView) or y == 0):
        raise UnsupportedLowering("Eager raises where an integer is divided by 0.")
    if op is Op.FLOOR_DIV and isinstance(y, int) and y > 0 and range_of(ctx.node.args[0]) is not None:
        op = Op.TRUNC_DIV  # nothing is negative: the same, and what each language's own division does
    if dtype not in ROUNDED:
        return ctx.pointwise([x, y], lambda x, y: apply(op, x, y))
    # What is cut off jumps: eager rounds a number that is no divisor to 16 bits, and a quotient of tensors.
    x = held_number(x, dtype) if isinstance(x, int | float) else x
    if op in (Op.REMAINDER, Op.FMOD) and isinstance(y, int | float):
        y = held_number(y, dtype)
    if op is Op.TRUNC_DIV and isinstance(y, TensorView):
        return ctx.pointwise([x, y], lambda x, y: apply(Op.TRUNC, y.body.rounded(x / y, dtype)))
    return ctx.pointwise([x, y], lambda x, y: apply(op, x, y))


# --- powers ---


@lowers(aten.pow.Tensor_Scalar)
def _pow_scalar(ctx: Context, x: TensorView, exponent: Number) -> TensorView:
    dtype = ctx.result().dtype
    if not dtype.is_floating_point and (dtype is torch.bool or not 0 <= exponent <= 8):
        raise UnsupportedLowering("Integer powers are left to ATen.")
    return ctx.pointwise([x], lambda x: power(x, exponent))


@lowers(aten.pow.Tensor_Tensor)
def _pow(ctx: Context, x: TensorView, y: TensorView) -> TensorView:
    if not ctx.result().dtype.is_floating_point:
        raise UnsupportedLowering("Integer powers are left to ATen.")
    return ctx.pointwise([x, y], lambda x, y: apply(Op.POW, x, y))


@lowers(aten.pow.Scalar)
def _pow_base(ctx: Context, base: Number, y: TensorView) -> TensorView:
    if not ctx.result().dtype.is_floating_point:
        raise UnsupportedLowering("Integer powers are left to ATen.")
    if base == 2:
        return ctx.pointwise([y], lambda y: apply(Op.EXP2, y))
    return ctx.pointwise([y], lambda y: apply(Op.POW, base, y))


def power(x: Handle, exponent: Number) -> Handle:
    """x ** exponent, as a person would write it and as eager computes it."""
    if exponent == 0:
        return x.body.constant(1, x.dtype)
    if exponent == 0.5:
        return apply(Op.SQRT, x)
    if exponent == -0.5:
        return apply(Op.RSQRT, x)
    if exponent == -1:
        return apply(Op.RECIPROCAL, x)
    if exponent == -2:
        return apply(Op.RECIPROCAL, x * x)
    if exponent in (1, 2, 3) or not x.dtype.is_floating_point:
        product = x
        for _ in range(int(exponent) - 1):
            product = product * x
        return product
    return apply(Op.POW, x, exponent)


# --- shifts ---


@lowers(aten.bitwise_left_shift.Tensor_Scalar, aten.__lshift__.Scalar)
def _shift_left(ctx: Context, x: TensorView, by: int) -> TensorView:
    return _shift(ctx, Op.SHIFT_LEFT, x, by)


@lowers(aten.bitwise_right_shift.Tensor_Scalar, aten.__rshift__.Scalar)
def _shift_right(ctx: Context, x: TensorView, by: int) -> TensorView:
    return _shift(ctx, Op.SHIFT_RIGHT, x, by)


def _shift(ctx: Context, op: PointwiseOp, x: TensorView, by: Any) -> TensorView:
    dtype = ctx.result().dtype
    if (
        dtype.is_floating_point
        or dtype is torch.bool
        or not isinstance(by, int)
        or not 0 <= by < 8 * dtype.itemsize
    ):
        raise UnsupportedLowering("Only shifts by a number smaller than the width are loops of ours.")
    return ctx.pointwise([x], lambda x: apply(op, x, by))
