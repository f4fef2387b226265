"""Small nests by hand, as lowering and fusion make them, for the tests of kernel planning."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from longhand.lower.ir import (
    Axis,
    AxisSize,
    Buffer,
    BufferKind,
    Constant,
    Index,
    IndexExpression,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Scalar,
    Size,
    Store,
    Value,
    compute_dtype,
)
from longhand.options import Device, Options, Target

CPU = Options(Target(Device.CPU))
CUDA = Options(Target(Device.CUDA, "sm_90"))
DEVICES = (CPU, CUDA)

f32, f64, bf16, i32, i64, u8 = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.int32,
    torch.int64,
    torch.uint8,
)


class Ref(int):
    """A position in a body that knows how to be computed with."""

    nest: NestMaker

    def __add__(self, other: Ref | float) -> Ref:  # type: ignore[override]
        return self.nest.op(PointwiseOp.ADD, self, other)

    def __sub__(self, other: Ref | float) -> Ref:  # type: ignore[override]
        return self.nest.op(PointwiseOp.SUB, self, other)

    def __mul__(self, other: Ref | float) -> Ref:  # type: ignore[override]
        return self.nest.op(PointwiseOp.MUL, self, other)

    def __truediv__(self, other: Ref | float) -> Ref:  # type: ignore[override]
        return self.nest.op(PointwiseOp.DIV, self, other)


class NestMaker:
    """Collects axes, buffers and a body."""

    def __init__(self, **axes: Size) -> None:
        self.axes = tuple(Axis(name, size) for name, size in axes.items() if size != 1)
        self.sizes = axes
        self.body: list[Value] = []
        self.buffers: dict[str, Buffer] = {}

    def add(self, value: Value) -> Ref:
        self.body.append(value)
        ref = Ref(len(self.body) - 1)
        ref.nest = self
        return ref

    def dtype(self, position: int) -> torch.dtype:
        value = self.body[position]
        assert not isinstance(value, Store)
        return value.dtype

    def buffer(self, name: str, shape: Sequence[Size], dtype: torch.dtype = f32) -> Buffer:
        strides: list[Size] = []
        step: Size = 1
        for size in reversed(shape):
            strides.append(step)
            step = step * size
        self.buffers[name] = Buffer(name, BufferKind.INPUT, dtype, tuple(shape), tuple(reversed(strides)))
        return self.buffers[name]

    def index(
        self, offset: Size = 0, values: tuple[tuple[int, Size], ...] = (), **coefficients: Size
    ) -> Index:
        axes = tuple(sorted((a, c) for a, c in coefficients.items() if self.sizes[a] != 1 and c != 0))
        return Index(offset, axes, tuple((int(position), factor) for position, factor in values))

    def plain(self, dims: str) -> Index:
        """Contiguous over these axes: "b s d"."""
        step: Size = 1
        coefficients: dict[str, Size] = {}
        for axis in reversed(dims.split()):
            coefficients[axis] = step
            step = step * self.sizes[axis]
        return self.index(**coefficients)

    def load(self, name: str, dims: str | Index, dtype: torch.dtype = f32, mask: int | None = None) -> Ref:
        index = self._place(name, dims, dtype)
        return self.add(Load(name, index, compute_dtype(dtype), mask, name=name, origin=name))

    def store(
        self, name: str, dims: str | Index, value: int, dtype: torch.dtype = f32, mask: int | None = None
    ) -> None:
        self.add(Store(name, self._place(name, dims, dtype), value, mask, origin=name))

    def _place(self, name: str, dims: str | Index, dtype: torch.dtype) -> Index:
        if isinstance(dims, Index):
            assert name in self.buffers, "declare the buffer of a strided access"
            return dims
        if name not in self.buffers:
            self.buffer(name, [self.sizes[axis] for axis in dims.split()], dtype)
        return self.plain(dims)

    def constant(self, value: float | int | bool, dtype: torch.dtype = f32) -> Ref:
        return self.add(Constant(value, dtype))

    def scalar(self, value: float | Size, name: str, dtype: torch.dtype = f32) -> Ref:
        return self.add(Scalar(value, dtype, name))

    def axis_size(self, *axes: str, dtype: torch.dtype = f32) -> Ref:
        return self.add(AxisSize(tuple(axis for axis in axes if self.sizes[axis] != 1), dtype))

    def position(self, offset: Size = 0, **coefficients: Size) -> Ref:
        return self.add(IndexExpression(self.index(offset, **coefficients)))

    def op(self, op: PointwiseOp, *args: Ref | float, dtype: torch.dtype | None = None) -> Ref:
        own = next(self.dtype(arg) for arg in args if isinstance(arg, Ref))
        refs = tuple(arg if isinstance(arg, Ref) else self.constant(arg, own) for arg in args)
        if op is PointwiseOp.WHERE:
            own = self.dtype(refs[1])
        comparison = op in (PointwiseOp.LT, PointwiseOp.LE, PointwiseOp.GE, PointwiseOp.EQ, PointwiseOp.NE)
        return self.add(
            Pointwise(op, tuple(int(r) for r in refs), dtype or (torch.bool if comparison else own))
        )

    def reduce(self, op: ReduceOp, arg: Ref, *axes: str) -> Ref:
        dtype = i64 if op in (ReduceOp.ARGMAX, ReduceOp.ARGMIN) else self.dtype(arg)
        return self.add(Reduce(op, int(arg), tuple(a for a in axes if self.sizes[a] != 1), dtype))

    def nest(self) -> Nest:
        return Nest(self.axes, tuple(self.body))


def exp_normalize(rows: Size, cols: Size) -> NestMaker:
    make = NestMaker(row=rows, col=cols)
    exp_scores = make.op(PointwiseOp.EXP, make.load("scores", "row col"))
    row_sum = make.reduce(ReduceOp.SUM, exp_scores, "col")
    make.store("weights", "row col", exp_scores / row_sum)
    return make


def softmax_with_bias(rows: Size, cols: Size, dtype: torch.dtype = bf16) -> NestMaker:
    make = NestMaker(row=rows, col=cols)
    shifted = make.load("scores", "row col", dtype) * 0.125 + make.load("bias", "col", dtype)
    row_max = make.reduce(ReduceOp.MAX, shifted, "col")
    numerator = make.op(PointwiseOp.EXP, shifted - row_max)
    denominator = make.reduce(ReduceOp.SUM, numerator, "col")
    make.store("weights", "row col", numerator / denominator, dtype)
    return make


def add_layer_norm(
    batch: Size, seq: Size, dim: Size, dtype: torch.dtype = f32, keep_residual: bool = False
) -> NestMaker:
    make = NestMaker(batch=batch, seq=seq, dim=dim)
    residual = make.load("x", "batch seq dim", dtype) + make.load("attn", "batch seq dim", dtype)
    if keep_residual:
        make.store("residual", "batch seq dim", residual, dtype)
    n = make.axis_size("dim")
    mean = make.reduce(ReduceOp.SUM, residual, "dim") / n
    centered = residual - mean
    variance = make.reduce(ReduceOp.SUM, centered * centered, "dim") / n
    rstd = make.op(PointwiseOp.RSQRT, variance + make.scalar(1e-5, "eps"))
    weight, bias = make.load("weight", "dim", dtype), make.load("bias", "dim", dtype)
    make.store("h", "batch seq dim", centered * rstd * weight + bias, dtype)
    return make


def gelu_bias(rows: Size, cols: Size, dtype: torch.dtype = bf16) -> NestMaker:
    make = NestMaker(batch=2, row=rows, col=cols)
    x = make.load("x", "batch row col", dtype) + make.load("bias", "col", dtype)
    erf = make.op(PointwiseOp.ERF, x * 0.7071067811865476)
    make.store("out", "batch row col", x * 0.5 * (erf + 1.0), dtype)
    return make


def messages(edges: Size, width: Size, nodes: int) -> NestMaker:
    """What a graph network adds up: of each edge a row, times the edge's weight, where the edge leads."""
    make = NestMaker(edge=edges, col=width)
    make.buffer("totals", (nodes, width))
    target, weight = make.load("target", "edge", i64), make.load("weight", "edge", bf16)
    n_nodes, sent = make.scalar(nodes, "n_nodes", i64), make.load("sent", "edge col", bf16)
    is_first, is_last = make.op(PointwiseOp.GE, target, 0), make.op(PointwiseOp.LT, target, n_nodes)
    is_node = make.op(PointwiseOp.LOGICAL_AND, is_first, is_last)
    node = make.op(PointwiseOp.WHERE, is_node, target, make.constant(0, i64))
    value = make.op(PointwiseOp.WHERE, is_node, sent * weight, make.constant(float("nan")))
    make.add(Store("totals", make.index(values=((node, width),), col=1), int(value), adds=True))
    return make


