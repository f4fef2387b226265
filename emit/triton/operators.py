"""Triton's way to write each pointwise operation and each reduction, with PyTorch's semantics.

Of reductions: identities, functions that combine, and where a guard stands.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import torch

from longhand.emit.text.expression import (
    SAME,
    Operator,
    Precedence,
    Text,
    call,
    compose,
    infix,
    outside,
    word,
)
from longhand.emit.text.function_names import FUNCTIONS, n_arguments
from longhand.emit.triton.scope import language_dtype, number
from longhand.emit.triton.space import Space
from longhand.errors import LoweringError
from longhand.lower.ir import (
    AxisSize,
    Constant,
    IndexExpression,
    Load,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Scalar,
    Store,
    Value,
    arguments,
)
from longhand.schedule.plan import KernelPlan, told_signs

Op = PointwiseOp
_P = Precedence


def _compare(symbol: str) -> Operator:
    # Not left-associative: Python reads a < b < c as a chain.
    return Operator(f"{{0}} {symbol} {{1}}", _P.COMPARE, (_P.BIT_OR, _P.BIT_OR))


# Where the dtype of the arguments makes no difference.
_ANY = {
    **{op: call(function.triton, n_arguments(op)) for op, function in FUNCTIONS.items()},
    Op.ADD: infix("+", _P.SUM),
    Op.SUB: infix("-", _P.SUM),
    Op.MUL: infix("*", _P.PRODUCT),
    Op.DIV: infix("/", _P.PRODUCT),
    Op.NEG: Operator("-{0}", _P.UNARY, (_P.UNARY,)),
    Op.SIGN: call("sign_of"),
    Op.FMAX: call("tl.maximum", 2),
    Op.FMIN: call("tl.minimum", 2),
    Op.RECIPROCAL: Operator("1.0 / {0}", _P.PRODUCT, (_P.UNARY,)),
    Op.RSQRT: call("tl.rsqrt"),
    Op.SIGMOID: call("tl.sigmoid"),
    Op.EQ: _compare("=="),
    Op.NE: _compare("!="),
    Op.LT: _compare("<"),
    Op.LE: _compare("<="),
    Op.GT: _compare(">"),
    Op.GE: _compare(">="),
    Op.ISNAN: Operator("{0} != {0}", _P.COMPARE, (_P.BIT_OR,)),
    Op.ISINF: Operator('tl.abs({0}) == float("inf")', _P.COMPARE),
    Op.LOGICAL_AND: infix("&", _P.BIT_AND),
    Op.LOGICAL_OR: infix("|", _P.BIT_OR),
    Op.LOGICAL_XOR: infix("^", _P.BIT_XOR),
    Op.LOGICAL_NOT: Operator("~{0}", _P.UNARY, (_P.UNARY,)),
    Op.BITWISE_AND: infix("&", _P.BIT_AND),
    Op.BITWISE_OR: infix("|", _P.BIT_OR),
    Op.BITWISE_XOR: infix("^", _P.BIT_XOR),
    Op.BITWISE_NOT: Operator("~{0}", _P.UNARY, (_P.UNARY,)),
    Op.SHIFT_LEFT: infix("<<", _P.SHIFT),
    Op.SHIFT_RIGHT: infix(">>", _P.SHIFT),
    Op.WHERE: call("tl.where", 3),
}
# Before Triton 3.8, -x is 0.0 - x: of 0.0 it is 0.0.
_NEGATED = Operator("-1.0 * {0}", _P.PRODUCT, (_P.PRODUCT,))
_LIBDEVICE_TRUNC = frozenset({"libdevice.trunc"})
_FLOAT = {
    Op.FLOOR_DIV: call("floor_quotient_float", 2),
    Op.TRUNC_DIV: Operator("libdevice.trunc(tl.div_rn({0}, {1}))", needs=_LIBDEVICE_TRUNC),
    Op.REMAINDER: call("floor_remainder_float", 2),
    Op.FMOD: call("libdevice.fmod", 2),
    Op.MAXIMUM: call("nan_maximum", 2),
    Op.MINIMUM: call("nan_minimum", 2),
}
_INTEGER = {
    Op.FLOOR_DIV: call("floor_quotient", 2),
    Op.TRUNC_DIV: infix("//", _P.PRODUCT),
    Op.REMAINDER: call("floor_remainder", 2),
    Op.FMOD: infix("%", _P.PRODUCT),
    Op.MAXIMUM: call("tl.maximum", 2),
    Op.MINIMUM: call("tl.minimum", 2),
    Op.SIGNBIT: Operator("{0} < 0", _P.COMPARE, (_P.BIT_OR,)),
    **dict.fromkeys((Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND), SAME),
}
# What Triton writes out for float32 alone: its own are exact for float64.
_DOUBLE = {
    Op.SQRT: call("tl.sqrt"),
    Op.TRUNC_DIV: Operator(
        "libdevice.trunc({0} / {1})", operands=(_P.PRODUCT, _P.UNARY), needs=_LIBDEVICE_TRUNC
    ),
}
# With a named constant on their left: in Triton's interpreter such a one takes the tensor on its right for a number.
_FLIPPED = {
    op: Operator(f"{{1}} {symbol} {{0}}", precedence, (Precedence(precedence + 1), precedence))
    for op, symbol, precedence in (
        (Op.ADD, "+", _P.SUM),
        (Op.MUL, "*", _P.PRODUCT),
        (Op.BITWISE_AND, "&", _P.BIT_AND),
        (Op.BITWISE_OR, "|", _P.BIT_OR),
        (Op.BITWISE_XOR, "^", _P.BIT_XOR),
    )
} | {
    op: Operator(f"{{1}} {symbol} {{0}}", _P.COMPARE, (_P.BIT_OR, _P.BIT_OR))
    for op, symbol in zip(
        (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE), ("==", "!=", ">", ">=", "<", "<="), strict=True
    )
}
# The infix operations that cannot be turned round.
ONE_WAY = frozenset({Op.SUB, Op.DIV, Op.TRUNC_DIV, Op.FMOD, Op.SHIFT_LEFT, Op.SHIFT_RIGHT})
# Functions of libdevice: for them a number is of float32, whatever stands beside it, and one must be a tensor.
OF_TENSORS = frozenset(
    {Op.FMOD, Op.REMAINDER, Op.FLOOR_DIV, Op.EXP}
    | {op for op, function in FUNCTIONS.items() if function.is_in_libdevice}
)
# Operations whose result jumps where their argument is off by one unit in the last place.
_ROUNDINGS = frozenset({Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND, Op.FMOD, Op.REMAINDER, Op.FLOOR_DIV})
_COMPARISONS = frozenset({Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE})
# The device functions that templates/triton/functions.jinja can write, in their order there.
DEVICE_FUNCTIONS = (
    "nan_maximum",
    "nan_minimum",
    "times",
    "sign_of",
    "floor_quotient",
    "floor_remainder",
    "floor_quotient_float",
    "floor_remainder_float",
    "first_max",
    "first_min",
    "tensor_pointer",
)


# tl.div_rn converts no integers, and sizes come as such.
_DIVIDED_BY_SIZE = Operator("tl.div_rn({0}, tl.cast({1}, tl.float32))")
# Those of them that call libdevice themselves.
_OVER_LIBDEVICE = frozenset({"floor_quotient_float", "floor_remainder_float"})


def calls_libdevice(needs: Iterable[str]) -> bool:
    """Whether any of the functions that a kernel calls is one of libdevice, or calls one."""
    return any(name.startswith("libdevice.") or name in _OVER_LIBDEVICE for name in needs)


class OperatorTable:
    """Writes the operations of one body.

    Args:
        body: The kernel's body.
        is_narrow: Whether all that the kernel writes is 16-bit floats: then approximations of float32 are good enough.
        named: Positions of constants that stand under a name at the top of the file.
    """

    def __init__(
        self, body: tuple[Value, ...], is_narrow: bool = False, named: Container[int] = frozenset()
    ) -> None:
        self._body = body
        self._named = named
        self._tensors = _tensors(body)
        self._is_narrow = is_narrow
        self._told_signs = told_signs(body)
        self._dtypes = [torch.bool if isinstance(value, Store) else value.dtype for value in body]
        jumping = [value for value in body if isinstance(value, Pointwise) and _jumps(value)]
        self._exact = {id(body[arg]) for value in jumping for arg in value.args}

    def __call__(self, value: Pointwise) -> Operator:
        """How `value` is written.

        Raises:
            LoweringError: There is no such operation on this dtype.
        """
        dtype = self._dtypes[value.args[0]]
        if value.op is Op.CAST:
            is_tensor = value.args[0] in self._tensors
            return _cast(value, dtype.is_floating_point) if is_tensor else _cast_of_number(value)
        if value.op in _FLIPPED and value.args[0] in self._named and value.args[1] in self._tensors:
            return _FLIPPED[value.op]
        if value.op is Op.SIGNBIT and dtype.is_floating_point:
            bits = "tl.int64" if dtype is torch.float64 else "tl.int32"
            return Operator(f"{{0}}.to({bits}, bitcast=True) < 0", _P.COMPARE, (_P.ATOM,))
        if value.op is Op.EXP and not self._is_narrow and not self._is_shifted(value):
            return call("libdevice.exp")
        if value.op is Op.NEG and value.args[0] in self._told_signs:
            return _NEGATED
        if dtype is torch.float64 and value.op in _DOUBLE:
            return _DOUBLE[value.op]
        is_of_tensors = bool(self._tensors.intersection(value.args))
        if value.op is Op.DIV and is_of_tensors and dtype is not torch.float64 and self._is_seen(value):
            return _DIVIDED_BY_SIZE if self._may_be_whole(value.args[1]) else call("tl.div_rn", 2)
        table = _FLOAT if dtype.is_floating_point else _INTEGER
        operator = table.get(value.op) or _ANY.get(value.op)
        if operator is None or (value.op is Op.POW and not dtype.is_floating_point):
            raise LoweringError(f"Triton has no {value.op.value} of {dtype}.")
        return operator

    def _may_be_whole(self, position: int) -> bool:
        """Whether a divisor is a number that may be an int: what a launch passes, or made of that."""
        return position not in self._tensors and not isinstance(self._body[position], Constant)

    def _is_seen(self, value: Pointwise) -> bool:
        """Whether the error of `/` (2 ulp where eager has half of one) is seen: no sum and no rounding hides it."""
        divisor = self._body[value.args[1]]
        if id(value) in self._exact or self._is_narrow or isinstance(divisor, Constant | Scalar | AxisSize):
            return id(value) in self._exact
        return not any(isinstance(other, Reduce) for other in self._body)

    def _is_shifted(self, value: Pointwise) -> bool:
        """Whether this is exp(x - max(x)): tl.exp errs in proportion to its argument, there where e**x is tiny."""
        argument = self._body[value.args[0]]
        if not isinstance(argument, Pointwise) or argument.op is not Op.SUB:
            return False
        subtracted = self._body[argument.args[1]]
        is_max = isinstance(subtracted, Reduce) and subtracted.op is ReduceOp.MAX
        return is_max and subtracted.arg == argument.args[0]  # type: ignore[union-attr]


def _jumps(value: Pointwise) -> bool:
    """Whether a quotient among the arguments must be rounded as IEEE says: what is rounded to 16 bits is decided by."""
    converts = value.op is Op.CAST and (not value.dtype.is_floating_point or value.narrow is not None)
    return value.op in _ROUNDINGS or value.op in _COMPARISONS or converts


def _tensors(body: tuple[Value, ...]) -> frozenset[int]:
    """The values that Triton has as tensors; the others are Python's numbers, or constexprs."""
    tensors: set[int] = set()
    for position, value in enumerate(body):
        match value:
            case Load() | Reduce():
                tensors.add(position)
            case IndexExpression(index=index) if index.axes or index.values:
                tensors.add(position)
            case Pointwise(op=op, args=args) if op is Op.CAST or tensors.intersection(args):
                tensors.add(position)
    return frozenset(tensors)


