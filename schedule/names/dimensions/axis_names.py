"""The words for a kernel's axes: row and col where there is one of each, otherwise what the axis runs over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from longhand.capture.graph import Role
from longhand.lower.ir import AxisSize, IndexExpression, Load, Pointwise, PointwiseOp, Store, memory_order
from longhand.schedule.names.dimensions.compound_names import ProductWord, Words, apart, parts_of
from longhand.schedule.names.dimensions.customary_names import OF_IMAGES
from longhand.schedule.names.dimensions.dimension_propagation import grouped, shape_of
from longhand.schedule.names.dimensions.parts import dim_of_places
from longhand.schedule.names.dimensions.walked_dimensions import index_of, shared_words, size_of
from longhand.schedule.names.dimensions.walked_parts import grouped_around_splits, grouped_before_last
from longhand.schedule.names.shared.callers import Caller, Callers
from longhand.schedule.names.unit_names import AxisNames
from longhand.schedule.names.words import Scope, plural
from longhand.schedule.plan import AxisRole, KernelPlan, PlanAxis, dims_in_memory

# From the innermost axis outwards: words for axes that came without one.
_ROW_LADDER = ("row", "group", "stack", "outer")
_COL_LADDER = ("col", "lane", "slab", "outer_col")
_WINDOW_LADDER = ("window_column", "window_line", "window_slice")
_INDEX_WORDS = {"seq": "token", "dim": "feature", "n": "item", "x": "column", "y": "line"}
_HEADS = ("h", "n_heads")  # what patterns call heads, beside what they call the size of one
_HEAD_DIMS = frozenset({"d", "head_dim", "dim_head"})


def name_axes(
    plan: KernelPlan, scope: Scope, dimensions: Mapping[str, tuple[str, ...]] | None = None
) -> dict[str, AxisNames]:
    """Words for each of the plan's axes, taken from `scope`.

    Args:
        plan: The kernel.
        scope: Its names so far.
        dimensions: For axes that walk dimensions with words: those words (see `dimensions_of`).
    """
    names: dict[str, AxisNames] = {}
    repeated, places = _repeated(plan), _places(plan)
    row_ladder = _WINDOW_LADDER if plan.schedule.walks_windows else _ROW_LADDER
    for role, ladder in ((AxisRole.ROW, row_ladder), (AxisRole.COL, _COL_LADDER)):
        axes = [axis for axis in plan.axes if axis.role is role]
        for steps_out, axis in enumerate(reversed(axes)):
            words = (dimensions or {}).get(axis.name, ())
            index = index_of(words, plan.schedule.walks_windows)
            candidates = list(_candidates(plan, axis, steps_out, ladder, len(axes)))
            if index is None and axis.name in repeated:
                index = "repeat"
            if max(len(plan.rows), len(plan.cols)) > 1:
                size = size_of(words)
                candidates[:0] = [(ladder[min(steps_out, len(ladder) - 1)], size)] if size is not None else []
                candidates[:0] = [(index, f"n_{plural(index)}")] if index is not None else []
            if axis.name in places:
                says_little = index in (None, "row", "col")
                candidates[:0] = [("place", "n_places" if says_little else size_of(words) or "n_places")]
            names[axis.name] = _pick(candidates, scope)
    return {axis.name: names[axis.name] for axis in plan.axes}


def _repeated(plan: KernelPlan) -> frozenset[str]:
    """The axes along which a kernel that only copies writes what it reads again and again: ``n_rep`` of repeat_kv."""
    if [type(value) for value in plan.body] != [Load, Store]:
        return frozenset()
    read, written = ({axis for axis, _ in plan.addresses[at].axes} for at in (0, 1))
    return frozenset(written - read)


def _places(plan: KernelPlan) -> frozenset[str]:
    """The axes along which a kernel asks of positions that are data whether they are the one at hand.

    Only where values are put there: of a cross entropy that asks which class is the target, a class is no place.
    """
    if not any(isinstance(value, Pointwise) and value.name == Role.HERE for value in plan.body):
        return frozenset()
    axes = set[str]()
    for value in plan.body:
        if not isinstance(value, Pointwise) or value.op is not PointwiseOp.EQ:
            continue
        asked = [at for at in value.args if isinstance(plan.body[at], IndexExpression)]
        walked = [plan.addresses[at].axes for at in asked]
        if len(asked) == 1 and len(walked[0]) == 1 and not plan.addresses[asked[0]].offset:
            ((axis, factors),) = walked[0]
            axes |= {axis} if not factors else set()
    sized = {axis for value in plan.body if isinstance(value, AxisSize) for axis in value.axes}
    return frozenset(axes & sized)


def dimensions_of(plan: KernelPlan, callers: Callers) -> dict[str, tuple[str, ...]]:
    """For each axis the words of the dimensions that it walks, as far as all calls have the same ones."""
    every = [_dimensions(plan, caller) for caller in callers.every]
    # A call of the same sizes that has no words for them is no other: keys are rotated, values come as they are.
    by_sizes: dict[str, dict[str, tuple[str, ...]]] = {}
    for caller, words in zip(callers.every, every, strict=True):
        by_sizes.setdefault(str(caller.launch.sizes), {}).update(words)
    told = [
        {**by_sizes[str(caller.launch.sizes)], **words}
        for caller, words in zip(callers.every, every, strict=True)
    ]
    first, *others = told
    shared = {
        axis: shared_words([words, *(other.get(axis, ()) for other in others)])
        for axis, words in first.items()
    }
    known = {axis: words for axis, words in shared.items() if words}
    return {**_of_places(plan, callers), **known}


def _of_places(plan: KernelPlan, callers: Callers) -> dict[str, tuple[str, ...]]:
    """For axes of which the kernel asks which part is at hand: the word of how many there are, if all calls have it."""
    told = {name: (word, size) for name, word, size in _asked_of_places(callers.first)}
    others = [{word for _, word, _ in _asked_of_places(caller)} for caller in callers.every[1:]]
    sizes = dict(zip((axis.name for axis in plan.axes), callers.first.launch.sizes, strict=True))
    by_axis: dict[str, tuple[str, ...]] = {}
    for position, value in enumerate(plan.body):
        walked = plan.addresses[position].axes if isinstance(value, IndexExpression) else ()
        word, size = told.get(value.origin, ("", ""))
        is_plain = len(walked) == 1 and not walked[0][1] and not plan.addresses[position].offset
        if is_plain and size == str(sizes[walked[0][0]]) and all(word in words for words in others):
            by_axis.setdefault(walked[0][0], (word,))
    return by_axis


def _asked_of_places(caller: Caller) -> Iterator[tuple[str, str, str]]:
    """The operations of a call that ask of places: the node, the word of the dimension, and how long that is."""
    for node in caller.nodes if caller.dims is not None else ():
        shape = shape_of(node)
        dim = dim_of_places(node, len(shape)) if shape else None
        if caller.dims is not None and dim is not None:
            word = caller.dims.of(node.name, len(shape))[dim]
            if word is not None and word.isidentifier():
                yield node.name, word, str(shape[dim])


def _dimensions(plan: KernelPlan, caller: Caller) -> dict[str, tuple[str, ...]]:
    if caller.dims is None:
        return {}
    launch = caller.launch
    sizes = dict(zip((axis.name for axis in plan.axes), launch.sizes, strict=True))
    passed = [pointer for pointer in plan.pointers if not pointer.scratch]
    by_axis: dict[str, tuple[str, ...]] = {}
    for pointer, name in reversed(list(zip(passed, launch.buffers, strict=True))):
        buffer = caller.buffers[name]
        order, words = (
            memory_order(buffer),
            _with_channels(_with_heads(caller.dims.of(name, len(buffer.shape)))),
        )
        shape, known_words = apart([(buffer.shape[dim], words[dim]) for dim in order], {})
        dims = dims_in_memory(plan, pointer, launch.sizes, launch.ints)
        walked = [sizes[axis] for axis in dims]
        parts = (
            grouped(shape, known_words, walked)
            or grouped_before_last(shape, known_words, walked)
            or grouped_around_splits(shape, known_words, walked)
        )
        for axis, group in zip(dims, parts or (), strict=False):
            known = [word for _, word in group if word is not None]
            if known and len(known) == len(group):
                by_axis.setdefault(axis, tuple(part for word in known for part in parts_of(word)))
    return by_axis


def _with_channels(words: Words) -> Words:
    """The words, ``channels`` for what lies between the batch and the lines and columns of its images."""
    if len(words) != 4 or words[1] is not None or not all(isinstance(word, str) for word in words[2:]):
        return words
    of_image = [index_of([word or ""]) for word in words[2:]]
    is_image = of_image[0] == "line" and (words[3] or "").rpartition("_")[2] == "width"
    return (words[0], "channels", *words[2:]) if is_image else words


def _with_heads(words: Words) -> Words:
    """The words, ``n_heads`` for the ``h`` of ``b h n d``."""
    letter, plain = _HEADS
    parts = {part for word in words for part in parts_of(word)}
    if not parts & _HEAD_DIMS or parts & {plain, *OF_IMAGES}:
        return words
    return tuple(_of_heads(word) if letter in parts_of(word) else word for word in words)


def _of_heads(word: str | None) -> str | None:
    letter, plain = _HEADS
    if isinstance(word, ProductWord):
        return ProductWord([plain if part == letter else part for part in word.of], word.sizes)
    return plain


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
