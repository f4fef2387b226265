"""What plain loops (C++) have of a kernel: which values have a line of their own there, and what sums are kept in."""

from __future__ import annotations

import dataclasses
import itertools

from longhand.lower.ir import Load, Pointwise, PointwiseOp, Reduce, Value, arguments
from longhand.schedule.kernels.kernel_plan import KernelPlan
from longhand.schedule.names.operation_names import noun_of
from longhand.schedule.names.unit_names import KernelNames, as_printed
from longhand.schedule.names.value_rules import is_rstd
from longhand.schedule.names.words import element_words, first_free, further_words
from longhand.schedule.numerics.accumulator_precision import SumType, sum_type


def in_plain_loops(plan: KernelPlan, names: KernelNames) -> tuple[KernelPlan, KernelNames]:
    """The kernel as its loops are printed, complete, and the words for that."""
    plan, names = as_printed(plan, names)
    names = dataclasses.replace(names, values=_with_needed_lines(plan, names))
    sums = _sum_types(plan, names)
    return dataclasses.replace(plan, numerics=dataclasses.replace(plan.numerics, sum_types=sums)), names


def plan_domains(plan: KernelPlan) -> tuple[frozenset[str], ...]:
    """For each value of the body, the plan's axes that it varies over."""
    found: list[frozenset[str]] = []
    for position, value in enumerate(plan.body):
        axes = frozenset[str]().union(*(found[argument] for argument in arguments(value)))
        if position in plan.addresses:
            axes |= {axis for axis, _ in plan.addresses[position].axes}
        if isinstance(value, Reduce):
            axes -= frozenset(value.axes)
        found.append(axes)
    return tuple(found)


def _sum_types(plan: KernelPlan, names: KernelNames) -> dict[int, SumType]:
    """What wide sums are accumulated in.

    Chunks of a row are combined in double whatever they accumulate in, and are short: what would be rounded behind
    them is a float at once. So are sums down columns that are rounded, and all that chunks of rows add up.
    """
    is_down, is_split = plan.schedule.is_down_columns, bool(plan.partials)
    looped = {axis.name for axis in (plan.rows if is_down else plan.cols)}
    of_elements = {place for place, axes in enumerate(plan_domains(plan)) if axes & looped}
    wide = sorted(plan.numerics.wide_sums)
    kinds = {place: sum_type(place, plan.body, of_elements, names.values) for place in wide}
    if not (is_down or is_split):
        return kinds
    kept = set() if is_down and is_split else {SumType.DOUBLE}
    return {place: kind for place, kind in kinds.items() if kind in kept}


def _with_needed_lines(plan: KernelPlan, names: KernelNames) -> dict[int, str]:
    """The named values, plus those that need a line to be right or fast:

    * the argument of a MAX, MIN or ARG reduction, which the loop mentions more than once;
    * a load or a calculation that varies over rows only and is used inside the column loop, so that it is not read or
      calculated again for every element.
    """
    body, axes_of, cols = plan.body, plan_domains(plan), {axis.name for axis in plan.cols}
    values = dict(names.values)
    taken = set(values.values()) | set(names.pointers.values()) | set(names.scalars.values())

    def give(position: int, word: str) -> None:
        if position not in values:
            source = body[position]
            further = (
                element_words(word, is_only=not (source.index.axes or source.index.values))
                if isinstance(source, Load)
                else itertools.chain([word], further_words(word))
            )
            values[position] = first_free(further, taken)
            taken.add(values[position])

    for value in body:
        if isinstance(value, Reduce) and value.op.value in ("max", "min", "argmax", "argmin"):
            give(value.arg, _word_for(body[value.arg], names))
    for position, value in enumerate(body):
        if not axes_of[position] & cols:
            continue
        for argument in arguments(value):
            source = body[argument]
            is_fixed = not axes_of[argument] & cols
            costs = isinstance(source, Load) or (isinstance(source, Pointwise) and source.op in _COSTLY)
            if is_fixed and costs and not isinstance(value, Reduce):
                give(argument, "rstd" if is_rstd(source, body) else _word_for(source, names))
    return values


# What should not stand in a loop when it does not vary there, and a word for it.
_COSTLY = {
    PointwiseOp.DIV: "row_ratio",
    PointwiseOp.RECIPROCAL: "inverse",
    PointwiseOp.SQRT: "root",
    PointwiseOp.RSQRT: "inverse_root",
    PointwiseOp.EXP: "row_exp",
    PointwiseOp.LOG: "row_log",
}


def _word_for(value: Value, names: KernelNames) -> str:
    if isinstance(value, Load):
        return names.pointers[value.buffer]
    if value.name is not None:
        return value.name
    if isinstance(value, Pointwise) and value.op in _COSTLY:
        return _COSTLY[value.op]
    return "element" if not isinstance(value, Pointwise) else noun_of(value)
