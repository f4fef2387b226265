"""Accumulators: how each reduction starts, takes one element, is repaired after a SIMD loop, and is combined."""

from __future__ import annotations

import dataclasses

import torch

from longhand.emit.cpp.types import cpp_type, literal
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
    """

    name: str
    type: str
    start: str
    clause: str
    take: str
    combine: str
    comment: str = ""
    repair: str = ""


_SMALLEST = {torch.int32: "INT32_MIN", torch.int64: "INT64_MIN", torch.bool: "0"}
_LARGEST = {torch.int32: "INT32_MAX", torch.int64: "INT64_MAX", torch.bool: "1"}


def identity(op: ReduceOp, dtype: torch.dtype) -> str:
    """What a reduction of no elements yields."""
    match op:
        case ReduceOp.SUM:
            return literal(0, dtype).text if dtype is not torch.bool else "0"
        case ReduceOp.PROD:
            return literal(1, dtype).text
        case ReduceOp.MAX | ReduceOp.ARGMAX:
            return "-INFINITY" if dtype.is_floating_point else _SMALLEST[dtype]
        case ReduceOp.MIN | ReduceOp.ARGMIN:
            return "INFINITY" if dtype.is_floating_point else _LARGEST[dtype]
        case ReduceOp.ANY:
            return "0"
    return "1"


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
            return (
                ReductionVariable(
                    name, cpp_type(reduce.dtype), start, symbol, take + "{element};", take + "{other};"
                ),
            )
        case ReduceOp.ANY | ReduceOp.ALL:
            symbol = "|" if reduce.op is ReduceOp.ANY else "&"
            start, take = identity(reduce.op, torch.bool), f"{{acc}} {symbol}= "
            # int, not bool: g++ keeps a bool accumulator out of SIMD registers.
            return (ReductionVariable(name, "int", start, symbol, take + "{element};", take + "{other};"),)
    return _extreme(reduce.op, name, element_dtype, drops_nan)


def _extreme(op: ReduceOp, name: str, dtype: torch.dtype, drops_nan: bool) -> tuple[ReductionVariable, ...]:
    is_max = op in (ReduceOp.MAX, ReduceOp.ARGMAX)
    clause, comparison = ("max", ">") if is_max else ("min", "<")
    kind = "int" if dtype is torch.bool else cpp_type(dtype)
    take = f"{{acc}} = {{element}} {comparison} {{acc}} ? {{element}} : {{acc}};"
    if drops_nan or not dtype.is_floating_point:
        combine = f"{{acc}} = std::{clause}({{acc}}, {{other}});"
        return (ReductionVariable(name, kind, identity(op, dtype), clause, take, combine),)
    function = "maximum" if is_max else "minimum"
    nan_name = f"{name}_is_nan"
    value = ReductionVariable(
        name,
        kind,
        identity(op, dtype),
        clause,
        take,
        f"{{acc}} = {function}({{acc}}, {{other}});",
        repair=f"if ({nan_name}) {{ {name} = NAN; }}",
    )
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
