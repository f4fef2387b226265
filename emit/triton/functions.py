"""The functions of a Triton kernel file: what the modules of emit/triton/schedules/ make, and make it of."""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter
from collections.abc import Iterable, Sequence

from longhand.emit.text.expression import Precedence, Text, compose, joined, word
from longhand.emit.triton.block import Block
from longhand.emit.triton.scope import FileScope
from longhand.emit.triton.space import Flat, Line, Space, StatementKind, unflatten
from longhand.schedule.named_plan import KernelNames, pointer_word
from longhand.schedule.plan import KernelPlan, PlanAxis, Pointer

Binding = tuple[str, Text]  # a name, and what is bound to it

TO_WIDE = ".to(tl.int64)"
N_SPLITS = word(
    "n_splits"
)  # how many chunks there are: a parameter of the functions that walk or combine them
_MASKS = frozenset({"in_rows", "in_cols", "in_range"})  # of sides
_LONG_ADDRESS = 50  # characters
_SHORT = 3  # statements that need no paragraph of their own


@dataclasses.dataclass(frozen=True)
class Axes:
    """The words for one side of the space.

    Attributes:
        keys: The axes' keys, outermost first.
        index: The variable that walks the side: the axis's own, or one that flattens several.
        size: How many there are: the axis's own size argument, or a product's name; 1 where there is no axis.
        size_lines: The (name, value) that computes the product, if it is one, in the host function.
        split_lines: What splits the flattened variable into its axes, likewise.
        is_wide: Whether the index must be int64 before it is multiplied.
        is_long: Whether the size may pass 32 bits itself.
        kernel_lines: What `size_lines` are in a kernel, where whole numbers have 32 bits if they fit.
    """

    keys: tuple[str, ...]
    index: Text
    size: Text
    size_lines: tuple[Binding, ...] = ()
    split_lines: tuple[Binding, ...] = ()
    is_wide: bool = False
    is_long: bool = False
    kernel_lines: tuple[Binding, ...] = ()

    @property
    def flat(self) -> Flat:
        """As an address needs it."""
        return Flat(self.index.text, self.keys)

    @property
    def wide(self) -> str:
        """What makes a number of 32 bits an index of this side."""
        return TO_WIDE if self.is_wide else ""


def side_names(
    plan: KernelPlan,
    axes: Sequence[PlanAxis],
    names: KernelNames,
    scope: FileScope,
    index: str,
    size: str,
    is_divided: bool = False,
) -> Axes:
    """The words for a side.

    Args:
        plan: The kernel.
        axes: The side's, outermost first.
        names: The kernel's words.
        scope: Where further names come from.
        index: For a side of several axes.
        size: For a side of several axes.
        is_divided: The kernel computes with the size besides comparing with it: it loops over the side.
    """
    keys = tuple(axis.name for axis in axes)
    is_wide, is_long = plan.has_wide_index(keys), plan.has_wide_count(keys)
    if len(keys) == 1:
        words = names.axes[keys[0]]
        end = axes[0].end
        until = words.size if end is None else names.scalars[end]
        lines = ((until, compose("tl.cast({}, tl.int64)", word(until))),) if is_long and is_divided else ()
        return Axes(
            keys, word(words.index), word(until), is_wide=is_wide, is_long=is_long, kernel_lines=lines
        )
    if not keys:
        return Axes(keys, word(index), Text("1"))
    index = scope.name(("index", keys), index, f"flat_{index}")
    size = scope.name(("size", keys), size, size.replace("n_", "n_flat_", 1))
    sizes = [word(names.axes[key].size) for key in keys]
    product = joined(sizes, " * ")
    in_kernel = (
        joined([compose("tl.cast({}, tl.int64)", sizes[0]), *sizes[1:]], " * ") if is_long else product
    )
    splits = tuple(unflatten(Flat(index, keys), names))
    lines, kernel_lines = ((size, product),), ((size, in_kernel),)
    return Axes(keys, word(index), word(size), lines, splits, is_wide, is_long, kernel_lines)