def cross_entropy(rows: Size, cols: Size) -> NestMaker:
    make = NestMaker(row=rows, col=cols)
    logits = make.load("logits", "row col", bf16)
    row_max = make.reduce(ReduceOp.MAX, logits, "col")
    numerator = make.op(PointwiseOp.EXP, logits - row_max)
    log_sum = make.op(PointwiseOp.LOG, make.reduce(ReduceOp.SUM, numerator, "col"))
    target = make.load("target", "row", i64)
    target_logit = make.load("logits", make.index(row=cols, values=((target, 1),)), bf16)
    make.store("loss", "row", row_max + log_sum - target_logit)
    return make


def column_sum(rows: Size, cols: Size, dtype: torch.dtype = bf16) -> NestMaker:
    make = NestMaker(row=rows, col=cols)
    make.store("out", "col", make.reduce(ReduceOp.SUM, make.load("x", "row col", dtype) * 2.0, "row"), dtype)
    return make


def transpose_add(rows: Size, cols: Size) -> NestMaker:
    make = NestMaker(row=rows, col=cols)
    make.store("out", "row col", make.load("x", "col row", bf16) + make.load("y", "row col", bf16), bf16)
    return make


def rotary(batch: Size, seq: Size, heads: Size, half: Size) -> NestMaker:
    """Halves of q (batch, seq, heads, 2 * half) turned, written head by head; cos and sin are (seq, half)."""
    make = NestMaker(batch=batch, head=heads, seq=seq, half=half)
    wide = 2 * half
    make.buffer("q", (batch, seq, heads, wide), bf16)
    make.buffer("out", (batch, heads, seq, wide), bf16)
    read = {"batch": seq * heads * wide, "seq": heads * wide, "head": wide, "half": 1}
    write = {"batch": heads * seq * wide, "head": seq * wide, "seq": wide, "half": 1}
    low = make.load("q", make.index(**read), bf16)
    high = make.load("q", make.index(half, **read), bf16)
    cos, sin = make.load("cos", "seq half"), make.load("sin", "seq half")
    make.store("out", make.index(**write), low * cos - high * sin, bf16)
    make.store("out", make.index(half, **write), high * cos + low * sin, bf16)
    return make


