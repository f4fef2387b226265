"""How a Triton function holds a plan's space: index variables, lanes and masks; and the statements printed over it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Container

from longhand.emit.triton.address import Flat


class Kind(enum.Enum):
    """What a statement does; a change of kind starts a paragraph."""

    LOAD = "load"
    COMPUTE = "compute"
    STORE = "store"


@dataclasses.dataclass(frozen=True)
class Line:
    """One statement."""

    kind: Kind
    text: str


@dataclasses.dataclass(frozen=True)
class Side:
    """How a function holds the rows (or the cols) of the plan's space.

    Attributes:
        axes: The axes' keys, outermost first. Empty: there is no such side.
        lanes: The constexpr that says how many a program holds at once; empty: it holds one.
        mask: The name of the mask that keeps lanes in range; None where none can be out.
    """

    axes: tuple[str, ...] = ()
    lanes: str = ""
    mask: str | None = None


@dataclasses.dataclass(frozen=True)
class Space:
    """How a function holds the plan's space.

    Attributes:
        flats: The index variables and what they flatten.
        rows: The row side.
        cols: The col side.
        both: The name of the mask of both sides together.
        width: The shape of a block along the reduced side, for accumulators: ``[COLS]``.
    """

    flats: tuple[Flat, ...]
    rows: Side
    cols: Side
    both: str = "in_range"
    width: str = "[COLS]"

    @property
    def is_tile(self) -> bool:
        """Whether both sides are lanes."""
        return bool(self.rows.lanes and self.cols.lanes)

    def shape(self, axes: Container[str]) -> str:
        """The shape of a block that varies along these axes: ``[1, COLS]``; empty for a scalar."""
        varies = [side.lanes and any(axis in axes for axis in side.axes) for side in (self.rows, self.cols)]
        if not any(varies):
            return ""
        sizes = [
            side.lanes if is_varying else "1"
            for side, is_varying in zip((self.rows, self.cols), varies, strict=True)
            if side.lanes
        ]
        return f"[{', '.join(sizes)}]"
