"""What each operation of a body is, but for its spelling: one entry per op.

The folding of constants, the interpreter, the cost model, the proofs about NaN and masked lanes, the verifier and the
names of values read it here. A printer has a table of spellings of its own: emit/triton/operators, emit/cpp/operators
and, for the references, emit/text/reference_ops.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch

Number: TypeAlias = float | int | bool


class PointwiseOp(enum.Enum):
    """Elementwise operations of a body. Semantics are PyTorch's on the same dtypes, NaN and infinity included.

    Comparisons, ISNAN, ISINF and LOGICAL_* yield bool. All arguments of an arithmetic op have one dtype, the result's.
    """

    # arithmetic
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"  # true division of floats
    FLOOR_DIV = "floor_div"  # rounds to minus infinity
    TRUNC_DIV = "trunc_div"  # rounds to zero
    REMAINDER = "remainder"  # sign of the divisor, as in Python
    FMOD = "fmod"  # sign of the dividend, as in C
    NEG = "neg"
    ABS = "abs"
    SIGN = "sign"
    MAXIMUM = "maximum"  # NaN if either is
    MINIMUM = "minimum"
    FMAX = "fmax"  # ignores one NaN
    FMIN = "fmin"
    COPYSIGN = "copysign"
    NEXTAFTER = "nextafter"
    RECIPROCAL = "reciprocal"
    # rounding
    FLOOR = "floor"
    CEIL = "ceil"
    TRUNC = "trunc"
    ROUND = "round"  # half to even
    # powers, exponentials, logarithms
    POW = "pow"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    EXP = "exp"
    EXP2 = "exp2"
    EXPM1 = "expm1"
    LOG = "log"
    LOG2 = "log2"
    LOG10 = "log10"
    LOG1P = "log1p"
    # trigonometry and special functions
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    ATAN2 = "atan2"
    SINH = "sinh"
    COSH = "cosh"
    TANH = "tanh"
    ASINH = "asinh"
    ACOSH = "acosh"
    ATANH = "atanh"
    ERF = "erf"
    ERFC = "erfc"
    SIGMOID = "sigmoid"
    HYPOT = "hypot"
    # tests
    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    ISNAN = "isnan"
    ISINF = "isinf"
    SIGNBIT = "signbit"
    # logic and bits
    LOGICAL_AND = "logical_and"  # bool
    LOGICAL_OR = "logical_or"
    LOGICAL_XOR = "logical_xor"
    LOGICAL_NOT = "logical_not"
    BITWISE_AND = "bitwise_and"  # integers
    BITWISE_OR = "bitwise_or"
    BITWISE_XOR = "bitwise_xor"
    BITWISE_NOT = "bitwise_not"
    SHIFT_LEFT = "shift_left"
    SHIFT_RIGHT = "shift_right"  # arithmetic
    # selection and conversion
    WHERE = "where"  # (condition, if true, if false)
    CAST = "cast"  # to the value's dtype (see Pointwise.narrow for storage types)


class ReduceOp(enum.Enum):
    """Reductions. The result of ARG* is the int64 position in the flattened (row-major) reduced axes."""

    SUM = "sum"
    PROD = "prod"
    MAX = "max"  # NaN wins, as in eager
    MIN = "min"
    ARGMAX = "argmax"  # first NaN wins, else the first maximum
    ARGMIN = "argmin"
    ANY = "any"  # bool
    ALL = "all"


Op = PointwiseOp


class Cost(enum.Enum):
    """What an operation costs beside a load of a float32 from the L1 cache."""

    NOTHING = enum.auto()
    MEDIUM = enum.auto()  # divisions and roots
    HEAVY = enum.auto()  # far more


@dataclasses.dataclass(frozen=True)
class Primitive:
    """A pointwise operation.

    Attributes:
        in_torch: What it means, on tensors of one dtype.
        n_arguments: How many it takes.
        noun: What it makes, as a thing; empty: the op's own name.
        leads_names: Whether a result may be called by the op and its argument: ``exp_scores``.
        cost: Of one element.
        yields_bool: Whether a test of numbers; else the result has the arguments' dtype.
        folds: Whether torch's result on constants is, to the bit, what a kernel computes on any device.
        keeps_nan: Whether a NaN among the arguments always makes NaN, in each spelling.
        on_numbers: What it means for Python's numbers, without rounding; it may raise where it has no result. None:
            nothing is concluded about what it makes of known numbers.
    """

    in_torch: Callable[..., torch.Tensor]
    n_arguments: int = 1
    noun: str = ""
    leads_names: bool = False
    cost: Cost = Cost.NOTHING
    yields_bool: bool = False
    folds: bool = False
    keeps_nan: bool = False
    on_numbers: Callable[..., Number] | None = None


@dataclasses.dataclass(frozen=True)
class Reduction:
    """A reduction.

    Attributes:
        of_rows: What it means, over the last dimension.
        identity: The element that changes nothing; an infinity stands for an integer type's extreme, too.
        noun: What it makes, as a thing; empty: the op's own name.
    """

    of_rows: Callable[[torch.Tensor], torch.Tensor]
    identity: Number
    noun: str = ""


def _larger(one: Number, other: Number) -> Number:
    """Python's max with torch's rule for NaN: one is enough."""
    return one if one != one else max(other, one)


def _smaller(one: Number, other: Number) -> Number:
    return one if one != one else min(other, one)


def _unconverted(value: torch.Tensor) -> torch.Tensor:
    """A cast within one dtype; which dtypes another is between, its value in the body says."""
    return value


def _first(rows: torch.Tensor, extreme: torch.Tensor) -> torch.Tensor:
    """The first position that holds the extreme value (the first NaN if that is NaN)."""
    hits = torch.where(extreme.isnan(), rows.isnan(), rows == extreme)
    return hits.to(torch.int8).argmax(-1)


PRIMITIVES: Mapping[PointwiseOp, Primitive] = {
    Op.ADD: Primitive(
        torch.add, n_arguments=2, noun="total", folds=True, keeps_nan=True, on_numbers=operator.add
    ),
    Op.SUB: Primitive(
        torch.sub, n_arguments=2, noun="difference", folds=True, keeps_nan=True, on_numbers=operator.sub
    ),
    Op.MUL: Primitive(
        torch.mul, n_arguments=2, noun="product", folds=True, keeps_nan=True, on_numbers=operator.mul
    ),
    Op.DIV: Primitive(
        torch.true_divide,
        n_arguments=2,
        noun="ratio",
        cost=Cost.MEDIUM,
        folds=True,
        keeps_nan=True,
        on_numbers=operator.truediv,
    ),
    Op.FLOOR_DIV: Primitive(
        functools.partial(torch.div, rounding_mode="floor"), n_arguments=2, noun="quotient", cost=Cost.HEAVY
    ),
    Op.TRUNC_DIV: Primitive(
        functools.partial(torch.div, rounding_mode="trunc"), n_arguments=2, noun="quotient", cost=Cost.HEAVY
    ),
    Op.REMAINDER: Primitive(torch.remainder, n_arguments=2, noun="remainder", cost=Cost.HEAVY),
    Op.FMOD: Primitive(torch.fmod, n_arguments=2, cost=Cost.HEAVY),
    Op.NEG: Primitive(torch.neg, noun="negated", folds=True, keeps_nan=True, on_numbers=operator.neg),
    Op.ABS: Primitive(torch.abs, noun="magnitude", folds=True, keeps_nan=True, on_numbers=abs),
    Op.SIGN: Primitive(torch.sign, folds=True),
    Op.MAXIMUM: Primitive(
        torch.maximum, n_arguments=2, noun="larger", folds=True, keeps_nan=True, on_numbers=_larger
    ),
    Op.MINIMUM: Primitive(
        torch.minimum, n_arguments=2, noun="smaller", folds=True, keeps_nan=True, on_numbers=_smaller
    ),
    Op.FMAX: Primitive(torch.fmax, n_arguments=2),
    Op.FMIN: Primitive(torch.fmin, n_arguments=2),
    Op.COPYSIGN: Primitive(torch.copysign, n_arguments=2, folds=True),
    Op.NEXTAFTER: Primitive(torch.nextafter, n_arguments=2),
    Op.RECIPROCAL: Primitive(torch.reciprocal, noun="inverse", cost=Cost.MEDIUM, folds=True, keeps_nan=True),
    Op.FLOOR: Primitive(torch.floor, folds=True),
    Op.CEIL: Primitive(torch.ceil, folds=True),
    Op.TRUNC: Primitive(torch.trunc, folds=True),
    Op.ROUND: Primitive(torch.round, folds=True),
    Op.POW: Primitive(torch.pow, n_arguments=2, noun="power", cost=Cost.HEAVY),
    Op.SQRT: Primitive(
        torch.sqrt,
        noun="root",
        leads_names=True,
        cost=Cost.MEDIUM,
        folds=True,
        keeps_nan=True,
        on_numbers=math.sqrt,
    ),
    Op.RSQRT: Primitive(torch.rsqrt, noun="inverse_root", cost=Cost.MEDIUM, keeps_nan=True),
    Op.EXP: Primitive(torch.exp, leads_names=True, cost=Cost.HEAVY, keeps_nan=True, on_numbers=math.exp),
    Op.EXP2: Primitive(
        torch.exp2, leads_names=True, cost=Cost.HEAVY, keeps_nan=True, on_numbers=lambda a: 2.0**a
    ),
    Op.EXPM1: Primitive(torch.expm1, cost=Cost.HEAVY, keeps_nan=True, on_numbers=math.expm1),
    Op.LOG: Primitive(torch.log, leads_names=True, cost=Cost.HEAVY, keeps_nan=True),
    Op.LOG2: Primitive(torch.log2, leads_names=True, cost=Cost.HEAVY, keeps_nan=True),
    Op.LOG10: Primitive(torch.log10, cost=Cost.HEAVY, keeps_nan=True),
    Op.LOG1P: Primitive(torch.log1p, cost=Cost.HEAVY, keeps_nan=True),
    Op.SIN: Primitive(torch.sin, leads_names=True, cost=Cost.HEAVY, on_numbers=math.sin),
    Op.COS: Primitive(torch.cos, leads_names=True, cost=Cost.HEAVY),
    Op.TAN: Primitive(torch.tan, cost=Cost.HEAVY),
    Op.ASIN: Primitive(torch.asin, cost=Cost.HEAVY),
    Op.ACOS: Primitive(torch.acos, cost=Cost.HEAVY),
    Op.ATAN: Primitive(torch.atan, cost=Cost.HEAVY),
    Op.ATAN2: Primitive(torch.atan2, n_arguments=2, cost=Cost.HEAVY),
    Op.SINH: Primitive(torch.sinh, cost=Cost.HEAVY),
    Op.COSH: Primitive(torch.cosh, cost=Cost.HEAVY),
    Op.TANH: Primitive(torch.tanh, leads_names=True, cost=Cost.HEAVY, keeps_nan=True, on_numbers=math.tanh),
    Op.ASINH: Primitive(torch.asinh, cost=Cost.HEAVY),
    Op.ACOSH: Primitive(torch.acosh, cost=Cost.HEAVY),
    Op.ATANH: Primitive(torch.atanh, cost=Cost.HEAVY),
    Op.ERF: Primitive(torch.erf, leads_names=True, cost=Cost.HEAVY, on_numbers=math.erf),
    Op.ERFC: Primitive(torch.erfc, cost=Cost.HEAVY),
    Op.SIGMOID: Primitive(torch.sigmoid, leads_names=True, cost=Cost.HEAVY, keeps_nan=True),
    Op.HYPOT: Primitive(torch.hypot, n_arguments=2, cost=Cost.HEAVY),
    Op.EQ: Primitive(
        torch.eq, n_arguments=2, noun="is_equal", yields_bool=True, folds=True, on_numbers=operator.eq
    ),
    Op.NE: Primitive(
        torch.ne, n_arguments=2, noun="differs", yields_bool=True, folds=True, on_numbers=operator.ne
    ),
    Op.LT: Primitive(
        torch.lt, n_arguments=2, noun="is_less", yields_bool=True, folds=True, on_numbers=operator.lt
    ),
    Op.LE: Primitive(
        torch.le, n_arguments=2, noun="is_at_most", yields_bool=True, folds=True, on_numbers=operator.le
    ),
    Op.GT: Primitive(
        torch.gt, n_arguments=2, noun="is_greater", yields_bool=True, folds=True, on_numbers=operator.gt
    ),
    Op.GE: Primitive(
        torch.ge, n_arguments=2, noun="is_at_least", yields_bool=True, folds=True, on_numbers=operator.ge
    ),
    Op.ISNAN: Primitive(
        torch.isnan, noun="is_nan", yields_bool=True, folds=True, on_numbers=lambda a: a != a
    ),
    Op.ISINF: Primitive(torch.isinf, noun="is_inf", yields_bool=True, folds=True, on_numbers=math.isinf),
    Op.SIGNBIT: Primitive(torch.signbit, yields_bool=True, folds=True),
    Op.LOGICAL_AND: Primitive(
        torch.logical_and, n_arguments=2, noun="both", folds=True, on_numbers=lambda a, b: a and b
    ),
    Op.LOGICAL_OR: Primitive(
        torch.logical_or, n_arguments=2, noun="either", folds=True, on_numbers=lambda a, b: a or b
    ),
    Op.LOGICAL_XOR: Primitive(torch.logical_xor, n_arguments=2, folds=True, on_numbers=operator.ne),
    Op.LOGICAL_NOT: Primitive(torch.logical_not, noun="is_not", folds=True, on_numbers=operator.not_),
    Op.BITWISE_AND: Primitive(torch.bitwise_and, n_arguments=2, folds=True),
    Op.BITWISE_OR: Primitive(torch.bitwise_or, n_arguments=2, folds=True),
    Op.BITWISE_XOR: Primitive(torch.bitwise_xor, n_arguments=2, folds=True),
    Op.BITWISE_NOT: Primitive(torch.bitwise_not, folds=True),
    Op.SHIFT_LEFT: Primitive(torch.bitwise_left_shift, n_arguments=2),
    Op.SHIFT_RIGHT: Primitive(torch.bitwise_right_shift, n_arguments=2),
    Op.WHERE: Primitive(torch.where, n_arguments=3, noun="chosen"),
    Op.CAST: Primitive(_unconverted, noun="converted", on_numbers=lambda a: a),
}

REDUCTIONS: Mapping[ReduceOp, Reduction] = {
    ReduceOp.SUM: Reduction(lambda rows: rows.sum(-1, dtype=rows.dtype), identity=0),
    ReduceOp.PROD: Reduction(lambda rows: rows.prod(-1, dtype=rows.dtype), identity=1, noun="product"),
    ReduceOp.MAX: Reduction(lambda rows: rows.amax(-1), identity=-math.inf),
    ReduceOp.MIN: Reduction(lambda rows: rows.amin(-1), identity=math.inf),
    ReduceOp.ARGMAX: Reduction(lambda rows: _first(rows, rows.amax(-1, keepdim=True)), identity=-math.inf),
    ReduceOp.ARGMIN: Reduction(lambda rows: _first(rows, rows.amin(-1, keepdim=True)), identity=math.inf),
    ReduceOp.ANY: Reduction(lambda rows: rows.any(-1), identity=False),
    ReduceOp.ALL: Reduction(lambda rows: rows.all(-1), identity=True),
}
