"""Where a kernel begins to read, and how far it steps, by the words of sizes: ``2 * num_heads * head_dim``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from longhand.emit.text.sizes import SizeWriter
from longhand.emit.text.told_sizes import is_bare
from longhand.lower.ir import Buffer, Load, Size, Store
from longhand.schedule.named_plan import ProductWord
from longhand.schedule.plan import KernelPlan, Product, SizeOf

_SUMS = frozenset("+-/%")  # in what is no factor without parentheses


def blocks_before(
    kernel: KernelPlan, pointer: str, offset: Size, sizes: Mapping[str, Size], texts: Mapping[str, str]
) -> str | None:
    """The offset as so many times the sizes of the innermost axes of an access; None where it is none.

    Args:
        kernel: Whose parameter it is.
        pointer: Of which tensor.
        offset: Its value in one launch.
        sizes: Of that launch's axes, by name.
        texts: How they are written there.
    """
    chain = _chain(kernel, pointer)
    if not isinstance(offset, int) or offset <= 0 or not chain:
        return None
    found: str | None = None
    block, said = 1, list[str]()
    for axis in chain:
        size, text = sizes.get(axis), texts.get(axis, "")
        if not isinstance(size, int) or not _SUMS.isdisjoint(text) or is_bare(text):
            break
        block, said = block * size, [text, *said]
        n_blocks, rest = divmod(offset, block)
        if rest == 0 and n_blocks:
            found = " * ".join([str(n_blocks)] * (n_blocks > 1) + said)
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