def _cast_of_number(value: Pointwise) -> Operator:
    """A conversion of what has no methods."""
    inner = "{0}" if value.narrow is None else f"tl.cast({{0}}, {language_dtype(value.narrow)})"
    return Operator(f"tl.cast({inner}, {language_dtype(value.dtype)})")


def _cast(value: Pointwise, is_of_float: bool) -> Operator:
    """A conversion; through the storage type first where the value must be wrapped or rounded to it."""
    dtype = language_dtype(value.dtype)
    if value.narrow is not None:
        # A GPU makes 0 of a negative float as an unsigned number; PyTorch goes through int64, which wraps.
        whole = ".to(tl.int64)" * (is_of_float and value.narrow is torch.uint8)
        return Operator(f"{{0}}{whole}.to({language_dtype(value.narrow)}).to({dtype})", _P.ATOM, (_P.ATOM,))
    if dtype == "tl.int1":
        return Operator("{0} != 0", _P.COMPARE, (_P.BIT_OR,))
    return Operator(f"{{0}}.to({dtype})", _P.ATOM, (_P.ATOM,))


def combine_function(op: ReduceOp) -> Text:
    """The device function that combines two partial results with PyTorch's rules for NaN."""
    return outside(
        {
            ReduceOp.MAX: "nan_maximum",
            ReduceOp.MIN: "nan_minimum",
            ReduceOp.PROD: "times",
            ReduceOp.ARGMAX: "first_max",
            ReduceOp.ARGMIN: "first_min",
        }[op]
    )


