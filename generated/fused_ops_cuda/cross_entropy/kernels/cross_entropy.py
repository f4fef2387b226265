"""cross_entropy: losses = cross_entropy(logits, labels), row by row.

    cross_entropy    return F.cross_entropy(logits.float(), labels, reduction="none")

Reads labels and logits once (logits at labels twice), writes losses once.
"""

import torch.nn.functional as F
import triton
import triton.language as tl

from ..runtime import fast_launch

LOWEST = tl.constexpr(-3.4028234663852886e38)  # of float32; unlike -inf, minus itself it is 0
IGNORE_INDEX = tl.constexpr(-100)

# Tunables.
COLS = 1024  # columns at a time
NUM_WARPS = 16
NUM_STAGES = 2


@fast_launch
@triton.jit
def cross_entropy_kernel(
    logits_ptr,  # bf16 (n_rows, n_cols)
    labels_ptr,  # int64 (n_rows,)
    losses_ptr,  # float32 (n_rows,)
    n_cols: tl.constexpr,
    COLS: tl.constexpr,
):
    """Each program walks one row, COLS columns at a time; arithmetic in float32.

    Rows may be longer than registers hold.
    """
    row = tl.program_id(0)
    row_start = row * n_cols
    lane = tl.arange(0, COLS)

    running_max = tl.full([COLS], LOWEST, tl.float32)
    running_sum = tl.zeros([COLS], tl.float32)
    for start in range(0, n_cols, COLS):
        col = start + lane
        in_cols = col < n_cols
        logits = tl.load(logits_ptr + row_start + col, mask=in_cols, other=float("-inf")).to(tl.float32)
        new_max = tl.maximum(running_max, logits)
        running_sum = running_sum * tl.exp(running_max - new_max) + tl.exp(logits - new_max)
        running_max = new_max

    row_max = tl.max(running_max, axis=0)
    denominator = tl.sum(running_sum * tl.exp(running_max - row_max), axis=0)

    label = tl.load(labels_ptr + row)
    counts = label != IGNORE_INDEX
    log_denominator = tl.log(denominator)
    is_class = (label >= 0) & (label < n_cols)

    target_logit = tl.load(logits_ptr + row_start + label, mask=is_class, other=float("nan")).to(tl.float32)
    loss = log_denominator - (target_logit - row_max)
    tl.store(losses_ptr + row, tl.where(counts, loss, 0.0))


def cross_entropy(logits, labels, losses, n_rows, n_cols):
    """Fill losses."""
    cross_entropy_kernel[(n_rows,)](
        logits,
        labels,
        losses,
        n_cols,
        COLS=COLS,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )


def reference(logits, labels):
    """What cross_entropy() must fill losses with."""
    return F.cross_entropy(logits, labels.squeeze(-1), reduction="none").unsqueeze(-1)
