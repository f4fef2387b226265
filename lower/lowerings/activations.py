"""Elementwise functions that are several operations of a body: activations, clamps and their kin."""

from __future__ import annotations

import math

import torch

from longhand.capture.graph import Role
from longhand.lower.builder import Handle, Number
from longhand.lower.context import Context, Operand
from longhand.lower.lowerings.arithmetic import scaled
from longhand.lower.lowerings.pointwise import apply, held_number
from longhand.lower.ops import PointwiseOp
from longhand.lower.registry import lowers
from longhand.lower.unsupported import UnsupportedLowering
from longhand.lower.views import TensorView

aten = torch.ops.aten
Op = PointwiseOp


def where(condition: Handle, if_true: Handle | Number, if_false: Handle | Number) -> Handle:
    """Elementwise choice; at least one of the branches is a handle."""
    return condition.body.where(condition, if_true, if_false)


# --- gelu, silu, tanh and sigmoid based ---


@lowers(aten.gelu.default)
def _gelu(ctx: Context, x: TensorView, approximate: str) -> TensorView:
    return ctx.pointwise([x], gelu_tanh if approximate == "tanh" else gelu)


def gelu(x: Handle) -> Handle:
    """x times the normal distribution's cumulative function, exactly (erf)."""
    sqrt_half = x.body.constant(math.sqrt(0.5), x.dtype, Role.SQRT_HALF)
    return x * 0.5 * (apply(Op.ERF, x * sqrt_half) + 1.0)


def gelu_tanh(x: Handle) -> Handle:
    """The same, approximated by tanh, in the form that takes one exponential: (1 + tanh(u)) / 2 = sigmoid(2u)."""
    cubic = (x + x * x * x * 0.044715).named(Role.CUBIC)
    factor = x.body.constant(2.0 * math.sqrt(2.0 / math.pi), x.dtype, Role.TWO_SQRT_2_OVER_PI)
    return x * apply(Op.SIGMOID, cubic * factor)


@lowers(aten.gelu_backward.default)
def _gelu_backward(ctx: Context, gradient: TensorView, x: TensorView, approximate: str) -> TensorView:
    return ctx.pointwise([gradient, x], d_gelu_tanh if approximate == "tanh" else d_gelu)


def d_gelu(gradient: Handle, x: Handle) -> Handle:
    """Through the normal distribution's cumulative function and its density."""
    sqrt_half = x.body.constant(math.sqrt(0.5), x.dtype, Role.SQRT_HALF)
    cumulative = (0.5 * (apply(Op.ERF, x * sqrt_half) + 1.0)).named(Role.CUMULATIVE)
    one_over_sqrt_two_pi = x.body.constant(1.0 / math.sqrt(2.0 * math.pi), x.dtype, Role.ONE_OVER_SQRT_TWO_PI)
    density = (apply(Op.EXP, x * x * -0.5) * one_over_sqrt_two_pi).named(Role.DENSITY)
    return gradient * (cumulative + x * density)


def d_gelu_tanh(gradient: Handle, x: Handle) -> Handle:
    """Of x * sigmoid(2u), as `gelu_tanh` has it: sigmoid + x * sigmoid * (1 - sigmoid) * d(2u)."""
    cubic = (x + x * x * x * 0.044715).named(Role.CUBIC)
    factor = x.body.constant(2.0 * math.sqrt(2.0 / math.pi), x.dtype, Role.TWO_SQRT_2_OVER_PI)
    sigmoid = apply(Op.SIGMOID, cubic * factor).named(Role.SIGMOID)
    d_cubic = (x * x * 0.134145 + 1.0).named(Role.D_CUBIC)
    return gradient * (sigmoid + x * sigmoid * (1.0 - sigmoid) * (d_cubic * factor))


@lowers(aten.silu.default)
def _silu(ctx: Context, x: TensorView) -> TensorView:
    return ctx.pointwise([x], lambda x: x * apply(Op.SIGMOID, x))


