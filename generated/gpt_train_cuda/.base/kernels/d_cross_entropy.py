"""d_cross_entropy: ne = targets != -100; sums = sum(ne), row by row.

    LanguageModel.forward    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

Reads targets once, writes ne and sums once.
"""

import triton
import triton.language as tl

from ..runtime import fast_launch, next_power_of_2

SPECIAL_VALUE = tl.constexpr(-100)

# Tunables.
ELEMENTS = 8192  # per program: short rows share one
NUM_WARPS = 8


@fast_launch
@triton.jit
def d_cross_entropy_kernel(
    targets_ptr,  # int64 (n_elements,)
    ne_ptr,  # bool (n_elements,)
    sums_ptr,  # int64, one element
    n_elements: tl.constexpr,
    COLS: tl.constexpr,  # n_elements, rounded up to a power of two
):
    """The only program keeps all in registers."""
    i = tl.arange(0, COLS)
    in_cols = i < n_elements

    targets = tl.load(targets_ptr + i, mask=in_cols, other=0)

    ne = targets != SPECIAL_VALUE
    sums = tl.sum(tl.where(in_cols, ne.to(tl.int64), 0), axis=0)

    tl.store(ne_ptr + i, ne, mask=in_cols)
    tl.store(sums_ptr, sums)


def d_cross_entropy(targets, ne, sums, n_elements):
    """Fill ne and sums."""
    cols = next_power_of_2(n_elements)
    d_cross_entropy_kernel[(1,)](
        targets,
        ne,
        sums,
        n_elements,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(targets):
    """What d_cross_entropy() must fill ne and sums with."""
    ne = targets != -100
    return ne, ne.long().sum(-1, keepdim=True)
