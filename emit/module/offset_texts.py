"""Where a kernel begins to read, and how far it steps, by the words of sizes: ``2 * num_heads * head_dim``."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence

from torch import fx

from longhand.capture.graph import Role
from longhand.emit.text.python_code import (
    Code,
    GroupedCode,
    InfixCode,
    LiteralCode,
    MethodCode,
    NameCode,
    PrefixCode,
    ProductCode,
    SizeText,
    dimension,
    product,
    whole_number,
)
from longhand.emit.text.sizes import SizeWriter
from longhand.emit.text.told_sizes import is_bare, is_path, is_product
from longhand.lower.ir import Buffer, Load, Size, Store
from longhand.schedule.named_plan import BufferNamer, ProductWord, ToldBlocks, aten_name
from longhand.schedule.plan import Access, KernelPlan, Launch, Product, SizeOf

_MOST_BLOCKS = 9  # so many a stride steps over and is read as "so many of them"
_MOST_STEPS = 4  # so many lines a window moves by
_IN_ORDER = frozenset(
    {"view", "reshape", "_unsafe_view", "unsqueeze", "squeeze"}
)  # each element stays in its place


def blocks_before(
    kernel: KernelPlan,
    pointer: str,
    offset: Size,
    sizes: Mapping[str, Size],
    texts: Mapping[str, Code],
    is_offset: bool,
    writer: SizeWriter,
) -> Code | None:
    """The offset, or a stride, as so many times the sizes of the innermost axes of an access; None where it is none.

    Args:
        kernel: Whose parameter it is.
        pointer: Of which tensor.
        offset: Its value in one launch.
        sizes: Of that launch's axes, by name.
        texts: What tells them there.
        is_offset: Whether it is where an access begins: a stride over many blocks is one over something else.
        writer: Writes sizes.
    """
    if not isinstance(offset, int) or offset <= 0:
        return None
    in_blocks: Code | None = None
    blocks = _blocks(kernel, pointer, sizes, texts)
    if isinstance(offset, ToldBlocks):
        told = writer.written(offset.n_blocks, None)
        text = next((text for block, text in blocks if block == offset.block), None)
        if text is not None and not is_bare(told.code):
            code = writer.use(told)
            return ProductCode((code if code.is_factor else GroupedCode(code), text))
    for block, text in blocks:
        n_blocks, rest = divmod(offset, block)
        if rest == 0 and n_blocks and (is_offset or n_blocks <= _MOST_BLOCKS):
            in_blocks = ProductCode((whole_number(n_blocks), text)) if n_blocks > 1 else text
    return in_blocks


def over_others(
    kernel: KernelPlan, step: Launch, ints: Sequence[Code], texts: Mapping[str, Code]
) -> list[Code]:
    """Ints of a launch, where a stride goes over all steps of another by the words of both: ``seq * fused_qkv_dim``."""
    counts = {
        axis.name: (size, texts[axis.name])
        for axis, size in zip(kernel.axes, step.sizes, strict=True)
        if isinstance(size, int) and not is_bare(texts[axis.name]) and is_product(texts[axis.name])
    }
    in_words = list(ints)
    for place, (parameter, value) in enumerate(zip(kernel.ints, step.ints, strict=True)):
        if parameter.axis is None or not isinstance(value, int) or not is_bare(ints[place]):
            continue
        others = [
            (one.axis, stride, text)
            for one, stride, text in zip(kernel.ints, step.ints, ints, strict=True)
            if one.pointer == parameter.pointer
            and one.axis not in (None, parameter.axis)
            and isinstance(stride, int)
            and not is_bare(text)
        ]
        over = (
            ProductCode((counts[axis][1], text))
            for axis, stride, text in others
            if axis in counts and counts[axis][0] * stride == value
        )
        # A window moves by several of the lines that it looks at.
        times = (
            ProductCode((whole_number(value // stride), text))
            for _, stride, text in others
            if 0 < stride < value <= _MOST_STEPS * stride and value % stride == 0
        )
        in_words[place] = next(itertools.chain(over, times), ints[place])
    return in_words


def before_pieces(
    kernel: KernelPlan,
    step: Launch,
    ints: Sequence[Code],
    scalars: Sequence[Code],
    texts: Mapping[str, Code],
) -> list[Code]:
    """Ints of a launch, where a piece of a ``cat`` begins by the words for what is before it: ``-half * n_cols``.

    Args:
        kernel: What is launched.
        step: The launch.
        ints: How its ints are written.
        scalars: How its numbers are written, the ends of pieces among them.
        texts: How the sizes of its axes are written.
    """
    sizes = dict(zip(texts, step.sizes, strict=True))
    ends = [
        (value, text)
        for value, text in zip(step.scalars, scalars, strict=True)
        if isinstance(value, int) and value > 1 and not is_bare(text)
    ]
    in_words = list(ints)
    for place, (parameter, value) in enumerate(zip(kernel.ints, step.ints, strict=True)):
        if (
            parameter.axis is not None
            or not isinstance(value, int)
            or value >= 0
            or ints[place] != whole_number(value)
        ):
            continue
        strides = [
            (stride, text)
            for one, stride, text in zip(kernel.ints, step.ints, ints, strict=True)
            if one.pointer == parameter.pointer and one.axis is not None and not is_bare(text)
        ]
        steps = [*strides, *_blocks(kernel, parameter.pointer or "", sizes, texts)]
        told = (
            PrefixCode("-", ProductCode((end if is_product(end) else GroupedCode(end), by)))
            for before, end in ends
            for size, by in steps
            if before * size == -value
        )
        in_words[place] = next(told, ints[place])
    return in_words


def end_of_pieces(
    kernel: KernelPlan, position: int, value: float | Size, graph: BufferNamer, sizes: SizeWriter
) -> Code | None:
    """Where one of the pieces of a ``cat`` ends, if the pieces before have words: ``2 * dim``, ``dim + kv_dim``."""
    node = graph.nodes.get(getattr(kernel.body[position], "origin", ""))
    if node is None or aten_name(node) != "cat" or not isinstance(value, int):
        return None
    pieces, dim = node.args[0], node.args[1] if len(node.args) > 1 else 0
    assert isinstance(pieces, list | tuple) and isinstance(dim, int)
    end, told = 0, list[SizeText]()
    for piece in pieces:
        assert isinstance(piece, fx.Node)
        shape = piece.meta["val"].shape
        if end >= value or not isinstance(shape[dim], int):
            break
        end += shape[dim]
        told.append(sizes.written(shape[dim], sizes.words_at(piece.name, len(shape))[dim]))
    if end != value or any(size.is_number for size in told):
        return None
    terms = [(told.count(size), sizes.use(size)) for size in dict.fromkeys(told)]
    codes = [word if times == 1 else ProductCode((whole_number(times), word)) for times, word in terms]
    return functools.reduce(lambda one, other: InfixCode(one, "+", other), codes)


def end_of_filled(
    kernel: KernelPlan, position: int, value: float | Size, graph: BufferNamer, sizes: SizeWriter
) -> Code | None:
    """Where what a tensor is filled with ends, before its padding: ``seq``, ``seq + 5`` of one padded in front, too."""
    node = graph.nodes.get(getattr(kernel.body[position], "origin", ""))
    if node is None or aten_name(node) != "constant_pad_nd" or not isinstance(value, int):
        return None
    given, paddings = node.args[:2]
    assert isinstance(given, fx.Node) and isinstance(paddings, list | tuple)
    shape = given.meta["val"].shape
    ends = [
        (len(shape) - 1 - place, before)
        for place, (before, after) in enumerate(zip(paddings[::2], paddings[1::2], strict=True))
        if (before or after) and isinstance(shape[-1 - place], int) and before + shape[-1 - place] == value
    ]
    if len(ends) != 1:
        return None
    dim, before = ends[0]
    size = sizes.written(shape[dim], sizes.words_at(given.name, len(shape))[dim])
    if size.is_number or before < 0:
        return None
    return InfixCode(sizes.use(size), "+", whole_number(before)) if before else sizes.use(size)


class PieceSizes:
    """How many elements each statistic of a piece is made of, in the words of the launch that sums them."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Size, Code]] = {}  # by buffer

    def keep(self, kernel: KernelPlan, step: Launch, texts: Mapping[str, Code]) -> None:
        """Keeps what a launch sums for each tensor that it writes; `texts` has the sizes of its axes."""
        sizes = dict(zip(texts, step.sizes, strict=True))
        passed = [pointer for pointer in kernel.pointers if not pointer.scratch]
        for pointer, name in zip(passed, step.buffers, strict=True):
            axes = [axis for axis in sizes if pointer.dims and axis not in pointer.dims]
            is_said = bool(axes) and all(_is_of_words(texts[axis]) for axis in axes)
            if is_said and pointer.access is not Access.READ:
                text = product([texts[axis] for axis in axes])
                self._known[name] = math.prod(sizes[axis] for axis in axes), text

    def told(self, kernel: KernelPlan, step: Launch, position: int, value: float | Size) -> Code | None:
        """What tells a scalar that is the size of pieces that the launch is given; None for any other."""
        if getattr(kernel.body[position], "name", None) is not Role.PIECE_SIZE:
            return None
        known = [self._known[name] for name in step.buffers if name in self._known]
        return next((text for size, text in known if str(size) == str(value)), None)


