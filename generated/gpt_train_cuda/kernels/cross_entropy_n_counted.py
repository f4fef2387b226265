"""cross_entropy_n_counted: n_counted = sum(targets != -100).

    LanguageModel.forward    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

Reads targets once, writes n_counted once.
"""

import triton
import triton.language as tl

from ..runtime import fast_launch, next_power_of_2

IGNORE_INDEX = tl.constexpr(-100)

# Tunables.
NUM_WARPS = 8


@fast_launch
@triton.jit
def cross_entropy_n_counted_kernel(
    targets_ptr,  # int64 (n_elements,)
    n_counted_ptr,  # int64, one element
    n_elements: tl.constexpr,
    COLS: tl.constexpr,  # n_elements, rounded up to a power of two
):
    """The only program keeps all in registers."""
    i = tl.arange(0, COLS)
    in_cols = i < n_elements

    targets = tl.load(targets_ptr + i, mask=in_cols, other=0)
    counts = targets != IGNORE_INDEX
    n_counted = tl.sum(tl.where(in_cols, counts.to(tl.int64), 0), axis=0)
    tl.store(n_counted_ptr, n_counted)


def cross_entropy_n_counted(targets, n_counted, n_elements):
    """Fill n_counted."""
    cols = next_power_of_2(n_elements)
    cross_entropy_n_counted_kernel[(1,)](
        targets,
        n_counted,
        n_elements,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(targets):
    """What cross_entropy_n_counted() must fill n_counted with."""
    return (targets != -100).long().sum(-1, keepdim=True)
