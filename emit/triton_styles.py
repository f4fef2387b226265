"""The functions of a Triton kernel file without loops: elementwise, transposed tiles, whole rows in registers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence

from longhand.emit.names import KernelNames
from longhand.emit.triton_address import Flat, unflatten
from longhand.emit.triton_block import Block, Kind, Line, Side, Space
from longhand.schedule.plan import AxisRole, KernelPlan, PlanAxis, Style


@dataclasses.dataclass(frozen=True)
class Axes:
    """The words for one side of the space.

    Attributes:
        keys: The axes' keys, outermost first.
        index: The variable that walks the side: the axis's own, or one that flattens several.
        size: How many there are: the axis's own size argument, or a product's name.
        size_lines: The line that computes the product, if it is one.
        split_lines: The lines that split the flattened variable into its axes.
    """

    keys: tuple[str, ...]
    index: str
    size: str
    size_lines: tuple[str, ...] = ()
    split_lines: tuple[str, ...] = ()

    @property
    def flat(self) -> Flat:
        """As an address needs it."""
        return Flat(self.index, self.keys)


def side_words(axes: Sequence[PlanAxis], names: KernelNames, index: str, size: str) -> Axes:
    """The words for a side; `index` and `size` are for a side of several axes."""
    keys = tuple(axis.name for axis in axes)
    if len(keys) == 1:
        words = names.axes[keys[0]]
        return Axes(keys, words.index, words.size)
    if not keys:
        return Axes(keys, index, "1")
    taken = {names.axes[key].index for key in names.axes} | set(names.values.values())
    index = index if index not in taken else f"flat_{index}"
    product = " * ".join(names.axes[key].size for key in keys)
    splits = tuple(f"{axis} = {text}" for axis, text in unflatten(Flat(index, keys), names))
    return Axes(keys, index, size, (f"{size} = {product}",), splits)


@dataclasses.dataclass(frozen=True)
class FunctionText:
    """One @triton.jit function, but for its parameters, which follow from what its text names.

    Attributes:
        name: Its name.
        does: The docstring: what one program computes.
        context: What the style's template needs for the body.
        constants: The constexpr parameters that are tunables or follow from them, with their comments.
        size_lines: The lines for products of sizes that the texts may name.
    """

    name: str
    does: str
    context: dict[str, object]
    constants: tuple[tuple[str, str], ...]
    size_lines: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Body:
    """Statements with what they turned out to need."""

    paragraphs: list[list[str]]
    shared: list[str]
    functions: set[str]


def paragraphs(lines: Iterable[Line]) -> list[list[str]]:
    """Statements in paragraphs: one for each run of loads, computations or stores; short ones join their neighbour."""
    groups: list[tuple[Kind, list[str]]] = []
    for line in lines:
        if groups and groups[-1][0] is line.kind:
            groups[-1][1].append(line.text)
        else:
            groups.append((line.kind, [line.text]))
    joined: list[tuple[Kind, list[str]]] = []
    for kind, texts in groups:
        if joined and len(texts) == 1 and len(joined[-1][1]) <= 2 and kind is not Kind.LOAD:
            joined[-1] = (kind, joined[-1][1] + texts)
        else:
            joined.append((kind, texts))
    return [texts for _, texts in joined]


def shared_address(block: Block, taken: set[str]) -> dict[str, str]:
    """The address that several statements use gets a line: ``at = row * n_cols + col``."""
    candidates = [(count, address) for address, count in block.asked.items() if count > 1 and " " in address]
    if not candidates:
        return {}
    name = "at" if "at" not in taken else "element"
    return {max(candidates)[1]: name}


def block_body(
    plan: KernelPlan, names: KernelNames, space: Space, positions: Iterable[int]
) -> tuple[Body, Block]:
    """Prints positions over a space: once to count the addresses, once with the shared one named."""
    listed = list(positions)
    draft = Block(plan, names, space)
    draft.lines(listed)
    block = Block(plan, names, space)
    block.addresses = shared_address(draft, set(names.values.values()))
    lines = block.lines(listed)
    shared = [f"{name} = {address}" for address, name in block.addresses.items()]
    return Body(paragraphs(lines), shared, block.functions), block


def mentions(texts: Iterable[str], word: str) -> bool:
    """Whether an identifier occurs."""
    pattern = re.compile(rf"(?<![\w.]){re.escape(word)}\b")
    return any(pattern.search(text) for text in texts)


def needed(lines: Sequence[str], texts: Iterable[str]) -> list[str]:
    """Those ``name = value`` lines whose name the texts, or a needed line, mention."""
    kept: list[str] = []
    later = list(texts)
    for line in reversed(lines):
        if mentions([*later, *kept], line.split(" = ")[0]):
            kept.insert(0, line)
    return kept


def _context(
    plan: KernelPlan, rows: Axes, cols: Axes, body: Body, batch: Axes | None = None
) -> dict[str, object]:
    texts = [line for paragraph in body.paragraphs for line in paragraph] + body.shared
    sides = [side for side in (batch, rows, cols) if side is not None and side.keys]
    return {
        "rows": rows if rows.keys else None,
        "cols": cols if cols.keys else None,
        "batch": batch if batch is not None and batch.keys else None,
        "splits": [line for side in sides for line in needed(side.split_lines, texts)],
        "masks": {name for name in ("in_rows", "in_cols", "in_range") if mentions(texts, name)},
        "shared": body.shared,
        "paragraphs": body.paragraphs,
        "wide": ".to(tl.int64)" if plan.wide_index else "",
    }


def elementwise(plan: KernelPlan, names: KernelNames) -> tuple[FunctionText, set[str]]:
    """One program for each block of elements."""
    rows = side_words(plan.rows, names, "row", "n_rows")
    cols = side_words(plan.cols, names, "col", "n_cols")
    tile = bool(rows.keys and cols.keys)
    space = Space(
        flats=tuple(side.flat for side in (rows, cols) if side.keys),
        rows=Side(rows.keys, bool(rows.keys), "in_rows" if tile else "in_range"),
        cols=Side(cols.keys, bool(cols.keys), "in_cols" if tile else "in_range"),
    )
    body, block = block_body(plan, names, space, range(len(plan.body)))
    constants: tuple[tuple[str, str], ...]
    if tile:
        constants = (("ROWS", ""), ("COLS", ""))
        does = "Each program computes a block of ROWS x COLS elements"
    elif cols.keys:
        constants = (("BLOCK", ""),)
        does = "Each program computes BLOCK elements"
    elif rows.keys:
        constants = (("ROWS", ""),)
        does = "Each program computes ROWS elements"
    else:
        constants = ()
        does = "The only program computes the one element"
    context = _context(plan, rows, cols, body)
    return (
        FunctionText(
            f"{names.kernel}_kernel", does, context, constants, (*rows.size_lines, *cols.size_lines)
        ),
        block.functions,
    )


def transposed(plan: KernelPlan, names: KernelNames) -> tuple[FunctionText, set[str]]:
    """One program for each square tile of the last row axis and the col axis."""
    rows = side_words(plan.rows[-1:], names, "row", "n_rows")
    cols = side_words(plan.cols, names, "col", "n_cols")
    batch = side_words(plan.rows[:-1], names, "batch", "n_batch")
    flats = tuple(side.flat for side in (batch, rows, cols) if side.keys)
    space = Space(flats, Side(rows.keys, True, "in_rows"), Side(cols.keys, True, "in_cols"))
    body, block = block_body(plan, names, space, range(len(plan.body)))
    context = _context(plan, rows, cols, body, batch)
    does = "Each program fills one TILE x TILE tile"
    sizes = (*batch.size_lines, *rows.size_lines, *cols.size_lines)
    return FunctionText(f"{names.kernel}_kernel", does, context, (("TILE", ""),), sizes), block.functions


def rows_persistent(plan: KernelPlan, names: KernelNames) -> tuple[FunctionText, set[str]]:
    """One program for a few whole rows, kept in registers."""
    rows = side_words(plan.rows, names, "row", "n_rows")
    cols = side_words(plan.cols, names, "col", "n_cols")
    space = Space(
        flats=tuple(side.flat for side in (rows, cols) if side.keys),
        rows=Side(rows.keys, bool(rows.keys), "in_rows"),
        cols=Side(cols.keys, True, "in_cols"),
    )
    body, block = block_body(plan, names, space, range(len(plan.body)))
    context = _context(plan, rows, cols, body)
    does = (
        "Each program keeps ROWS whole rows in registers"
        if rows.keys
        else "The only program keeps all in registers"
    )
    constants = [("ROWS", "")] if rows.keys else []
    constants.append(("COLS", f"{cols.size}, rounded up to a power of two"))
    sizes = (*rows.size_lines, *cols.size_lines)
    return FunctionText(f"{names.kernel}_kernel", does, context, tuple(constants), sizes), block.functions


def constexpr_sizes(plan: KernelPlan, names: KernelNames) -> set[str]:
    """Size arguments that a kernel is compiled for: those of rows that it reduces."""
    if plan.style not in (Style.ROWS_PERSISTENT, Style.ROWS_LOOPED):
        return set()
    return {names.axes[axis.name].size for axis in plan.axes if axis.role is AxisRole.COL}
