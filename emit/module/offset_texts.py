"""Where a kernel begins to read, and how far it steps, by the words of sizes: ``2 * num_heads * head_dim``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from longhand.capture.graph import Role
from longhand.emit.text.sizes import SizeWriter
from longhand.emit.text.told_sizes import is_bare
from longhand.lower.ir import Buffer, Load, Size, Store
from longhand.schedule.named_plan import ProductWord
from longhand.schedule.plan import Access, KernelPlan, Launch, Product, SizeOf

_MOST_BLOCKS = 9  # so many a stride steps over and is read as "so many of them"
_MOST_STEPS = 4  # so many lines a window moves by
_SUMS = frozenset("+-/%")  # in what is no factor without parentheses
_READS = _SUMS | {"."}  # in what is one and asks a tensor for it


def blocks_before(
    kernel: KernelPlan,
    pointer: str,
    offset: Size,
    sizes: Mapping[str, Size],
    texts: Mapping[str, str],
    is_offset: bool,
) -> str | None:
    """The offset, or a stride, as so many times the sizes of the innermost axes of an access; None where it is none.

    Args:
        kernel: Whose parameter it is.
        pointer: Of which tensor.
        offset: Its value in one launch.
        sizes: Of that launch's axes, by name.
        texts: How they are written there.
        is_offset: Whether it is where an access begins: a stride over many blocks is one over something else.
    """
    if not isinstance(offset, int) or offset <= 0:
        return None
    found: str | None = None
    for block, text in _blocks(kernel, pointer, sizes, texts):
        n_blocks, rest = divmod(offset, block)
        if rest == 0 and n_blocks and (is_offset or n_blocks <= _MOST_BLOCKS):
            found = f"{n_blocks} * {text}" if n_blocks > 1 else text
    return found


def over_others(kernel: KernelPlan, step: Launch, ints: Sequence[str], texts: Mapping[str, str]) -> list[str]:
    """Ints of a launch, where a stride goes over all steps of another by the words of both: ``seq * fused_qkv_dim``."""
    counts = {
        axis.name: (size, texts[axis.name])
        for axis, size in zip(kernel.axes, step.sizes, strict=True)
        if isinstance(size, int) and not is_bare(texts[axis.name]) and _SUMS.isdisjoint(texts[axis.name])
    }
    found = list(ints)
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
            f"{counts[axis][1]} * {text}"
            for axis, stride, text in others
            if axis in counts and counts[axis][0] * stride == value
        )
        # A window moves by several of the lines that it looks at.
        times = (
            f"{value // stride} * {text}"
            for _, stride, text in others
            if 0 < stride < value <= _MOST_STEPS * stride and value % stride == 0
        )
        found[place] = next(itertools.chain(over, times), ints[place])
    return found


def before_pieces(
    kernel: KernelPlan, step: Launch, ints: Sequence[str], scalars: Sequence[str], texts: Mapping[str, str]
) -> list[str]:
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
    found = list(ints)
    for place, (parameter, value) in enumerate(zip(kernel.ints, step.ints, strict=True)):
        if (
            parameter.axis is not None
            or not isinstance(value, int)
            or value >= 0
            or ints[place] != str(value)
        ):
            continue
        strides = [
            (stride, text)
            for one, stride, text in zip(kernel.ints, step.ints, ints, strict=True)
            if one.pointer == parameter.pointer and one.axis is not None and not is_bare(text)
        ]
        steps = [*strides, *_blocks(kernel, parameter.pointer or "", sizes, texts)]
        told = (
            f"-{end if _SUMS.isdisjoint(end) else f'({end})'} * {by}"
            for before, end in ends
            for size, by in steps
            if before * size == -value
        )
        found[place] = next(told, ints[place])
    return found


class PieceSizes:
    """How many elements each statistic of a piece is made of, in the words of the launch that sums them."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Size, str]] = {}  # by buffer

    def keep(self, kernel: KernelPlan, step: Launch, texts: Mapping[str, str]) -> None:
        """Keeps what a launch sums for each tensor that it writes; `texts` has the sizes of its axes."""
        sizes = dict(zip(texts, step.sizes, strict=True))
        passed = [pointer for pointer in kernel.pointers if not pointer.scratch]
        for pointer, name in zip(passed, step.buffers, strict=True):
            axes = [axis for axis in sizes if pointer.dims and axis not in pointer.dims]
            is_plain = all(_READS.isdisjoint(texts[axis]) for axis in axes)
            if (
                axes and is_plain and pointer.access is not Access.READ
            ):  # a tensor's shape may be gone by then
                text = " * ".join(texts[axis] for axis in axes)
                self._known[name] = math.prod(sizes[axis] for axis in axes), text

    def told(self, kernel: KernelPlan, step: Launch, position: int, value: float | Size) -> str | None:
        """The text for a scalar that is the size of pieces that the launch is given; None for any other."""
        if getattr(kernel.body[position], "name", None) is not Role.PIECE_SIZE:
            return None
        known = [self._known[name] for name in step.buffers if name in self._known]
        return next((text for size, text in known if str(size) == str(value)), None)


def _blocks(
    kernel: KernelPlan, pointer: str, sizes: Mapping[str, Size], texts: Mapping[str, str]
) -> list[tuple[int, str]]:
    """What one step of each axis of an access goes over, as far as it is walked without a gap."""
    found: list[tuple[int, str]] = []
    block, said = 1, list[str]()
    for axis in _chain(kernel, pointer):
        size, text = sizes.get(axis), texts.get(axis, "")
        if not isinstance(size, int) or not _SUMS.isdisjoint(text) or is_bare(text):
            break
        block, said = block * size, [text, *said]
        found.append((block, " * ".join(said)))
    return found


def step_over_parts(stride: Size, buffer: Buffer, sizes: SizeWriter) -> str | None:
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
    texts = [sizes.text(size, word) for size, word in inside or () if str(size) != "1"]
    return " * ".join(texts) if texts and not any(map(is_bare, texts)) else None


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
