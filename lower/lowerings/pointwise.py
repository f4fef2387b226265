"""Elementwise ops that are one operation of a body, with PyTorch's promotion."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from longhand.lower.body import ROUNDED
from longhand.lower.builder import Handle, Number
from longhand.lower.context import Context, Operand
from longhand.lower.ops import PointwiseOp
from longhand.lower.registry import lowers
from longhand.lower.unsupported import UnsupportedLowering
from longhand.lower.views import TensorView

aten = torch.ops.aten
Op = PointwiseOp

_FLOAT_UNARY = {
    aten.sqrt.default: Op.SQRT,
    aten.rsqrt.default: Op.RSQRT,
    aten.exp.default: Op.EXP,
    aten.exp2.default: Op.EXP2,
    aten.special_exp2.default: Op.EXP2,
    aten.expm1.default: Op.EXPM1,
    aten.special_expm1.default: Op.EXPM1,
    aten.log.default: Op.LOG,
    aten.log2.default: Op.LOG2,
    aten.log10.default: Op.LOG10,
    aten.log1p.default: Op.LOG1P,
    aten.special_log1p.default: Op.LOG1P,
    aten.sin.default: Op.SIN,
    aten.cos.default: Op.COS,
    aten.tan.default: Op.TAN,
    aten.asin.default: Op.ASIN,
    aten.acos.default: Op.ACOS,
    aten.atan.default: Op.ATAN,
    aten.sinh.default: Op.SINH,
    aten.cosh.default: Op.COSH,
    aten.tanh.default: Op.TANH,
    aten.asinh.default: Op.ASINH,
    aten.acosh.default: Op.ACOSH,
    aten.atanh.default: Op.ATANH,
    aten.erf.default: Op.ERF,
    aten.special_erf.default: Op.ERF,
    aten.erfc.default: Op.ERFC,
    aten.special_erfc.default: Op.ERFC,
    aten.sigmoid.default: Op.SIGMOID,
    aten.special_expit.default: Op.SIGMOID,
    aten.reciprocal.default: Op.RECIPROCAL,
}
_ROUNDING = {
    aten.floor.default: Op.FLOOR,
    aten.ceil.default: Op.CEIL,
    aten.trunc.default: Op.TRUNC,
    aten.fix.default: Op.TRUNC,
    aten.round.default: Op.ROUND,
}
_BINARY = {
    aten.maximum.default: Op.MAXIMUM,
    aten.minimum.default: Op.MINIMUM,
    aten.fmax.default: Op.FMAX,
    aten.fmin.default: Op.FMIN,
    aten.atan2.default: Op.ATAN2,
    aten.hypot.default: Op.HYPOT,
    aten.copysign.Tensor: Op.COPYSIGN,
    aten.copysign.Scalar: Op.COPYSIGN,
    aten.mul.Tensor: Op.MUL,
    aten.mul.Scalar: Op.MUL,
    aten.bitwise_and.Tensor: Op.BITWISE_AND,
    aten.bitwise_and.Scalar: Op.BITWISE_AND,
    aten.__and__.Tensor: Op.BITWISE_AND,
    aten.__and__.Scalar: Op.BITWISE_AND,
    aten.__or__.Tensor: Op.BITWISE_OR,
    aten.__or__.Scalar: Op.BITWISE_OR,
    aten.__xor__.Tensor: Op.BITWISE_XOR,
    aten.__xor__.Scalar: Op.BITWISE_XOR,
    aten.max.other: Op.MAXIMUM,
    aten.min.other: Op.MINIMUM,
    aten.bitwise_or.Tensor: Op.BITWISE_OR,
    aten.bitwise_or.Scalar: Op.BITWISE_OR,
    aten.bitwise_xor.Tensor: Op.BITWISE_XOR,
    aten.bitwise_xor.Scalar: Op.BITWISE_XOR,
}
# What an arithmetic or bitwise op is on bools.
_ON_BOOLS = {
    Op.ADD: Op.LOGICAL_OR,
    Op.MUL: Op.LOGICAL_AND,
    Op.MAXIMUM: Op.LOGICAL_OR,
    Op.FMAX: Op.LOGICAL_OR,
    Op.MINIMUM: Op.LOGICAL_AND,
    Op.FMIN: Op.LOGICAL_AND,
    Op.BITWISE_AND: Op.LOGICAL_AND,
    Op.BITWISE_OR: Op.LOGICAL_OR,
    Op.BITWISE_XOR: Op.LOGICAL_XOR,
}
# Minimum and maximum of integers ignore nothing: fmax is max there.
_ON_INTEGERS = {Op.FMAX: Op.MAXIMUM, Op.FMIN: Op.MINIMUM}
_COMPARISONS = {
    aten.eq: Op.EQ,
    aten.ne: Op.NE,
    aten.lt: Op.LT,
    aten.le: Op.LE,
    aten.gt: Op.GT,
    aten.ge: Op.GE,
}
_LOGICAL = {
    aten.logical_and.default: Op.LOGICAL_AND,
    aten.logical_or.default: Op.LOGICAL_OR,
    aten.logical_xor.default: Op.LOGICAL_XOR,
    aten.logical_not.default: Op.LOGICAL_NOT,
}


def apply(op: PointwiseOp, *args: Handle | Number, name: str | None = None) -> Handle:
    """The operation on handles (at least one) and numbers; on bools and integers, what it means there."""
    first = next(arg for arg in args if isinstance(arg, Handle))
    if first.dtype is torch.bool:
        op = _ON_BOOLS.get(op, op)
    elif not first.dtype.is_floating_point:
        op = _ON_INTEGERS.get(op, op)
    return first.body.pointwise(op, *args, name=name)


def operand_type(ctx: Context) -> torch.dtype:
    """The dtype that the node's tensor and number arguments are brought to before they are compared."""
    first, second = (_example(arg) for arg in ctx.node.args[:2])
    return torch.result_type(first, second)