def _is_of_words(size: Code) -> bool:
    """Whether a size asks no tensor for its shape, which may be gone by then."""
    if isinstance(size, ProductCode):
        return all(map(_is_of_words, size.factors))
    return isinstance(size, NameCode | LiteralCode) and "." not in str(size)


def _blocks(
    kernel: KernelPlan, pointer: str, sizes: Mapping[str, Size], texts: Mapping[str, Code]
) -> list[tuple[int, Code]]:
    """What one step of each axis of an access goes over, as far as it is walked without a gap."""
    blocks: list[tuple[int, Code]] = []
    block, said = 1, list[Code]()
    for axis in _chain(kernel, pointer):
        size, text = sizes.get(axis), texts.get(axis)
        if not isinstance(size, int) or text is None or not is_product(text) or is_bare(text):
            break
        block, said = block * size, [text, *said]
        blocks.append((block, product(said)))
    return blocks


def step_in_words(
    value: Size, buffer: Buffer, variable: str, sizes: SizeWriter, is_offset: bool, graph: BufferNamer
) -> Code:
    """Where a kernel begins to read in a tensor, or a stride of it, by itself: ``conv.stride(1)``."""
    text = (sizes.before_padding(value, buffer) if is_offset else None) or (
        sizes.text(value) if is_offset else sizes.stride(_plain(value), buffer)
    )
    if not is_bare(text) or not is_path(variable):
        return text
    if is_offset:
        doubled = [str(value * 2) == str(size) for size in buffer.shape]
        if not any(doubled):
            return text
        return InfixCode(dimension(variable, doubled.index(True)), "//", whole_number(2))
    parts = _step_over_parts(value, buffer, sizes) or _step_in_views(value, buffer, sizes, graph)
    if parts is not None:
        return parts
    steps = [str(stride) for stride in buffer.stride]
    if steps.count(str(value)) != 1 or not buffer.layout_is_known:
        return text
    return MethodCode(NameCode(variable), "stride", (whole_number(steps.index(str(value))),))


