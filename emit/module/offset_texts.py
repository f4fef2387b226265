"""Where a kernel begins to read, in whole blocks of what it walks without a gap: ``2 * num_heads * head_dim``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from longhand.lower.ir import Load, Size, Store
from longhand.schedule.kernels.address_terms import Product, SizeOf
from longhand.schedule.plan import KernelPlan

_MOST_BLOCKS = 9
_FACTORS = re.compile(r"[\w.\[\]]+( \* [\w.\[\]]+)*")


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
        if not isinstance(size, int) or not _FACTORS.fullmatch(text) or text.isdecimal():
            break
        block, said = block * size, [text, *said]
        n_blocks, rest = divmod(offset, block)
        if rest == 0 and 0 < n_blocks <= _MOST_BLOCKS:
            found = " * ".join([str(n_blocks)] * (n_blocks > 1) + said)
    return found


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
