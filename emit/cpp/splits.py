"""ROWS_SPLIT: few, very long rows. Chunks of a row are reduced at the same time and combined in order."""

from __future__ import annotations

import dataclasses

from longhand.emit.cpp.loops import ColumnLoop, CppLoop, flattened, product_of_sizes
from longhand.emit.cpp.reductions import is_position
from longhand.emit.cpp.rows import PassPrinter
from longhand.emit.text.expression import Precedence
from longhand.lower.ir import Reduce


@dataclasses.dataclass(frozen=True)
class PartialText:
    """Where chunks leave their results: ``std::vector<float> partial(n_rows * n_splits);``

    Attributes:
        name: The vector.
        type: Of its elements.
        variable: What each chunk leaves there, and what the combined result is called.
        clause: The OpenMP operator of the reduction: ``+``, ``max``.
    """

    name: str
    type: str
    variable: str
    clause: str

    @property
    def combined_type(self) -> str:
        """Of the combined result. Sums of many chunks in double: it costs nothing, and eager adds pairwise."""
        return "double" if (self.type, self.clause) == ("float", "+") else self.type


@dataclasses.dataclass(frozen=True)
class SplitText:
    """What templates/cpp/split.cpp.jinja prints.

    Attributes:
        n_splits: The number of chunks.
        chunk: Steps of the outermost column loop in one chunk.
        partials: Results of the chunks.
        n_partials: The size of each.
        place: Where a chunk of a row leaves its results.
        before: Base pointers and lines at the start of a chunk.
        before_combined: Lines at the start of a row's second loop.
        loops: Over the columns of a chunk; the outermost goes from `begin` to `end`.
        combine: Statements that take a further chunk.
        then: Lines after that.
    """

    n_splits: str
    chunk: str
    partials: tuple[PartialText, ...]
    n_partials: str
    place: str
    first_place: str
    before: tuple[str, ...]
    before_combined: tuple[str, ...]
    loops: tuple[ColumnLoop, ...]
    combine: tuple[str, ...]
    then: tuple[str, ...]


def split_text(passes: PassPrinter, rows: tuple[CppLoop, ...]) -> SplitText:
    """The chunks of the one pass of a kernel and how they are combined."""
    cols = passes.cols
    splits = (*rows, CppLoop("split", "n_splits"))
    printer, body = passes.printer, passes.printer.plan.body
    reduces = [value for value in body if isinstance(value, Reduce)]
    after = [position for position, level in passes.levels.items() if level == 0]
    printer.followed.clear()
    before = passes.outer_lines(-1, passes.needed_by([reduce.arg for reduce in reduces]))
    loops = passes.column_loops(0)
    before = (*printer.pointer_declarations(), *before)
    before_combined = passes.outer_lines(-1, passes.needed_by(after))
    then = passes.outer_lines(0)
    before_combined = (*printer.pointer_declarations(), *before_combined)
    first = flattened(rows).within(Precedence.PRODUCT)
    return SplitText(
        n_splits=number_of_splits(cols, "COLS"),
        chunk=f"({cols[0].size} + n_splits - 1) / n_splits",
        partials=_partials(passes),
        n_partials=product_of_sizes(splits).text,
        place=flattened(splits).text,
        first_place=f"{first} * n_splits" if rows else "0",
        before=before,
        before_combined=before_combined,
        loops=loops,
        combine=_combine(passes, flattened(splits).text),
        then=then,
    )


def number_of_splits(loops: tuple[CppLoop, ...], at_least: str) -> str:
    """How many chunks: each takes whole steps of the outermost loop, and at least that many elements."""
    total = product_of_sizes(loops).text
    most = f"std::min(SPLITS, {total} / {at_least})"
    if len(loops) > 1:
        most = f"std::min({{SPLITS, {loops[0].size}, {total} / {at_least}}})"
    return f"std::max(1L, {most})"


def _partials(passes: PassPrinter) -> tuple[PartialText, ...]:
    plan, names = passes.printer.plan, passes.printer.names
    texts: list[PartialText] = []
    for partial in plan.partials:
        reduce = plan.body[partial.position]
        assert isinstance(reduce, Reduce)
        word = names.pointers[partial.pointer]
        if partial.is_index:
            texts.append(PartialText(word, "long", passes.accumulator_names[partial.position], "min"))
        else:
            accumulator = passes.accumulators_of(partial.position)[0]
            texts.append(PartialText(word, accumulator.type, accumulator.name, accumulator.clause))
    return tuple(texts)


def _combine(passes: PassPrinter, place: str) -> tuple[str, ...]:
    plan, names = passes.printer.plan, passes.printer.names
    statements: list[str] = []
    for partial in plan.partials:
        reduce = plan.body[partial.position]
        assert isinstance(reduce, Reduce)
        accumulator = passes.accumulators_of(partial.position)[0]
        other = f"{names.pointers[partial.pointer]}[{place}]"
        if partial.is_index or not is_position(reduce.op):
            if not partial.is_index:
                passes.printer.needs |= accumulator.needs_to_combine
                statements.append(accumulator.combine.format(acc=accumulator.name, other=other))
            continue
        index = next(p for p in plan.partials if p.is_index and p.position == partial.position)
        index_other = f"{names.pointers[index.pointer]}[{place}]"
        index_name = passes.accumulator_names[partial.position]
        better = takes_over(
            accumulator.clause, other, accumulator.name, accumulator.type in ("float", "double")
        )
        statements.append(f"if ({better}) {{ {accumulator.name} = {other}; {index_name} = {index_other}; }}")
    return tuple(statements)


def takes_over(clause: str, new: str, old: str, is_float: bool) -> str:
    """When a later element replaces the extreme value found so far: the first NaN wins, else the first extreme."""
    comparison = ">" if clause == "max" else "<"
    better = f"{new} {comparison} {old}"
    return f"{better} || ({new} != {new} && {old} == {old})" if is_float else better
