"""A kernel that makes or holds rows adds up their columns on the way, where another one would read them again for that.

Fusion proper leaves these two apart: a kernel that holds whole rows has reduced axes of its own, and one that makes
them element by element may yet become part of such a kernel. The second, a sum of columns alone, joins the first where
that moves fewer bytes, the parts of the sums that the chunks of rows leave counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longhand.lower.ir import Buffer, BufferKind, Nest, Reduce, ReduceOp, Step
from longhand.schedule.bodies import domains_of, reduced_axes, sizes_of, stores
from longhand.schedule.dependencies import effects
from longhand.schedule.fusion.column_reductions import find_column_reductions, without_column_reductions
from longhand.schedule.fusion.joining import side_by_side
from longhand.schedule.fusion.legality import (
    depends_on_reduction,
    fused_nest_problem,
    memory_problem,
    reduces_columns,
    size_problem,
)
from longhand.schedule.fusion.profit import Hint, traffic, whole
from longhand.schedule.fusion.step_graph import StepGraph
from longhand.schedule.kernels.schedules.rows_and_columns import chunks_of_rows
from longhand.schedule.sizes import product

FEWEST_ROWS = 256  # fewer are not divided among programs that each walk several
# In readings of the largest tensor that is summed. With a row kernel a sum that saves its one reading stays by itself:
# the gradient of a layer's bias would be made by the norm of the next layer, and equal layers would no longer be one
# function.
LEAST_SAVED = 1.5
LEAST_SAVED_WITH_ITS_MAKER = 0.5
LONGEST_ROW = 4096  # more do not fit the registers of a program beside the sums


def take_column_reductions_along(
    steps: Sequence[Step], buffers: Mapping[str, Buffer], kept: frozenset[str], hint: Hint
) -> list[Step]:
    """The steps, sums of columns in the kernels that make what is summed, or hold it row by row.

    Args:
        steps: What fusion left.
        buffers: Of the program.
        kept: Buffers that the caller sees.
        hint: The size at capture of a symbolic size.
    """
    graph = StepGraph(steps)
    for number in graph.numbers():
        nest = graph.steps.get(number)
        if isinstance(nest, Nest) and _is_sum_of_columns(nest, buffers):
            _join_best(graph, number, buffers, kept, hint)
    return graph.ordered()


def _is_sum_of_columns(nest: Nest, buffers: Mapping[str, Buffer]) -> bool:
    """Whether a nest does nothing but add up columns of tensors that it reads."""
    body = nest.body
    reduces = {position: value for position, value in enumerate(body) if isinstance(value, Reduce)}
    is_sum = all(one.op is ReduceOp.SUM and one.dtype.is_floating_point for one in reduces.values())
    is_plain = all(store.value in reduces and store.mask is None for _, store in stores(nest))
    return bool(reduces) and is_sum and is_plain and reduces_columns(nest, buffers)


def _walks_rows_again(nest: Nest, buffers: Mapping[str, Buffer]) -> bool:
    """Whether a nest holds its rows: what it stores of each element depends on a reduction of the row."""
    rest = without_column_reductions(nest)
    reduced, late, axes = reduced_axes(rest), depends_on_reduction(rest.body), domains_of(rest)
    is_again = any(late[position] and axes[position] & reduced for position, _ in stores(rest))
    return is_again and not reduces_columns(rest, buffers)


def _makes_elements(nest: Nest) -> bool:
    """Whether a nest computes every element by itself."""
    return not reduced_axes(nest)


def _join_best(
    graph: StepGraph, number: int, buffers: Mapping[str, Buffer], kept: frozenset[str], hint: Hint
) -> None:
    """Puts the sums of a step into the kernel with which they save most bytes, if any."""
    best: tuple[int, int, int, Nest] | None = None
    largest = _largest(graph.steps[number], buffers, hint)
    for other in _partners(graph, number, buffers):
        first, second = sorted((number, other), key=graph.place)
        if graph.between(first, second) is not None:
            continue
        one, two = graph.steps[first], graph.steps[second]
        assert isinstance(one, Nest) and isinstance(two, Nest)
        merged = side_by_side(one, two, buffers, _dead(graph, first, second, buffers, kept))
        if isinstance(merged, str) or _problem(merged, buffers, hint) is not None:
            continue
        saved = traffic(one, buffers, hint) + traffic(two, buffers, hint) - traffic(merged, buffers, hint)
        saved -= _parts(graph.steps[number], hint)
        least = LEAST_SAVED if find_column_reductions(merged) else LEAST_SAVED_WITH_ITS_MAKER
        if saved > least * largest and (best is None or saved > best[0]):
            best = saved, first, second, merged
    if best is not None:
        graph.merge(*best[1:])


def _partners(graph: StepGraph, number: int, buffers: Mapping[str, Buffer]) -> list[int]:
    """The kernels that make something that a step reads, and the row kernels that read it."""
    read = effects(graph.steps[number]).reads
    makers = {other for buffer in read for other in graph.writers(buffer)}
    partners = makers | {other for buffer in read for other in graph.readers(buffer)}
    nests = {other: step for other in partners - {number} if isinstance(step := graph.steps[other], Nest)}
    return graph.in_order(
        other
        for other, nest in nests.items()
        if _walks_rows_again(nest, buffers) or (other in makers and _makes_elements(nest))
    )


def _problem(merged: Nest, buffers: Mapping[str, Buffer], hint: Hint) -> str | None:
    """Why a kernel and sums of columns of its rows are not one kernel, or None."""
    sums = find_column_reductions(merged)
    if not sums:
        return _problem_of_elements(merged, buffers, hint)
    rest = without_column_reductions(merged)
    sizes, cols = sizes_of(merged), reduced_axes(rest)
    n_cols = hint(product(sizes[axis] for axis in sorted(cols)))
    n_rows = hint(product(sizes[axis] for axis in sorted(set(sizes) - cols)))
    if n_rows < FEWEST_ROWS or n_cols > LONGEST_ROW:
        return "too few rows, or too long ones"
    if len({store.index for _, store in stores(merged) if store.value in sums}) != 1:
        return "the sums are laid out in different orders"
    return fused_nest_problem(rest) or memory_problem(merged) or size_problem(merged)


def _problem_of_elements(merged: Nest, buffers: Mapping[str, Buffer], hint: Hint) -> str | None:
    """The same where the rows are made element by element."""
    if not reduces_columns(merged, buffers):
        return "the sums are not of all rows"
    sizes, rows = sizes_of(merged), reduced_axes(merged)
    if hint(product(sizes[axis] for axis in sorted(rows))) < FEWEST_ROWS:
        return "too few rows"
    return fused_nest_problem(merged)


def _largest(nest: Step, buffers: Mapping[str, Buffer], hint: Hint) -> int:
    """Bytes of the largest tensor that a step reads."""
    return max(whole(buffers[name], hint) * buffers[name].dtype.itemsize for name in effects(nest).reads)


def _parts(nest: Step, hint: Hint) -> int:
    """Bytes of the parts of the sums, in float32: written, and read while they are in the cache."""
    assert isinstance(nest, Nest)
    sizes, reduced = sizes_of(nest), reduced_axes(nest)
    n_rows = hint(product(sizes[axis] for axis in sorted(reduced)))
    n_cols = hint(product(size for axis, size in sizes.items() if axis not in reduced))
    return 4 * chunks_of_rows(n_rows, n_cols) * n_cols * len(stores(nest))


def _dead(
    graph: StepGraph, first: int, second: int, buffers: Mapping[str, Buffer], kept: frozenset[str]
) -> frozenset[str]:
    """What the first makes for the second alone."""
    one, two = effects(graph.steps[first]), effects(graph.steps[second])
    return frozenset(
        buffer
        for buffer in set(one.writes) & set(two.reads)
        if buffer not in kept
        and buffers[buffer].kind is BufferKind.INTERMEDIATE
        and set(graph.readers(buffer)) <= {first, second}
    )