def held_number(number: Number, dtype: torch.dtype) -> Number:
    """A number as 16 bits hold it, which hold no 0.1, for what jumps at it; other types are left as they are."""
    return torch.tensor(number, dtype=dtype).item() if dtype in ROUNDED else number


def _example(arg: Any) -> Any:
    return arg.meta["val"] if isinstance(arg, fx.Node) else arg


@lowers(*_FLOAT_UNARY)
def _float_unary(ctx: Context, x: TensorView) -> TensorView:
    op = _FLOAT_UNARY[ctx.node.target]  # type: ignore[index]
    return ctx.pointwise([x], lambda x: apply(op, x))


@lowers(*_ROUNDING)
def _rounding(ctx: Context, x: TensorView) -> TensorView:
    op = _ROUNDING[ctx.node.target]  # type: ignore[index]
    return ctx.pointwise([x], lambda x: apply(op, x) if x.dtype.is_floating_point else x)


@lowers(*_BINARY)
def _binary(ctx: Context, x: Operand, y: Operand) -> TensorView:
    op = _BINARY[ctx.node.target]  # type: ignore[index]
    return ctx.pointwise([x, y], lambda x, y: apply(op, x, y))


@lowers(*(getattr(packet, overload) for packet in _COMPARISONS for overload in ("Tensor", "Scalar")))
def _comparison(ctx: Context, x: Operand, y: Operand) -> TensorView:
    op = _COMPARISONS[ctx.node.target.overloadpacket]  # type: ignore[union-attr]
    dtype = operand_type(ctx)
    if dtype not in ROUNDED:
        return ctx.pointwise([x, y], lambda x, y: apply(op, x, y), operand_dtype=dtype)
    # Numbers and other types are rounded before they are compared: 0.1 is none that 16 bits hold.
    is_other = [not isinstance(one, TensorView) or one.dtype is not dtype for one in (x, y)]
    known = [isinstance(one, TensorView) and one.buffer in ctx.fills for one in (x, y)]

    def compare(*given: Handle) -> Handle:
        pairs = zip(given, is_other, known, strict=True)
        return apply(op, *(one.body.rounded(one, dtype) if any(rounds) else one for one, *rounds in pairs))

    return ctx.pointwise([x, y], compare, operand_dtype=dtype)