def split_gate(rows: Size, cols: Size) -> NestMaker:
    """SwiGLU of the two halves of one wide tensor."""
    make = NestMaker(row=rows, col=cols)
    make.buffer("both", (rows, 2 * cols), f32)
    gate = make.load("both", make.index(row=2 * cols, col=1))
    up = make.load("both", make.index(cols, row=2 * cols, col=1))
    make.store("out", "row col", gate * make.op(PointwiseOp.SIGMOID, gate) * up)
    return make


def full_sum(rows: Size, cols: Size) -> NestMaker:
    make = NestMaker(row=rows, col=cols)
    total = make.reduce(ReduceOp.SUM, make.load("x", "row col"), "row", "col")
    make.store("mean", "", total / make.axis_size("row", "col"))
    return make


def channel_affine(n: Size, channels: Size, pixels: Size) -> NestMaker:
    make = NestMaker(n=n, channel=channels, pixel=pixels)
    x = make.load("x", "n channel pixel")
    scaled = (x - make.load("mean", "channel")) * make.load("scale", "channel")
    make.store("out", "n channel pixel", make.op(PointwiseOp.MAXIMUM, scaled, 0.0))
    return make


def channel_statistics(n: Size, channels: Size, pixels: Size) -> NestMaker:
    """Mean of each channel of (n, channel, pixel): two reduced axes that do not merge."""
    make = NestMaker(n=n, channel=channels, pixel=pixels)
    total = make.reduce(ReduceOp.SUM, make.load("x", "n channel pixel"), "n", "pixel")
    make.store("mean", "channel", total / make.axis_size("n", "pixel"))
    return make


