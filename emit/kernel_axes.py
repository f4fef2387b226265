"""The words for a kernel's axes: row and col where there is one of each, otherwise what the axis runs over."""

from __future__ import annotations

import re
from collections.abc import Iterator

from longhand.emit.names import AxisNames
from longhand.emit.words import Scope, plural
from longhand.schedule.plan import AxisRole, KernelPlan, PlanAxis

# From the innermost axis outwards: words for axes that came without one.
_ROW_LADDER = ("row", "group", "batch", "outer")
_COL_LADDER = ("col", "lane", "slab", "outer_col")

_INDEX_WORDS = {"seq": "token", "dim": "feature", "n": "item", "x": "column", "y": "line"}


def name_axes(plan: KernelPlan, scope: Scope) -> dict[str, AxisNames]:
    """Words for each of the plan's axes, taken from `scope`."""
    names: dict[str, AxisNames] = {}
    for role, ladder in ((AxisRole.ROW, _ROW_LADDER), (AxisRole.COL, _COL_LADDER)):
        axes = [axis for axis in plan.axes if axis.role is role]
        for steps_out, axis in enumerate(reversed(axes)):
            names[axis.name] = _pick(list(_candidates(plan, axis, steps_out, ladder, len(axes))), scope)
    return {axis.name: names[axis.name] for axis in plan.axes}


def _candidates(
    plan: KernelPlan, axis: PlanAxis, steps_out: int, ladder: tuple[str, ...], n_axes: int
) -> Iterator[tuple[str, str]]:
    """(index, size), best first."""
    is_only = n_axes == 1
    if is_only and not plan.rows:
        yield "i", "n_elements"
    if is_only:
        yield ladder[0], f"n_{plural(ladder[0])}"
    word = _word(axis.name)
    if word is not None:
        index = _INDEX_WORDS.get(word, word)
        yield index, f"n_{plural(index)}"
    step = ladder[min(steps_out, len(ladder) - 1)]
    yield step, f"n_{plural(step)}"
    yield f"{step}_index", f"n_{plural(step)}"


def _word(name: str) -> str | None:
    """An axis's name if it is a word and no number of lowering's or fusion's."""
    if re.fullmatch(r"[a-z]{3,}(_[a-z]+)*", name) and name not in ("row", "col"):
        return name
    return None


def _pick(candidates: list[tuple[str, str]], scope: Scope) -> AxisNames:
    for index, size in candidates:
        if scope.is_free(index) and scope.is_free(size):
            return AxisNames(scope.take(index), scope.take(size))
    index, size = candidates[-1]
    return AxisNames(scope.pick([index]), scope.pick([size]))