@lowers(*_LOGICAL)
def _logical(ctx: Context, *operands: Operand) -> TensorView:
    op = _LOGICAL[ctx.node.target]  # type: ignore[index]
    return ctx.pointwise(operands, lambda *args: apply(op, *args), operand_dtype=torch.bool)


@lowers(aten.neg.default)
def _neg(ctx: Context, x: TensorView) -> TensorView:
    return ctx.pointwise([x], lambda x: -x)


@lowers(aten.positive.default)
def _positive(ctx: Context, x: TensorView) -> TensorView:
    return ctx.pointwise([x], lambda x: x)


@lowers(aten.abs.default)
def _abs(ctx: Context, x: TensorView) -> TensorView:
    return ctx.pointwise([x], lambda x: x if x.dtype is torch.bool else apply(Op.ABS, x))


@lowers(aten.sign.default)
def _sign(ctx: Context, x: TensorView) -> TensorView:
    return ctx.pointwise([x], lambda x: x if x.dtype is torch.bool else apply(Op.SIGN, x))


@lowers(aten.signbit.default)
def _signbit(ctx: Context, x: TensorView) -> TensorView:
    def negative(x: Handle) -> Handle:
        if x.dtype.is_floating_point:
            return apply(Op.SIGNBIT, x)
        return x.body.constant(False, torch.bool) if x.dtype is torch.bool else x < 0

    return ctx.pointwise([x], negative, operand_dtype=x.dtype)


@lowers(aten.isnan.default)
def _isnan(ctx: Context, x: TensorView) -> TensorView:
    return ctx.pointwise([x], lambda x: _float_test(Op.ISNAN, x), operand_dtype=x.dtype)


@lowers(aten.isinf.default)
def _isinf(ctx: Context, x: TensorView) -> TensorView:
    return ctx.pointwise([x], lambda x: _float_test(Op.ISINF, x), operand_dtype=x.dtype)


@lowers(aten.isfinite.default)
def _isfinite(ctx: Context, x: TensorView) -> TensorView:
    def finite(x: Handle) -> Handle:
        if not x.dtype.is_floating_point:
            return x.body.constant(True, torch.bool)
        return apply(Op.ABS, x) < math.inf

    return ctx.pointwise([x], finite, operand_dtype=x.dtype)


def _float_test(op: PointwiseOp, x: Handle) -> Handle:
    return apply(op, x) if x.dtype.is_floating_point else x.body.constant(False, torch.bool)


@lowers(aten.bitwise_not.default)
def _bitwise_not(ctx: Context, x: TensorView) -> TensorView:
    return ctx.pointwise([x], lambda x: ~x if x.dtype is torch.bool else apply(Op.BITWISE_NOT, x))


# --- selection, conversion, copies ---


@lowers(aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar)
def _where(ctx: Context, condition: TensorView, x: Operand, y: Operand) -> TensorView:
    dtype = ctx.result().dtype
    return ctx.pointwise(
        [condition, x, y], lambda c, x, y: c.body.where(c, x, y), operand_dtype=(torch.bool, dtype, dtype)
    )


@lowers(
    aten._to_copy.default,
    aten.to.dtype,
    aten.clone.default,
    aten.lift_fresh_copy.default,
)
@lowers(aten.alias_copy.default, aten.detach_copy.default, aten.expand_copy.default)
def _copy(ctx: Context, x: TensorView, *_: Any) -> TensorView:
    source = ctx.node.args[0]
    assert isinstance(source, torch.fx.Node)
    if source.meta["val"].device != ctx.result().device:
        raise UnsupportedLowering("It moves between devices.")
    turns_contiguous = ctx.result().is_contiguous() and not source.meta["val"].is_contiguous()
    return ctx.pointwise([x], lambda x: x, keeps_layout=not turns_contiguous)


@lowers(aten.fill.Tensor)
def _fill(ctx: Context, x: TensorView, value: TensorView) -> TensorView:
    return ctx.pointwise([value], lambda value: value)


@lowers(aten.copy.default)
def _copy_from(ctx: Context, into: TensorView, x: TensorView, *_: Any) -> TensorView:
    return ctx.pointwise([x], lambda x: x)