def is_plain(plan: KernelPlan, position: int) -> bool:
    """Whether Triton's own max or min does: integers, or where NaN shows all the same."""
    reduce = plan.body[position]
    assert isinstance(reduce, Reduce)
    if reduce.op not in (ReduceOp.MAX, ReduceOp.MIN):
        return False
    return not reduce.dtype.is_floating_point or position in plan.numerics.drops_nan


def lane_reduction(
    plan: KernelPlan, space: Space, position: int, argument: Text, index: Text | None, is_pair: bool = False
) -> Text:
    """A block reduced along its reduced side; it needs the device functions which that calls.

    Args:
        argument: The block.
        index: For ARG*: the block of positions; None for their positions in the block, and no NaN among them.
        is_pair: With an index: the value stays beside its position.
    """
    reduce = plan.body[position]
    assert isinstance(reduce, Reduce)
    over_rows = reduce.axes[0] in {axis.name for axis in plan.rows}
    axis = 0 if over_rows or not space.is_tile else 1
    kept = ", keep_dims=True" * space.is_tile
    rest = f"axis={axis}{kept}"
    op = reduce.op
    if op is ReduceOp.SUM:
        return compose("tl.sum({}, {})", argument, rest)
    if op in (ReduceOp.ANY, ReduceOp.ALL):
        extreme = "max" if op is ReduceOp.ANY else "min"
        return compose(
            "tl.{}(({}).to(tl.int32), {}) != 0", extreme, argument, rest, precedence=Precedence.COMPARE
        )
    is_argument = op in (ReduceOp.ARGMAX, ReduceOp.ARGMIN)
    if index is None and is_argument:
        return compose("tl.{}({}, {}).to(tl.int64)", op.value, argument, rest)
    if index is None and is_plain(plan, position):
        return compose("tl.{}({}, {})", op.value, argument, rest)
    function = combine_function(op)
    if index is None:
        return compose("tl.reduce({}, {}, {}{})", argument, str(axis), function, kept)
    pair = compose("tl.reduce(({}, {}), {}, {}{})", argument, index, str(axis), function, kept)
    return pair if is_pair else compose("{}[1]", pair)


