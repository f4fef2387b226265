"""Accumulators: how each reduction starts, takes one element, is repaired after a SIMD loop, and is combined."""

from __future__ import annotations

import dataclasses
import math

import torch

from longhand.emit.cpp.types import cpp_type, literal
from longhand.emit.text.expression import Text
from longhand.lower.ir import Reduce, ReduceOp


@dataclasses.dataclass(frozen=True)
class ReductionVariable:
    """One variable of a reduction loop.

    Attributes:
        name: The variable.
        type: Its C++ type.
        start: What it holds before the first element.
        clause: The OpenMP reduction operator: ``+``, ``max``, ``|``.
        take: Template of the statement that takes an element: ``{acc} += {element};``
        comment: Half a line about it, or empty.
        repair: Statement after the SIMD loop, or empty.
        combine: Template of the statement that takes another accumulator's value ``{other}``.
        needs: Names that are none of the kernel's own, in all but `combine`.
        needs_to_combine: Those in `combine`.
    """

    name: str
    type: str
    start: str
    clause: str
    take: str
    combine: str
    comment: str = ""
    repair: str = ""
    needs: frozenset[str] = frozenset()
    needs_to_combine: frozenset[str] = frozenset()


_SMALLEST = {torch.int32: "INT32_MIN", torch.int64: "INT64_MIN", torch.bool: "0"}
_LARGEST = {torch.int32: "INT32_MAX", torch.int64: "INT64_MAX", torch.bool: "1"}


def identity(op: ReduceOp, dtype: torch.dtype) -> Text:
    """What a reduction of no elements yields."""
    match op:
        case ReduceOp.SUM:
            return literal(0, dtype) if dtype is not torch.bool else Text("0")
        case ReduceOp.PROD:
            return literal(1, dtype)
        case ReduceOp.MAX | ReduceOp.ARGMAX:
            return literal(-math.inf, dtype) if dtype.is_floating_point else _named(_SMALLEST[dtype])
        case ReduceOp.MIN | ReduceOp.ARGMIN:
            return literal(math.inf, dtype) if dtype.is_floating_point else _named(_LARGEST[dtype])
        case ReduceOp.ANY:
            return Text("0")
    return Text("1")


def _named(constant: str) -> Text:
    return Text(constant, needs=frozenset({constant}))


def is_position(op: ReduceOp) -> bool:
    """Whether the reduction finds a place."""
    return op in (ReduceOp.ARGMAX, ReduceOp.ARGMIN)


def value_reduction(reduce: Reduce) -> Reduce:
    """An ARG reduction as the one that finds the extreme value itself; others as they are."""
    values = {ReduceOp.ARGMAX: ReduceOp.MAX, ReduceOp.ARGMIN: ReduceOp.MIN}
    return dataclasses.replace(reduce, op=values.get(reduce.op, reduce.op))


def accumulators(
    reduce: Reduce, name: str, element_dtype: torch.dtype, drops_nan: bool = False
) -> tuple[ReductionVariable, ...]:
    """The variables that a SIMD loop needs for a reduction other than ARGMAX and ARGMIN.

    Args:
        reduce: The reduction; for the extreme value of an ARG reduction, give it as MAX or MIN.
        name: The accumulator's name.
        element_dtype: The type of what is reduced.
        drops_nan: Whether a maximum may pass NaN over, as comparisons do.
    """
    match reduce.op:
        case ReduceOp.SUM | ReduceOp.PROD:
            symbol = "+" if reduce.op is ReduceOp.SUM else "*"
            start, take = identity(reduce.op, reduce.dtype), f"{{acc}} {symbol}= "
            kind = cpp_type(reduce.dtype)
            takes = (take + "{element};", take + "{other};")
            return (ReductionVariable(name, kind, start.text, symbol, *takes, needs=start.needs | {kind}),)
        case ReduceOp.ANY | ReduceOp.ALL:
            symbol = "|" if reduce.op is ReduceOp.ANY else "&"
            start, take = identity(reduce.op, torch.bool), f"{{acc}} {symbol}= "
            # int, not bool: g++ keeps a bool accumulator out of SIMD registers.
            takes = (take + "{element};", take + "{other};")
            return (ReductionVariable(name, "int", start.text, symbol, *takes),)
    return _extreme(reduce.op, name, element_dtype, drops_nan)


def _extreme(op: ReduceOp, name: str, dtype: torch.dtype, drops_nan: bool) -> tuple[ReductionVariable, ...]:
    is_max = op in (ReduceOp.MAX, ReduceOp.ARGMAX)
    clause, comparison = ("max", ">") if is_max else ("min", "<")
    kind = "int" if dtype is torch.bool else cpp_type(dtype)
    take = f"{{acc}} = {{element}} {comparison} {{acc}} ? {{element}} : {{acc}};"
    keeps_nan = dtype.is_floating_point and not drops_nan
    function = ("maximum" if is_max else "minimum") if keeps_nan else f"std::{clause}"
    start, nan_name = identity(op, dtype), f"{name}_is_nan"
    value = ReductionVariable(
        name,
        kind,
        start.text,
        clause,
        take,
        f"{{acc}} = {function}({{acc}}, {{other}});",
        repair=f"if ({nan_name}) {{ {name} = NAN; }}" if keeps_nan else "",
        needs=start.needs | {kind} | ({"NAN"} if keeps_nan else set()),
        needs_to_combine=frozenset({function}),
    )
    if not keeps_nan:
        return (value,)
    nan = ReductionVariable(
        nan_name,
        "int",
        "0",
        "|",
        "{acc} |= {element} != {element};",
        "",
        comment="comparisons pass NaN over",
    )
    return (value, nan)
