"""cross_entropy: loss = sum(losses) / sum(targets != -100).

    LanguageModel.forward    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

Reads losses and targets once, writes loss once.
"""

import triton
import triton.language as tl

from ..runtime import fast_launch, next_power_of_2

IGNORE_INDEX = tl.constexpr(-100)

# Tunables.
NUM_WARPS = 8


@fast_launch
@triton.jit
def cross_entropy_kernel(
    losses_ptr,  # float32 (n_elements,)
    targets_ptr,  # int64 (n_elements,)
    loss_ptr,  # bf16, one element
    n_elements: tl.constexpr,
    COLS: tl.constexpr,  # n_elements, rounded up to a power of two
):
    """The only program keeps all in registers; arithmetic in float32."""
    i = tl.arange(0, COLS)
    in_cols = i < n_elements

    losses = tl.load(losses_ptr + i, mask=in_cols, other=0.0)
    targets = tl.load(targets_ptr + i, mask=in_cols, other=0)

    total = tl.sum(losses, axis=0)
    counts = targets != IGNORE_INDEX
    n_counted = tl.sum(tl.where(in_cols, counts.to(tl.float32), 0.0), axis=0)
    tl.store(loss_ptr, total / n_counted)


def cross_entropy(losses, targets, loss, n_elements):
    """Fill loss."""
    cols = next_power_of_2(n_elements)
    cross_entropy_kernel[(1,)](
        losses,
        targets,
        loss,
        n_elements,
        COLS=cols,
        num_warps=NUM_WARPS,
    )


def reference(losses, targets):
    """What cross_entropy() must fill loss with."""
    return losses.sum(-1, keepdim=True) / (targets != -100).float().sum(-1, keepdim=True)