def _plain(value: Size) -> Size:
    """A stride that the tensor itself tells, whatever else does."""
    return int(value) if isinstance(value, int) else value


def _step_over_parts(stride: Size, buffer: Buffer, sizes: SizeWriter) -> Code | None:
    """The stride of a dimension that has become one with others in the buffer's shape; None where there is none."""
    dims: list[tuple[Size, str | None]] = []
    for size, word in zip(buffer.shape, sizes.words_of(buffer), strict=True):
        is_known = isinstance(word, ProductWord) and len(word.sizes) == len(word.of)
        dims += (
            zip(word.sizes, word.of, strict=True)
            if isinstance(word, ProductWord) and is_known
            else [(size, word)]
        )
    is_dense = buffer.layout_is_known and _is_dense(buffer)
    inside = next(
        (
            dims[at:]
            for at in range(1, len(dims))
            if is_dense and math.prod(size for size, _ in dims[at:]) == stride
        ),
        None,
    )
    texts = [sizes.written(size, word) for size, word in inside or () if str(size) != "1"]
    is_told = bool(texts) and not any(is_bare(text.code) for text in texts)
    return product([sizes.use(text) for text in texts]) if is_told else None


def _step_in_views(stride: Size, buffer: Buffer, sizes: SizeWriter, graph: BufferNamer) -> Code | None:
    """The stride of a dimension that the user's view gives a tensor which lies without a gap: ``width * channels``."""
    node = graph.nodes.get(buffer.name)
    if node is None or not buffer.layout_is_known or not _is_dense(buffer):
        return None
    seen = [node]
    for one in seen:  # grows
        seen += [user for user in one.users if aten_name(user) in _IN_ORDER and user.args[0] is one]
    for view in seen[1:]:
        shape = tuple(view.meta["val"].shape)
        named = list(zip(shape, sizes.words_at(view.name, len(shape)), strict=True))
        for place in range(1, len(shape)):
            inner = [(size, word) for size, word in named[place:] if str(size) != "1"]
            texts = [sizes.written(size, word) for size, word in inner]
            is_told = bool(texts) and not any(text.is_number for text in texts)
            if is_told and str(math.prod(size for size, _ in inner)) == str(stride):
                return product([sizes.use(text) for text in texts])
    return None


def _is_dense(buffer: Buffer) -> bool:
    """Whether a buffer lies in the order of its dimensions."""
    expected: Size = 1
    for size, step in zip(buffer.shape[::-1], buffer.stride[::-1], strict=True):
        if size != 1 and step != expected:
            return False
        expected = expected * size
    return True


def _chain(kernel: KernelPlan, pointer: str) -> list[str]:
    """The axes along which a tensor is walked without a gap, the innermost first."""
    for position, value in enumerate(kernel.body):
        if isinstance(value, Load | Store) and value.buffer == pointer:
            steps = dict(kernel.addresses[position].axes)
            chain: list[str] = []
            while (axis := next((name for name in steps if _is_next(steps[name], chain)), None)) is not None:
                chain.append(axis)
                steps.pop(axis)
            return chain
    return []


def _is_next(step: Product, chain: Sequence[str]) -> bool:
    """Whether an axis steps over all of those in the chain, and over nothing else."""
    sizes = [factor.axis for factor in step if isinstance(factor, SizeOf)]
    return len(sizes) == len(step) and sorted(sizes) == sorted(chain)
