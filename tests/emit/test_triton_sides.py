"""The words for several axes on one side never hide the words of one of them."""

from __future__ import annotations

from longhand.emit.names import AxisNames, KernelNames
from longhand.emit.triton_styles import side_words
from longhand.schedule.plan import AxisRole, PlanAxis


def test_a_product_of_sizes_has_a_name_of_its_own() -> None:
    axes = (PlanAxis("batch", AxisRole.ROW), PlanAxis("row", AxisRole.ROW))
    words = {"batch": AxisNames("group", "n_groups"), "row": AxisNames("row", "n_rows")}
    names = KernelNames("kernel", "", (), {}, words, {}, {}, {})
    side = side_words(axes, names, "row", "n_rows")
    assert side.size == "n_flat_rows" and side.index == "flat_row"
    assert side.size_lines == ("n_flat_rows = n_groups * n_rows",)
    assert side.split_lines == ("row = flat_row % n_rows", "group = flat_row // n_rows")