@lowers(aten.mish.default)
def _mish(ctx: Context, x: TensorView) -> TensorView:
    return ctx.pointwise([x], lambda x: x * apply(Op.TANH, softplus(x, 1.0, 20.0)))


@lowers(aten.softplus.default)
def _softplus(ctx: Context, x: TensorView, beta: Number, threshold: Number) -> TensorView:
    return ctx.pointwise([x], lambda x: softplus(x, beta, threshold))


def softplus(x: Handle, beta: Number, threshold: Number) -> Handle:
    """log(1 + exp(beta x)) / beta; x itself where that is past the threshold."""
    bent = scaled(x, beta)
    smooth = apply(Op.LOG1P, apply(Op.EXP, bent))
    return where(bent > threshold, x, smooth if beta == 1 else smooth / beta)


@lowers(aten.log_sigmoid.default)
def _log_sigmoid(ctx: Context, x: TensorView) -> TensorView:
    def value(x: Handle) -> Handle:
        return apply(Op.MINIMUM, x, 0) - apply(Op.LOG1P, apply(Op.EXP, -apply(Op.ABS, x)))

    return ctx.pointwise([x], value)


@lowers(aten.logit.default)
def _logit(ctx: Context, x: TensorView, eps: float | None) -> TensorView:
    def value(x: Handle) -> Handle:
        p = x if eps is None else clamp(x, eps, 1.0 - eps)
        return apply(Op.LOG, p / (1.0 - p))

    return ctx.pointwise([x], value)


@lowers(aten.glu.default)
def _glu(ctx: Context, x: TensorView, dim: int) -> TensorView:
    dim = dim + x.rank if dim < 0 else dim
    x = ctx.strided(x)
    half = ctx.result_shape()[dim]
    value, gate = x.narrow(dim, 0, half), x.narrow(dim, half, half)
    assert value is not None and gate is not None
    return ctx.pointwise([value, gate], lambda value, gate: value * apply(Op.SIGMOID, gate))


# --- piecewise linear ---


@lowers(aten.relu.default)
def _relu(ctx: Context, x: TensorView) -> TensorView:
    return ctx.pointwise([x], lambda x: apply(Op.MAXIMUM, x, 0))


@lowers(aten.relu6.default)
def _relu6(ctx: Context, x: TensorView) -> TensorView:
    return ctx.pointwise([x], lambda x: clamp(x, 0, 6))


@lowers(aten.hardtanh.default)
def _hardtanh(ctx: Context, x: TensorView, low: Number, high: Number) -> TensorView:
    return ctx.pointwise([x], lambda x: clamp(x, low, high))


@lowers(aten.hardsigmoid.default)
def _hardsigmoid(ctx: Context, x: TensorView) -> TensorView:
    return ctx.pointwise([x], lambda x: clamp(x + 3.0, 0.0, 6.0) / 6.0)


@lowers(aten.hardswish.default)
def _hardswish(ctx: Context, x: TensorView) -> TensorView:
    return ctx.pointwise([x], lambda x: x * clamp(x + 3.0, 0.0, 6.0) / 6.0)


@lowers(aten.hardshrink.default)
def _hardshrink(ctx: Context, x: TensorView, width: Number) -> TensorView:
    width = held_number(width, x.dtype)
    return ctx.pointwise([x], lambda x: where((x >= -width) & (x <= width), 0, x))


@lowers(aten.softshrink.default)
def _softshrink(ctx: Context, x: TensorView, width: Number) -> TensorView:
    def value(x: Handle) -> Handle:
        # x * 0 keeps NaN.
        return where(x > width, x - width, where(x < -width, x + width, x * 0.0))

    return ctx.pointwise([x], value)


@lowers(aten.threshold.default)
def _threshold(ctx: Context, x: TensorView, limit: Number, value: Number) -> TensorView:
    return ctx.pointwise([x], lambda x: where(x <= limit, value, x))


@lowers(aten.leaky_relu.default)
def _leaky_relu(ctx: Context, x: TensorView, slope: Number) -> TensorView:
    return ctx.pointwise([x], lambda x: where(x > 0, x, x * slope))


