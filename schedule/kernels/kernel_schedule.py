"""What a kernel schedule is to everybody who reads a plan: a value with a name and facts.

Nobody but the module of a schedule (schedule/kernels/schedules/) and what makes one of another asks which one it is.
Decisions and printers ask for a fact; a printer is found by the name.
"""

from __future__ import annotations

import dataclasses
import enum


class AxisRole(enum.Enum):
    """On which side of rows x cols an axis lies."""

    ROW = "row"
    COL = "col"


@dataclasses.dataclass(frozen=True)
class KernelSchedule:
    """How a kernel walks its space.

    Attributes:
        name: What the kernel's key holds, and what its printers and templates are called. Words for people stand in
            schedule/names/schedule_names.py.
        printed_as: The schedule whose printers and templates write it, too; empty where it has its own.
        has_passes: Whether the plan lists `passes`; without, the body is computed in order.
        is_row_wise: Whether it reduces over all cols and goes from row to row, for the title.
        is_row_by_row: Whether one program or thread has one whole row, and loops over its cols.
        is_compiled_for_cols: CUDA: whether the sizes of the cols are constants of the compiled kernel.
        is_down_columns: Whether it reduces over all rows. Its loops walk the rows and results vary over the cols, the
            last of which makes the lanes; further ones are a batch.
        is_tiled: Whether the last row axis and the only col axis make tiles; further row axes are a batch.
        has_grid_of_blocks: CUDA: whether blocks of rows and of cols lie along two sides of the grid.
        has_independent_elements: Whether each element is computed for itself, in the body's order.
        unrolls_rows: CUDA: whether its rows are so few that each thread has all that a result is made of; how many is a
            constant of the compiled kernel. Results vary over the cols.
        walks_windows: Whether these are the places of a small window.
        chunked: The side that is cut into chunks where there are `partials`.
        is_over_lists: Whether one launch takes lists of tensors; pointers that are `many` stand for lists.
    """

    name: str
    printed_as: str = ""
    has_passes: bool = False
    is_row_wise: bool = False
    is_row_by_row: bool = False
    is_compiled_for_cols: bool = False
    is_down_columns: bool = False
    is_tiled: bool = False
    has_grid_of_blocks: bool = False
    has_independent_elements: bool = False
    unrolls_rows: bool = False
    walks_windows: bool = False
    chunked: AxisRole = AxisRole.ROW
    is_over_lists: bool = False

    @property
    def printer(self) -> str:
        """The name of its printers and templates."""
        return self.printed_as or self.name