def softmax_over_channels(n: Size, channels: Size, pixels: Size) -> NestMaker:
    make = NestMaker(n=n, channel=channels, pixel=pixels)
    x = make.load("x", "n channel pixel")
    numerator = make.op(PointwiseOp.EXP, x - make.reduce(ReduceOp.MAX, x, "channel"))
    make.store("out", "n channel pixel", numerator / make.reduce(ReduceOp.SUM, numerator, "channel"))
    return make


def softmax_of_halves(positions: Size, pixels: Size) -> NestMaker:
    """Down the columns of two halves of one tensor: in every loop down these they begin in the same place of a row."""
    make = NestMaker(position=positions, pixel=pixels)
    make.buffer("both", (positions, 2 * pixels), f32)
    x = make.load("both", make.index(position=2 * pixels, pixel=1))
    x += make.load("both", make.index(pixels, position=2 * pixels, pixel=1))
    numerator = make.op(PointwiseOp.EXP, x - make.reduce(ReduceOp.MAX, x, "position"))
    make.store("out", "position pixel", numerator / make.reduce(ReduceOp.SUM, numerator, "position"))
    return make


def mean_of_stacked(rows: Size, cols: Size) -> NestMaker:
    """The mean of two stacked vectors: what is loaded lies in the same place in every row that reads it."""
    make = NestMaker(row=rows, col=cols)
    is_first = make.op(PointwiseOp.LT, make.position(row=1), 1)
    is_other = make.op(PointwiseOp.LOGICAL_NOT, is_first)
    one = make.load("one", "col", mask=is_first)
    other = make.load("other", "col", mask=is_other)
    stacked = make.op(PointwiseOp.WHERE, is_first, one, other)
    make.store("out", "col", make.reduce(ReduceOp.SUM, stacked, "row") / 2)
    return make


def integer_rows(rows: Size, cols: Size) -> NestMaker:
    """argmax, sum and any over int32 rows; the sum in int64."""
    make = NestMaker(row=rows, col=cols)
    x = make.load("x", "row col", i32)
    make.store("best", "row", make.reduce(ReduceOp.ARGMAX, x, "col"), i64)
    wide = make.op(PointwiseOp.CAST, x, dtype=i64)
    make.store("total", "row", make.reduce(ReduceOp.SUM, wide, "col"), i64)
    positive = make.op(PointwiseOp.GE, x, 90)
    make.store("some", "row", make.reduce(ReduceOp.ANY, positive, "col"), torch.bool)
    return make


