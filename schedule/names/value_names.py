"""The words inside a kernel: for its axes, and for the values of its body that get a line of their own.

row and col where there is one of each, otherwise what the axis runs over.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import torch

from longhand.capture.graph import GradientPart
from longhand.lower.ir import (
    Constant,
    Extent,
    Load,
    Pointwise,
    PointwiseOp,
    Position,
    Reduce,
    Scalar,
    Store,
    Value,
    arguments,
    memory_order,
)
from longhand.schedule.names.dimensions.compound_words import parts_of
from longhand.schedule.names.dimensions.dimension_propagation import grouped
from longhand.schedule.names.dimensions.walked_parts import grouped_before_last
from longhand.schedule.names.operation_names import noun_of
from longhand.schedule.names.shared.callers import Caller, Callers, SharedWords
from longhand.schedule.names.unit_names import AxisNames
from longhand.schedule.names.value_rules import Nameless, one_of, words_by_rule
from longhand.schedule.names.words import Scope, element_words, further_words, plural, without_counter
from longhand.schedule.plan import Access, AxisRole, KernelPlan, PlanAxis

# From the innermost axis outwards: words for axes that came without one.
_ROW_LADDER = ("row", "group", "stack", "outer")
_COL_LADDER = ("col", "lane", "slab", "outer_col")
_WINDOW_LADDER = ("window_column", "window_line", "window_slice")
_INDEX_WORDS = {"seq": "token", "dim": "feature", "n": "item", "x": "column", "y": "line"}
# What the indices of dimensions are called, by the customary words for the sizes.
_INDEX_OF = {
    ("batch",): "batch",
    ("seq",): "position",
    ("channels",): "channel",
    ("height",): "line",
    ("height", "width"): "pixel",
}
_IMAGE = ("batch", "channels", "height", "width")  # ``conv1_channels``: those of what a layer makes


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
    row_ladder = _WINDOW_LADDER if plan.schedule.walks_windows else _ROW_LADDER
    for role, ladder in ((AxisRole.ROW, row_ladder), (AxisRole.COL, _COL_LADDER)):
        axes = [axis for axis in plan.axes if axis.role is role]
        for steps_out, axis in enumerate(reversed(axes)):
            index = _index_of((dimensions or {}).get(axis.name, ()), plan.schedule.walks_windows)
            found = list(_candidates(plan, axis, steps_out, ladder, len(axes)))
            if index is not None and max(len(plan.rows), len(plan.cols)) > 1:
                found.insert(0, (index, f"n_{plural(index)}"))
            names[axis.name] = _pick(found, scope)
    return {axis.name: names[axis.name] for axis in plan.axes}


def dimensions_of(plan: KernelPlan, callers: Callers) -> dict[str, tuple[str, ...]]:
    """For each axis the words of the dimensions that it walks, as far as all calls have the same ones."""
    first, *others = [_dimensions(plan, caller) for caller in callers.every]
    shared = {
        axis: _shared([words, *(other.get(axis, ()) for other in others)]) for axis, words in first.items()
    }
    return {axis: words for axis, words in shared.items() if words}


def _shared(calls: list[tuple[str, ...]]) -> tuple[str, ...]:
    """The words of the first call where all mean the same; ``n_heads`` of n_heads and n_kv_heads: both are heads."""
    indices = {_index_of(words) for words in calls}
    if len(indices) == 1:
        return calls[0]
    nouns = [(index or "").split("_") for index in indices]
    common: list[str] = []
    while all(nouns) and len({noun[-1] for noun in nouns}) == 1:
        common.insert(0, nouns[0][-1])
        nouns = [noun[:-1] for noun in nouns]
    is_counted = all(len(words) == 1 and words[0].startswith("n_") for words in calls)
    return (f"n_{plural('_'.join(common))}",) if is_counted and any(common) else ()


def _dimensions(plan: KernelPlan, caller: Caller) -> dict[str, tuple[str, ...]]:
    if caller.dims is None:
        return {}
    launch = caller.launch
    sizes = dict(zip((axis.name for axis in plan.axes), launch.sizes, strict=True))
    passed = [pointer for pointer in plan.pointers if not pointer.scratch]
    found: dict[str, tuple[str, ...]] = {}
    for pointer, name in reversed(list(zip(passed, launch.buffers, strict=True))):
        buffer = caller.buffers[name]
        order, words = memory_order(buffer), caller.dims.of(name, len(buffer.shape))
        shape, known_words = [buffer.shape[dim] for dim in order], tuple(words[dim] for dim in order)
        walked = [sizes[axis] for axis in pointer.dims or ()]
        parts = grouped(shape, known_words, walked) or grouped_before_last(shape, known_words, walked)
        for axis, group in zip(pointer.dims or (), parts or (), strict=False):
            known = [word for _, word in group if word is not None]
            if known and len(known) == len(group):
                found.setdefault(axis, tuple(part for word in known for part in parts_of(word)))
    return found


def _index_of(words: tuple[str, ...], is_of_window: bool = False) -> str | None:
    """``head`` for n_heads, ``pixel`` for height and width together; None where there is no such word.

    Results of windows have a line and a column, as the windows do.
    """
    made = tuple(word.removeprefix("out_") for word in words)
    parts = tuple(next((part for part in _IMAGE if word.endswith(f"_{part}")), word) for word in made)
    if parts in _INDEX_OF:
        return _INDEX_OF[parts]
    if is_of_window and parts == ("width",):
        return "column"
    counted = re.fullmatch(r"n_([a-z_]{2,}[^s])s", words[0]) if len(words) == 1 else None
    return counted[1] if counted else None


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


_LONGEST = 72  # characters of an expression without a name
_DEEPEST = 4
_PREFIXED = ("left", "right", "inner", "outer", "first", "second", "last")


@dataclasses.dataclass(frozen=True)
class ValueWords:
    """Names the values of one kernel.

    Attributes:
        plan: The kernel.
        words: What its callers call alike.
        pointers: The words of the kernel's pointers, by key.
        scope: Names given out in the kernel so far.
        loads_have_lines: Whether every load gets a line (Triton), or only one that is used twice (C++ reads in place).
    """

    plan: KernelPlan
    words: SharedWords
    pointers: Mapping[str, str]
    scope: Scope
    loads_have_lines: bool

    def name_values(self) -> dict[int, str]:
        """The names of the values that get lines of their own, by position."""
        body = self.plan.body
        uses = Counter(argument for value in body for argument in set(arguments(value)))
        locals_of = self._locals()
        names: dict[int, str] = {}
        length: dict[int, int] = {}
        depth: dict[int, int] = {}
        for position, value in enumerate(body):
            if isinstance(value, Store):
                continue
            if self._wants_line(position, value, uses, locals_of):
                names[position] = self._name(position, names, locals_of)
            self._measure(position, value, names, length, depth)
            if position not in names and self._is_too_long(position, value, length, depth):
                for argument in self._to_name(value, names, length, depth):
                    names[argument] = self._name(argument, names, locals_of)
                    length[argument], depth[argument] = len(names[argument]), 0
                self._measure(position, value, names, length, depth)
        return dict(sorted(names.items()))

    def _locals(self) -> dict[int, str]:
        """For the value that is an origin's result: the user's local for it."""
        last: dict[str, int] = {}
        for position, value in enumerate(self.plan.body):
            if isinstance(value, Pointwise | Reduce) and value.origin and not self._is_condition(value):
                last[value.origin] = position
        found = {}
        for origin, position in last.items():
            where = self.words.provenance(origin)
            local = self.words.summand(origin) if where.part is GradientPart.SUMMAND else where.local
            if local and not self._is_of_another(local, position):
                found[position] = local
        return found

    def _is_of_another(self, word: str, position: int) -> bool:
        """Whether a word stands for a tensor that a value is not stored to."""
        stored = {v.buffer for v in self.plan.body if isinstance(v, Store) and v.value == position}
        return any(other == word and of not in stored for of, other in self.pointers.items())

    def _is_condition(self, value: Pointwise | Reduce) -> bool:
        """Whether a value only says where an operation's result comes from."""
        node = self.words.nodes.get(value.origin)
        made = node.meta.get("val") if node is not None else None
        return value.dtype is torch.bool and isinstance(made, torch.Tensor) and made.dtype is not torch.bool

    def _wants_line(self, position: int, value: Value, uses: Counter[int], locals_of: dict[int, str]) -> bool:
        body = self.plan.body
        if isinstance(value, Constant | Scalar | Extent):
            return False
        if isinstance(value, Position):
            return uses[position] > 1 and bool(value.index.offset or len(value.index.axes) > 1)
        if isinstance(value, Reduce):
            return True
        if isinstance(value, Load):
            return self.loads_have_lines or uses[position] > 1 or value.mask is not None
        if uses[position] > 1:
            return True
        only_stored = all(isinstance(user, Store) for user in body if position in arguments(user))
        word = locals_of.get(position) or value.name
        # A word that stands for something else already would have to give way to a worse one.
        return not only_stored and word is not None and self.scope.is_free(word)

    def _measure(
        self,
        position: int,
        value: Value,
        names: Mapping[int, str],
        length: dict[int, int],
        depth: dict[int, int],
    ) -> None:
        """How long and how deep the text of a value is where it is used."""
        if position in names:
            length[position], depth[position] = len(names[position]), 0
            return
        inner = arguments(value)
        depth[position] = 1 + max((depth[argument] for argument in inner), default=-1)
        total = sum(length[argument] for argument in inner)
        match value:
            case Pointwise(op=op):
                is_infix = op in (PointwiseOp.ADD, PointwiseOp.SUB, PointwiseOp.MUL, PointwiseOp.DIV)
                total += 4 if is_infix else len(op.value) + 6 + 2 * len(inner)
            case Load(buffer=buffer):
                total += len(self.pointers.get(buffer, buffer)) + 10
            case Constant(value=number):
                total += len(repr(number)) + 1
            case Scalar(name=name):
                total += len(name or "scalar")
            case _:
                total += 8
        length[position] = total

    def _is_too_long(
        self, position: int, value: Value, length: Mapping[int, int], depth: Mapping[int, int]
    ) -> bool:
        return isinstance(value, Pointwise) and (length[position] > _LONGEST or depth[position] > _DEEPEST)

    def _to_name(
        self, value: Value, names: Mapping[int, str], length: Mapping[int, int], depth: Mapping[int, int]
    ) -> list[int]:
        """The arguments to put on lines of their own so that the value becomes short: the longest ones."""
        body = self.plan.body
        inner = [a for a in arguments(value) if a not in names and isinstance(body[a], Pointwise | Load)]
        if not inner:
            return []
        longest = max(inner, key=lambda a: (depth[a], length[a], a))
        rest = [a for a in inner if a != longest and length[a] > _LONGEST // 2]
        return [longest, *rest]

    def _name(self, position: int, names: Mapping[int, str], locals_of: Mapping[int, str]) -> str:
        return self.scope.pick(self._candidates(position, names, locals_of))

    def _candidates(
        self, position: int, names: Mapping[int, str], locals_of: Mapping[int, str]
    ) -> Iterator[str]:
        value = self.plan.body[position]
        if isinstance(value, Load):
            yield from self._load_words(value)
            return
        local = locals_of.get(position)
        one = Nameless(position, self.plan, self.words, self.pointers, names, self.loads_have_lines)
        stored = one.stored
        if stored and self._is_updated(stored):
            yield f"new_{stored}"
        for word in (local, stored):
            if word and not self.loads_have_lines:  # C++: one element of what the word stands for
                yield one_of(word)
            if word:
                yield word
        role = getattr(value, "name", None)
        if role and role != local and not self._is_of_another(role, position):
            yield role
            if role == stored:
                yield from one.once_more(role)
            yield from (f"{word}_{role}" for word in self._places(value))
        yield from words_by_rule(one)
        if local:
            yield from one.once_more(local)
        origin = getattr(value, "origin", "")
        hint = without_counter(origin).strip("_") if origin else ""
        yield from (f"{word}_{noun_of(value)}" for word in self._places(value))
        word = role if role and not self._is_of_another(role, position) else noun_of(value)
        if hint:
            yield f"{hint}_{word}"
        for prefix in _PREFIXED:
            yield f"{prefix}_{word}"

    def _is_updated(self, word: str) -> bool:
        """Whether the kernel reads and writes a tensor: then a value for it is its new one."""
        both = (pointer.name for pointer in self.plan.pointers if pointer.access is Access.READ_WRITE)
        return word in {self.pointers.get(name) for name in both}

    def _places(self, value: Value) -> Iterator[str]:
        """Words that tell which of several modules of a kind a value belongs to: ``shortcut``."""
        parts = self.words.provenance(getattr(value, "origin", "")).module.split(".")
        for part in reversed(parts):
            if part and not part.isdigit():
                yield part

    def _load_words(self, value: Load) -> Iterator[str]:
        pointer = self.pointers.get(value.buffer, without_counter(value.buffer))
        if value.name and (value.index.values or value.mask is not None):
            yield value.name
        is_one = not self.loads_have_lines or self._is_one(value)
        place = self._place_of_two(value)
        if place:
            yield f"{place}_{one_of(pointer) if is_one else pointer}"
        if is_one:
            yield one_of(pointer)
        yield pointer
        if value.name and pointer.endswith(value.name):
            yield value.name
        local = self.words.provenance(value.origin).local if value.origin else None
        if local:
            yield local
        is_only = not (value.index.axes or value.index.values)
        further = further_words(pointer) if self.loads_have_lines else element_words(pointer, is_only=is_only)
        yield from itertools.islice(further, 10)

    def _place_of_two(self, value: Load) -> str:
        """``first`` or ``second``, of what is read at exactly two places of one tensor, neither under a mask."""
        places = [
            other.index
            for other in self.plan.body
            if isinstance(other, Load) and other.buffer == value.buffer
        ]
        is_masked = any(
            isinstance(other, Load)
            and other.buffer == value.buffer
            and (other.mask is not None or other.index.values)
            for other in self.plan.body
        )
        return "" if len(places) != 2 or is_masked else ("first", "second")[places.index(value.index)]

    def _is_one(self, value: Load) -> bool:
        """Whether a program loads one element, not a block of them."""
        return self.plan.schedule.is_row_by_row and not {a.name for a in self.plan.cols} & {
            axis for axis, _ in value.index.axes
        }
