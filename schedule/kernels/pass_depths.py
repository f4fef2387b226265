"""When each value of a reducing body can be computed: how many loops over the row must be over before.

A value that varies along the loop is an element value, others are outer values. Depth 0 needs no reduction; the result
of a reduction over arguments of depth d has depth d + 1, and is there after loop number d (from 0).
"""

from __future__ import annotations

import dataclasses

from longhand.lower.ir import (
    AxisSize,
    Constant,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Scalar,
    Store,
    Value,
    arguments,
    domains,
)
from longhand.schedule.kernels.kernel_plan import OnlineSoftmax


@dataclasses.dataclass(frozen=True)
class PassDepths:
    """A body seen from its loop.

    Attributes:
        body: The body.
        loop: The axes that it walks along.
        is_element: By position: whether the value varies along the loop.
        depth: By position: the number of loops that must be over before (an element value: before it is computed).
        online: Pairs of a maximum and a sum of exponentials that one loop finds together.
        n_passes: The number of loops.
        column_reductions: Reductions across the loop, to which each of its elements is added.
    """

    body: tuple[Value, ...]
    loop: frozenset[str]
    is_element: tuple[bool, ...]
    depth: tuple[int, ...]
    online: tuple[OnlineSoftmax, ...]
    n_passes: int
    column_reductions: frozenset[int] = frozenset()

    def is_leaf(self, position: int) -> bool:
        """Whether the value is printed where it is used."""
        return isinstance(self.body[position], Constant | Scalar | AxisSize)

    def roots(self, store: int) -> tuple[int, ...]:
        """The element values that a store needs."""
        return tuple(position for position in arguments(self.body[store]) if self.is_element[position])


def find_pass_depths(
    body: tuple[Value, ...],
    loop: frozenset[str],
    *,
    online: bool,
    column_reductions: frozenset[int] = frozenset(),
) -> PassDepths:
    """Count the loops. `online`: find a softmax's maximum and sum in one."""
    is_element = tuple(bool(span & loop) for span in domains(body))
    pairs = _online_pairs(body, is_element) if online else ()
    together = {pair.sum: pair.max for pair in pairs}
    depth: list[int] = []
    n_passes = 1
    for position, value in enumerate(body):
        below = max((depth[argument] for argument in arguments(value)), default=0)
        if position in together:
            below = depth[together[position]] - 1
        if isinstance(value, Reduce) and position not in column_reductions:
            n_passes = max(n_passes, below + 1)
            below += 1
        elif isinstance(value, Store) and is_element[position]:
            n_passes = max(n_passes, below + 1)
        depth.append(below)
    return PassDepths(body, loop, is_element, tuple(depth), pairs, n_passes, column_reductions)


def _online_pairs(body: tuple[Value, ...], is_element: tuple[bool, ...]) -> tuple[OnlineSoftmax, ...]:
    """sum(exp(x - max(x))) for element values x."""
    pairs: dict[int, OnlineSoftmax] = {}
    for position, value in enumerate(body):
        if not (isinstance(value, Reduce) and value.op is ReduceOp.SUM):
            continue
        exp = body[value.arg]
        if not (isinstance(exp, Pointwise) and exp.op is PointwiseOp.EXP):
            continue
        shifted = body[exp.args[0]]
        if not (isinstance(shifted, Pointwise) and shifted.op is PointwiseOp.SUB):
            continue
        x, maximum = shifted.args
        row_max = body[maximum]
        if (
            isinstance(row_max, Reduce)
            and row_max.op is ReduceOp.MAX
            and row_max.arg == x
            and is_element[x]
            and maximum not in pairs
        ):
            pairs[maximum] = OnlineSoftmax(max=maximum, sum=position)
    return tuple(pairs.values())