def masked_softmax(rows: Size, cols: Size) -> NestMaker:
    """Causal softmax: a position comparison inside."""
    make = NestMaker(head=3, row=rows, col=cols)
    x = make.load("x", "head row col")
    visible = make.op(PointwiseOp.LE, make.position(col=1), make.position(row=1))
    scores = make.op(PointwiseOp.WHERE, visible, x, make.constant(float("-inf")))
    numerator = make.op(PointwiseOp.EXP, scores - make.reduce(ReduceOp.MAX, scores, "col"))
    make.store("out", "head row col", numerator / make.reduce(ReduceOp.SUM, numerator, "col"))
    return make


def flip_columns(rows: Size, cols: Size) -> NestMaker:
    make = NestMaker(row=rows, col=cols)
    make.buffer("x", (rows, cols))
    make.store("out", "row col", make.load("x", make.index(cols - 1, row=cols, col=-1)) + 1.0)
    return make


def embedding(rows: Size, cols: Size) -> NestMaker:
    make = NestMaker(row=rows, col=cols)
    make.buffer("table", (11, cols))
    token = make.load("token", "row", i64)
    vector = make.load("table", make.index(col=1, values=((token, cols),)))
    make.store("out", "row col", vector + make.load("offset", "row col"))
    return make


def rms_norm(rows: Size, cols: Size, dtype: torch.dtype = bf16) -> NestMaker:
    make = NestMaker(row=rows, col=cols)
    x = make.load("x", "row col", dtype)
    mean_square = make.reduce(ReduceOp.SUM, x * x, "col") / make.axis_size("col")
    rstd = make.op(PointwiseOp.RSQRT, mean_square + make.scalar(1e-6, "eps"))
    make.store("out", "row col", x * rstd * make.load("weight", "col", dtype), dtype)
    return make


def layer_norm_backward(rows: Size, cols: Size, dtype: torch.dtype = bf16) -> NestMaker:
    """The gradient of what is normalized, and those of weight and bias, which are sums down the columns."""
    make = NestMaker(row=rows, col=cols)
    normalized, dy = _norm_rows(make, dtype)
    make.store("d_weight", "col", make.reduce(ReduceOp.SUM, dy * normalized, "row"), dtype)
    make.store("d_bias", "col", make.reduce(ReduceOp.SUM, dy, "row"), dtype)
    return make


def layer_norm_backward_rows(rows: Size, cols: Size, dtype: torch.dtype = bf16) -> NestMaker:
    """The gradient of what is normalized; the normalized rows are kept."""
    make = NestMaker(row=rows, col=cols)
    normalized, _ = _norm_rows(make, dtype)
    make.store("normalized", "row col", normalized, dtype)
    return make


def layer_norm_backward_columns(rows: Size, cols: Size, dtype: torch.dtype = bf16) -> NestMaker:
    """The gradients of weight and bias from the normalized rows."""
    make = NestMaker(row=rows, col=cols)
    normalized, dy = make.load("normalized", "row col", dtype), make.load("dy", "row col", dtype)
    make.store("d_weight", "col", make.reduce(ReduceOp.SUM, dy * normalized, "row"), dtype)
    make.store("d_bias", "col", make.reduce(ReduceOp.SUM, dy, "row"), dtype)
    return make


def _norm_rows(make: NestMaker, dtype: torch.dtype) -> tuple[Ref, Ref]:
    x, dy = make.load("x", "row col", dtype), make.load("dy", "row col", dtype)
    n = make.axis_size("col")
    centered = x - make.reduce(ReduceOp.SUM, x, "col") / n
    variance = make.reduce(ReduceOp.SUM, centered * centered, "col") / n
    rstd = make.op(PointwiseOp.RSQRT, variance + make.scalar(1e-5, "eps"))
    normalized = centered * rstd
    weighted = dy * make.load("weight", "col", dtype)
    through_mean = make.reduce(ReduceOp.SUM, weighted, "col") / n
    through_rstd = make.reduce(ReduceOp.SUM, weighted * normalized, "col") / n
    make.store("dx", "row col", (weighted - normalized * through_rstd - through_mean) * rstd, dtype)
    return normalized, dy
