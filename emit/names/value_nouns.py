"""What an operation of a kernel makes, as a thing: ``product``, ``sum``."""

from __future__ import annotations

from longhand.lower.ir import Pointwise, PointwiseOp, Reduce, ReduceOp, Value

_NOUNS = {
    PointwiseOp.ADD: "total",
    PointwiseOp.SUB: "difference",
    PointwiseOp.MUL: "product",
    PointwiseOp.DIV: "ratio",
    PointwiseOp.FMA: "total",
    PointwiseOp.NEG: "negated",
    PointwiseOp.ABS: "magnitude",
    PointwiseOp.RECIPROCAL: "inverse",
    PointwiseOp.RSQRT: "inverse_root",
    PointwiseOp.SQRT: "root",
    PointwiseOp.POW: "power",
    PointwiseOp.MAXIMUM: "larger",
    PointwiseOp.MINIMUM: "smaller",
    PointwiseOp.WHERE: "chosen",
    PointwiseOp.CAST: "converted",
    PointwiseOp.EQ: "is_equal",
    PointwiseOp.NE: "differs",
    PointwiseOp.LT: "is_less",
    PointwiseOp.LE: "is_at_most",
    PointwiseOp.GT: "is_greater",
    PointwiseOp.GE: "is_at_least",
    PointwiseOp.LOGICAL_AND: "both",
    PointwiseOp.LOGICAL_OR: "either",
    PointwiseOp.LOGICAL_NOT: "is_not",
    PointwiseOp.ISNAN: "is_nan",
    PointwiseOp.ISINF: "is_inf",
    PointwiseOp.REMAINDER: "remainder",
    PointwiseOp.FLOOR_DIV: "quotient",
    PointwiseOp.TRUNC_DIV: "quotient",
}
REDUCED = {
    ReduceOp.SUM: "sum",
    ReduceOp.PROD: "product",
    ReduceOp.MAX: "max",
    ReduceOp.MIN: "min",
    ReduceOp.ARGMAX: "argmax",
    ReduceOp.ARGMIN: "argmin",
    ReduceOp.ANY: "any",
    ReduceOp.ALL: "all",
}


def noun_of(value: Value) -> str:
    """What an operation makes, as a thing: ``product``."""
    if isinstance(value, Pointwise):
        return _NOUNS.get(value.op, value.op.value)
    return REDUCED[value.op] if isinstance(value, Reduce) else "value"
