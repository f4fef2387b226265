"""ROWS_AND_COLUMNS: rows with reductions of their own, and sums down the columns. A thread takes a chunk of rows."""

from __future__ import annotations

import dataclasses

from longhand.emit.cpp.loops import CppLoop, flattened, product_of_sizes
from longhand.emit.cpp.rows import PassPrinter, RowsText, rows_text
from longhand.emit.cpp.splits import PartialText, number_of_splits
from longhand.emit.text.expression import Precedence, Text
from longhand.lower.ir import Store


@dataclasses.dataclass(frozen=True)
class RowsAndColumnsText:
    """What templates/cpp/rows_and_columns.cpp.jinja prints.

    Attributes:
        row: One row of a chunk.
        n_splits: The number of chunks.
        chunk: Steps of the outermost row loop in one chunk.
        n_partials: The size of each vector of partial results.
        partial_row: Where the partial results of a chunk begin.
        partials: The vectors, one for each sum down the columns.
        place: A column's place in the results of the first chunk.
        further_place: In those of chunk `split`.
        then: Stores for each column, after all chunks.
    """

    row: RowsText
    n_splits: str
    chunk: str
    n_partials: str
    partial_row: str
    partials: tuple[PartialText, ...]
    place: str
    further_place: str
    then: tuple[str, ...]


def rows_and_columns_text(passes: PassPrinter, rows: tuple[CppLoop, ...]) -> RowsAndColumnsText:
    """The rows of a chunk, what they add up, and how the chunks' sums are combined."""
    printer, cols = passes.printer, passes.cols
    plan, names = printer.plan, printer.names
    split = CppLoop("split", "n_splits")
    words = {partial.position: names.pointers[partial.pointer] for partial in plan.partials}
    known = {position: Text(passes.accumulator_names[position]) for position in words}
    stores = (
        position
        for position, value in enumerate(plan.body)
        if isinstance(value, Store) and value.value in words
    )
    return RowsAndColumnsText(
        row=rows_text(passes, has_rows=True),
        n_splits=number_of_splits(rows, "ROWS"),
        chunk=f"({rows[0].size} + n_splits - 1) / n_splits",
        n_partials=product_of_sizes((split, *cols)).text,
        partial_row=f"split * {product_of_sizes(cols).within(Precedence.UNARY)}",
        partials=tuple(
            PartialText(word, passes.column_sum(position).type, passes.accumulator_names[position], "+")
            for position, word in words.items()
        ),
        place=flattened(cols).text,
        further_place=flattened((split, *cols)).text,
        then=tuple(printer.store(position, known) for position in stores),
    )
