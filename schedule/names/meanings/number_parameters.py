"""The words of the numbers that a kernel is given: offsets, strides, and where pieces end that are put together."""

from __future__ import annotations

from collections.abc import Mapping

from longhand.capture.graph import Role
from longhand.lower.ir import Pointwise, PointwiseOp, arguments
from longhand.schedule.names.meanings.parts import word_of_offset
from longhand.schedule.names.meanings.pieces import ends_of_pieces, word_of_end
from longhand.schedule.names.unit_names import AxisNames
from longhand.schedule.names.words import plural
from longhand.schedule.plan import KernelPlan, limit_along


def int_words(
    kernel: KernelPlan,
    name: str,
    pointers: dict[str, str],
    axes: dict[str, AxisNames],
    parts: Mapping[int, str],
) -> list[str]:
    parameter = next(parameter for parameter in kernel.ints if parameter.name == name)
    word = pointers[parameter.pointer] if parameter.pointer is not None else "position"
    if parameter.axis is None:
        part = word_of_offset(kernel, name, parts)
        return [
            *([f"{part}_offset"] if part else []),
            f"{word}_offset",
            f"{word}_second_offset",
            f"{word}_start",
        ]
    axis = axes[parameter.axis].index
    only = sum(other.pointer == parameter.pointer and other.axis is not None for other in kernel.ints) == 1
    return [f"{word}_stride"] * only + [f"{word}_{axis}_stride", f"{word}_other_{axis}_stride"]


def end_words(kernel: KernelPlan, pointers: Mapping[str, str]) -> dict[int, str]:
    """Words for the numbers at which pieces end that are put together: ``d_q_end``."""
    of = {position: pointers[piece] for position, piece in ends_of_pieces(kernel.body).items()}
    alone = {position: word for position, word in of.items() if [*of.values()].count(word) == 1}
    return {position: end for position, word in alone.items() if (end := word_of_end(word))}


def half_words(kernel: KernelPlan, position: int, axes: Mapping[str, AxisNames]) -> list[str]:
    """``half_rows``: where the first half of the rows ends, in a kernel that halves its columns, too."""
    halves = [scalar.position for scalar in kernel.scalars if scalar.name == Role.HALF]
    if position not in halves or len(halves) == 1:
        return []
    ends = (limit_along(kernel, condition, PointwiseOp.LT) for condition in range(len(kernel.body)))
    halved = {axis for axis, limit in filter(None, ends) if limit == position}
    is_of_rows = len(halved) == 1 and not halved & {axis.name for axis in kernel.cols}
    return [f"half_{plural(axes[axis].index)}" for axis in halved if is_of_rows]


def _is_factor(kernel: KernelPlan, position: int) -> bool:
    """Whether a number is only multiplied with, or divided by."""
    users = [value for value in kernel.body if position in arguments(value)]
    return all(
        isinstance(user, Pointwise) and user.op in (PointwiseOp.MUL, PointwiseOp.DIV) for user in users
    )


def scalar_words(kernel: KernelPlan, position: int) -> list[str]:
    origin = getattr(kernel.body[position], "origin", "")
    name = getattr(kernel.body[position], "name", None)
    hint = "_".join(word for word in origin.split("_") if word and not word.isdigit())
    return [
        "scale" if hint in ("mul", "div") or _is_factor(kernel, position) else "",
        *((f"{turn}_{name}" for turn in ("second", "third", "fourth", "fifth", "sixth")) if name else ()),
        f"{hint}_by" if hint else "",
        "number",
        "second_number",
    ]