def lane_index(plan: KernelPlan, space: Space, position: int) -> Text | None:
    """The positions that an ARG* of a block needs; None for integers, of which Triton takes the first itself."""
    reduce = plan.body[position]
    assert isinstance(reduce, Reduce)
    argument = plan.body[reduce.arg]
    assert not isinstance(argument, Store)
    if reduce.op not in (ReduceOp.ARGMAX, ReduceOp.ARGMIN) or not argument.dtype.is_floating_point:
        return None
    over_rows = reduce.axes[0] in {axis.name for axis in plan.rows}
    index = word(space.flats[0 if over_rows else -1].index)
    shape = "[ROWS, COLS]" if space.is_tile else space.width
    return compose("tl.broadcast_to({}, {}).to(tl.int64)", index, shape)


def reduce_identity(body: tuple[Value, ...], position: int) -> str:
    """The element that changes nothing: 0 for a sum, minus infinity for a maximum."""
    reduce = body[position]
    assert isinstance(reduce, Reduce)
    argument = body[reduce.arg]
    assert not isinstance(argument, Store)
    dtype = argument.dtype
    match reduce.op:
        case ReduceOp.SUM:
            return number(0, dtype)
        case ReduceOp.PROD:
            return number(1, dtype)
        case ReduceOp.ANY:
            return "False"
        case ReduceOp.ALL:
            return "True"
    is_max = reduce.op in (ReduceOp.MAX, ReduceOp.ARGMAX)
    if dtype.is_floating_point:
        return number(float("-inf") if is_max else float("inf"), dtype)
    bits = 63 if "64" in str(dtype) else 31
    return f"-(2**{bits})" if is_max else f"2**{bits} - 1"


def guarded_squares(plan: KernelPlan, named: Container[int]) -> dict[int, int]:
    """Guarded sums of x * x where x has a line: the guard goes there, once, and the square needs none.

    Only where every reduction that x feeds is guarded, so that no other one sees the change.
    """
    pairs: dict[int, int] = {}
    body = plan.body
    for position in plan.guards:
        reduce = body[position]
        if not isinstance(reduce, Reduce) or reduce.op is not ReduceOp.SUM or plan.passes:
            continue
        square = body[reduce.arg]
        if not isinstance(square, Pointwise) or square.op is not PointwiseOp.MUL or reduce.arg in named:
            continue
        factor, other = square.args
        if factor != other or factor not in named or not isinstance(body[factor], Pointwise):
            continue
        fed = _fed_by(body, factor)
        if factor not in pairs.values() and all(p in plan.guards for p in fed if isinstance(body[p], Reduce)):
            pairs[position] = factor
    return pairs


def _fed_by(body: tuple[Value, ...], source: int) -> set[int]:
    positions = {source}
    for position, value in enumerate(body):
        if positions & set(arguments(value)):
            positions.add(position)
    return positions