@lowers(aten.prelu.default, aten._prelu_kernel.default)
def _prelu(ctx: Context, x: TensorView, weight: TensorView) -> TensorView:
    if weight.rank == 1 and x.rank > 2:
        for _ in range(x.rank - 2):
            weight = weight.insert(weight.rank)
    return ctx.pointwise([x, weight], lambda x, weight: where(x > 0, x, x * weight))


# --- exponential ---


@lowers(aten.elu.default)
def _elu(ctx: Context, x: TensorView, alpha: Number, scale: Number, input_scale: Number) -> TensorView:
    return ctx.pointwise([x], lambda x: elu(x, alpha, scale, input_scale))


def elu(x: Handle, alpha: Number, scale: Number = 1, input_scale: Number = 1) -> Handle:
    """scale * x where x is positive, else scale * alpha * (exp(input_scale * x) - 1)."""
    bent = apply(Op.EXPM1, scaled(x, input_scale))
    return where(x > 0, scaled(x, scale), scaled(bent, alpha * scale))


@lowers(aten.selu.default)
def _selu(ctx: Context, x: TensorView) -> TensorView:
    return ctx.pointwise(
        [x], lambda x: elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)
    )


@lowers(aten.celu.default)
def _celu(ctx: Context, x: TensorView, alpha: Number) -> TensorView:
    return ctx.pointwise([x], lambda x: elu(x, alpha, 1, 1.0 / alpha))


@lowers(aten.logaddexp.default)
def _logaddexp(ctx: Context, x: TensorView, y: TensorView) -> TensorView:
    def value(x: Handle, y: Handle) -> Handle:
        larger = apply(Op.MAXIMUM, x, y)
        summed = larger + apply(Op.LOG1P, apply(Op.EXP, -apply(Op.ABS, x - y)))
        # Equal infinities: their difference is NaN.
        return where(apply(Op.ISINF, x) & x.equals(y), x, summed)

    return ctx.pointwise([x, y], value)


@lowers(aten.logaddexp2.default)
def _logaddexp2(ctx: Context, x: TensorView, y: TensorView) -> TensorView:
    def value(x: Handle, y: Handle) -> Handle:
        larger = apply(Op.MAXIMUM, x, y)
        summed = larger + apply(Op.LOG1P, apply(Op.EXP2, -apply(Op.ABS, x - y))) * (1.0 / math.log(2.0))
        return where(apply(Op.ISINF, x) & x.equals(y), x, summed)

    return ctx.pointwise([x, y], value)


# --- clamps and products ---


def clamp(x: Handle, low: Handle | Number | None, high: Handle | Number | None) -> Handle:
    """x, at least `low` and at most `high`; NaN stays."""
    if low is not None:
        x = apply(Op.MAXIMUM, x, low)
    return x if high is None else apply(Op.MINIMUM, x, high)


@lowers(aten.clamp.default, aten.clamp.Tensor, aten.clip.default)
def _clamp(ctx: Context, x: Operand, low: Operand | None, high: Operand | None) -> TensorView:
    if ctx.result().dtype is torch.bool:
        raise UnsupportedLowering("clamp of bools is left to ATen.")
    bounds = [bound for bound in (low, high) if bound is not None]

    def value(x: Handle, *given: Handle) -> Handle:
        left = iter(given)
        return clamp(x, None if low is None else next(left), None if high is None else next(left))

    return ctx.pointwise([x, *bounds], value)


@lowers(aten.clamp_min.default, aten.clamp_min.Tensor)
def _clamp_min(ctx: Context, x: Operand, low: Operand) -> TensorView:
    return ctx.pointwise([x, low], lambda x, low: apply(Op.MAXIMUM, x, low))


@lowers(aten.clamp_max.default, aten.clamp_max.Tensor)
def _clamp_max(ctx: Context, x: Operand, high: Operand) -> TensorView:
    return ctx.pointwise([x, high], lambda x, high: apply(Op.MINIMUM, x, high))