class FunctionRole(enum.Enum):
    """Which of a kernel's functions one is; the value says it in its name."""

    WHOLE = ""
    PARTIAL = "partial"  # leaves the results of its chunk
    COMBINE = "combine"  # makes one result of those of all chunks


@dataclasses.dataclass(frozen=True)
class FunctionText:
    """One @triton.jit function, but for its parameters, which follow from the names that its statements carry.

    Attributes:
        role: Which of the kernel's functions it is.
        macro: The macro of the schedule's template that writes its body.
        does: The docstring: what one program computes.
        context: What the schedule's template needs for the body.
        constants: The constexpr parameters that are tunables or follow from them, with their comments.
        sides: The sides whose products of sizes the texts may name.
    """

    does: str
    context: dict[str, object]
    constants: tuple[tuple[str, str], ...]
    sides: tuple[Axes, ...] = ()
    role: FunctionRole = FunctionRole.WHOLE
    macro: str = "body"


@dataclasses.dataclass(frozen=True)
class KernelText:
    """The functions of a kernel file.

    Attributes:
        functions: In the order of their launches.
        constants: Further lines at the top of the file: ``LOWEST = ...``.
    """

    functions: tuple[FunctionText, ...]
    constants: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Body:
    """Statements in paragraphs, and the shared addresses that they use."""

    paragraphs: list[list[Text]]
    shared: list[Text]


def paragraphs(lines: Iterable[Line]) -> list[list[Text]]:
    """Statements in paragraphs: one for each run of loads, computations or stores; short ones join their neighbour."""
    groups: list[list[Line]] = []
    for line in lines:
        if groups and groups[-1][-1].kind is line.kind:
            groups[-1].append(line)
        else:
            groups.append([line])
    joined: list[list[Line]] = []
    for group in groups:
        if joined and _belongs_to(joined[-1], group):
            joined[-1] += group
        else:
            joined.append(list(group))
    return [[line.text for line in paragraph] for paragraph in joined]


def _belongs_to(before: Sequence[Line], group: Sequence[Line]) -> bool:
    """Whether statements of one kind go on with the short paragraph before them."""
    match group[0].kind:
        case StatementKind.LOAD:  # under a condition that was just computed
            return len(before) == 1 and before[0].target in group[0].text.names
        case StatementKind.COMPUTE:  # on the one value that was just loaded
            is_one = len(group) == 1 or len(before) == 1
            return is_one and len(before) <= _SHORT and len(group) <= _SHORT
        case StatementKind.STORE:
            return len(group) == 1 and len(before) <= _SHORT


def share_addresses(draft: Block, block: Block) -> list[Binding]:
    """Names the address that several statements of `draft` use, and the bases that the others share.

    Returns:
        What to bind: (``at``, ``row * n_cols + col``).
    """
    scope = block.scope
    lines = []
    if draft.space.is_tile or not draft.space.rows.axes:
        alike = Counter(a.base for a in draft.asked)  # those that share their base get a name for that
        repeated = [
            a for a, count in draft.asked.items() if count > 1 and a.whole.precedence is not Precedence.ATOM
        ]
        if repeated:
            # What is long is said once; of the others what is used most.
            long_ones = [a for a in repeated if len(a.whole.text) > _LONG_ADDRESS]
            address = max(long_ones or repeated, key=lambda a: (draft.asked[a], -alike[a.base], a.whole.text))
            block.addresses[address] = scope.name("address", "at", "element")
            lines.append((block.addresses[address], address.whole))
    others = [a for a in draft.asked if a not in block.addresses]
    bases = Counter(a.base for a in others if a.rest.text and a.base.precedence is not Precedence.ATOM)
    shared = [
        base
        for base, count in bases.items()
        if base not in block.bases and (count > 1 or not draft.space.is_tile)
    ]
    for base in shared:
        pointer = draft.asked_by[base]
        whose = (f"{pointer}_start", f"{pointer}_row_start", f"{pointer}_base")
        block.bases[base] = scope.name(("base", base), *("row_start",) * (len(shared) == 1), *whose)
        lines.append((block.bases[base], base))
    long = [(draft.asked[a], a) for a in others if a.rest_multiplies]
    often = [a for count, a in long if count > 1 and count == max(count for count, _ in long)]
    if often and not block.addresses:
        address = often[0]
        base = word(block.bases[address.base]) if address.base in block.bases else address.base
        block.addresses[address] = scope.name("address", "at", "element")
        lines.append((block.addresses[address], dataclasses.replace(address, base=base).whole))
    return lines


