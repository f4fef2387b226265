"""Loads that a tile turns first (CPU): what is contiguous along the rows is copied, transposed, into an array that the
loop over columns reads along. Reading it in place would take one element from each line of cache at a time.
"""

from __future__ import annotations

from collections.abc import Mapping

from longhand.lower.ir import Load
from longhand.schedule.kernels.address_terms import Address
from longhand.schedule.kernels.kernel_schedule import KernelSchedule
from longhand.schedule.kernels.space import NestSpace
from longhand.schedule.targets import TargetFacts


def transposed_loads(
    space: NestSpace, schedule: KernelSchedule, addresses: Mapping[int, Address], target: TargetFacts
) -> tuple[int, ...]:
    """Positions of the loads, unmasked and at places that are no data, that step by one element along the last row
    axis and farther along the col axis.
    """
    if not target.copies_tiles or not schedule.is_tiled:
        return ()
    row, col = space.rows[-1].name, space.cols[0].name
    return tuple(
        position
        for position, value in enumerate(space.body)
        if isinstance(value, Load) and value.mask is None and is_transposed(addresses[position], row, col)
    )


def is_transposed(address: Address, row: str, col: str) -> bool:
    """Whether an address steps by one element along a row axis, and farther along a col axis."""
    steps = dict(address.axes)
    return not address.values and steps.get(row) == () and steps.get(col, ()) != ()