@lowers(aten.square.default)
def _square(ctx: Context, x: TensorView) -> TensorView:
    return ctx.pointwise([x], lambda x: apply(Op.MUL, x, x))


@lowers(aten.addcmul.default)
def _addcmul(ctx: Context, x: TensorView, y: TensorView, z: TensorView, value: Number) -> TensorView:
    return ctx.pointwise([x, y, z], lambda x, y, z: x + scaled(y, value) * z)


@lowers(aten.addcdiv.default)
def _addcdiv(ctx: Context, x: TensorView, y: TensorView, z: TensorView, value: Number) -> TensorView:
    return ctx.pointwise([x, y, z], lambda x, y, z: x + scaled(y, value) / z)


@lowers(aten.lerp.Scalar, aten.lerp.Tensor)
def _lerp(ctx: Context, x: TensorView, y: TensorView, weight: Operand) -> TensorView:
    def value(x: Handle, y: Handle, weight: Handle) -> Handle:
        # As eager: from the nearer end, so that a weight of 1 gives y exactly.
        step = y - x
        return where(apply(Op.ABS, weight) < 0.5, x + weight * step, y - step * (1.0 - weight))

    if isinstance(weight, int | float):
        near, fixed = abs(weight) < 0.5, float(weight)
        return ctx.pointwise(
            [x, y], lambda x, y: x + (y - x) * fixed if near else y - (y - x) * (1.0 - fixed)
        )
    return ctx.pointwise([x, y, weight], value)


@lowers(aten.xlogy.Tensor, aten.xlogy.Scalar_Self, aten.xlogy.Scalar_Other)
def _xlogy(ctx: Context, x: Operand, y: Operand) -> TensorView:
    def value(x: Handle, y: Handle) -> Handle:
        product = where(x.equals(0), 0.0, x * apply(Op.LOG, y))
        return where(apply(Op.ISNAN, y), y, product)

    return ctx.pointwise([x, y], value)


@lowers(aten.nan_to_num.default)
def _nan_to_num(
    ctx: Context, x: TensorView, nan: float | None, posinf: float | None, neginf: float | None
) -> TensorView:
    dtype = ctx.result().dtype
    if not dtype.is_floating_point:
        return ctx.pointwise([x], lambda x: x)
    limits = torch.finfo(dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf

    def value(x: Handle) -> Handle:
        finite = where(x.equals(-math.inf), low, where(x.equals(math.inf), high, x))
        return where(apply(Op.ISNAN, x), nan or 0.0, finite)

    return ctx.pointwise([x], value)


@lowers(aten.sinc.default)
def _sinc(ctx: Context, x: TensorView) -> TensorView:
    def value(x: Handle) -> Handle:
        angle = x * math.pi
        return where(x.equals(0), 1.0, apply(Op.SIN, angle) / angle)

    return ctx.pointwise([x], value)


@lowers(aten.heaviside.default)
def _heaviside(ctx: Context, x: TensorView, at_zero: TensorView) -> TensorView:
    def value(x: Handle, at_zero: Handle) -> Handle:
        return where(x.equals(0), at_zero, (x > 0).to(x.dtype))

    return ctx.pointwise([x, at_zero], value)


@lowers(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def _masked_fill(ctx: Context, x: TensorView, mask: TensorView, value: Operand) -> TensorView:
    dtype = ctx.result().dtype
    return ctx.pointwise(
        [mask, value, x],
        lambda mask, value, x: where(mask, value, x),
        operand_dtype=(torch.bool, dtype, dtype),
    )


@lowers(aten.isposinf.default, aten.isneginf.default)
def _signed_inf(ctx: Context, x: TensorView) -> TensorView:
    limit = math.inf if ctx.node.target is aten.isposinf.default else -math.inf

    def value(x: Handle) -> Handle:
        return x.equals(limit) if x.dtype.is_floating_point else x.body.constant(False, torch.bool)

    return ctx.pointwise([x], value, operand_dtype=x.dtype)