def block_body(
    plan: KernelPlan, names: KernelNames, scope: FileScope, space: Space, positions: Iterable[int]
) -> Body:
    """Prints positions over a space: once to count the addresses, once with the shared ones named."""
    listed = list(positions)
    draft = Block(plan, names, scope, space)
    draft.lines(listed)
    block = Block(plan, names, scope, space)
    shared = [bind(*line) for line in share_addresses(draft, block)]
    return Body(paragraphs(block.lines(listed)), shared)


def bind(name: str, value: Text) -> Text:
    """``name = value``"""
    return compose("{} = {}", name, value)


def names_of(texts: Iterable[Text]) -> frozenset[str]:
    """The kernel's own names that statements read."""
    return frozenset[str]().union(*(text.names for text in texts))


def needed(lines: Sequence[Binding], texts: Iterable[Text]) -> list[Text]:
    """``name = value`` for those whose name the texts, or a value that is needed, read."""
    kept: list[Text] = []
    wanted = names_of(texts)
    for name, value in reversed(lines):
        if name in wanted:
            kept.insert(0, bind(name, value))
            wanted |= value.names
    return kept


def masks_in(texts: Iterable[Text]) -> frozenset[str]:
    """The masks of sides that the statements name."""
    return _MASKS & names_of(texts)


def paragraph_context(
    plan: KernelPlan, rows: Axes, cols: Axes, body: Body, batch: Axes | None = None
) -> dict[str, object]:
    """What the templates of functions without loops print."""
    texts = [line for paragraph in body.paragraphs for line in paragraph] + body.shared
    sides = [side for side in (batch, rows, cols) if side is not None and side.keys]
    return {
        "rows": rows if rows.keys else None,
        "cols": cols if cols.keys else None,
        "batch": batch if batch is not None and batch.keys else None,
        "splits": [line for side in sides for line in needed(side.split_lines, texts)],
        "masks": masks_in(texts),
        "shared": body.shared,
        "paragraphs": body.paragraphs,
        "flat_grid": plan.widths.flat_grid,
    }


def one_function(
    does: str,
    context: dict[str, object],
    constants: tuple[tuple[str, str], ...],
    sides: tuple[Axes, ...],
) -> KernelText:
    return KernelText((FunctionText(does, context, constants, sides),))


def constexpr_sizes(plan: KernelPlan, names: KernelNames) -> set[str]:
    """Size arguments that a kernel is compiled for: those of rows that it reduces, or of those that it unrolls."""
    schedule = plan.schedule
    axes = plan.cols if schedule.is_compiled_for_cols else plan.rows if schedule.unrolls_rows else ()
    return {names.axes[axis.name].size for axis in axes}


_TABLE = (("tensor_of_block", "int64, for each program"), ("first_block", "int64 (n_tensors,)"))


def lists(plan: KernelPlan) -> tuple[Pointer, ...]:
    """The pointers that stand for lists, in order."""
    return tuple(pointer for pointer in plan.pointers if pointer.many)


def table_parameters(plan: KernelPlan, names: KernelNames) -> list[tuple[str, str]]:
    """(name, comment) of what the kernel finds its group by."""
    sizes = [(names.axes[axis.name].size, "int64 (n_tensors,)") for axis in plan.cols]
    return [(pointer_word(name), comment) for name, comment in (*_TABLE, *sizes)] if sizes else []


def table_arguments(plan: KernelPlan) -> list[str]:
    """What the host function passes for the lists and for `table_parameters`."""
    return [
        "*table.addresses",
        *(["table.tensor_of_block", "table.first_block", "table.n_elements"] if plan.cols else []),
    ]
