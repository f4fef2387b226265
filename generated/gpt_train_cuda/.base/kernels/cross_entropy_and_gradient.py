"""cross_entropy_and_gradient: losses and unscaled_d_logits, row by row:
    losses = cross_entropy(logits, targets)
    unscaled_d_logits = d_cross_entropy(logits, targets, n_counted)

    LanguageModel.forward    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

Reads targets once and logits once from memory and again from the cache, writes losses and unscaled_d_logits
once; n_counted stays in cache.
"""

import torch
import triton
import triton.language as tl

from ..runtime import fast_launch

LOWEST = tl.constexpr(-3.4028234663852886e38)  # of float32; unlike -inf, minus itself it is 0
IGNORE_INDEX = tl.constexpr(-100)

# Tunables.
COLS = 4096  # columns at a time
NUM_WARPS = 16
NUM_STAGES = 2


@fast_launch
@triton.jit
def cross_entropy_and_gradient_kernel(
    logits_ptr,  # bf16, (n_rows, n_cols) by strides
    targets_ptr,  # int64 (n_rows,)
    n_counted_ptr,  # int64, one element
    losses_ptr,  # float32 (n_rows,)
    unscaled_d_logits_ptr,  # bf16, (n_rows, n_cols), rows unscaled_d_logits_stride apart
    n_cols: tl.constexpr,
    logits_stride,
    unscaled_d_logits_stride,
    COLS: tl.constexpr,
):
    """Each program walks one row, COLS columns at a time; arithmetic in float32.

    Rows may be longer than registers hold. Each loop reads them again.
    """
    row = tl.program_id(0)
    row_start = row * logits_stride
    unscaled_d_logits_start = row * unscaled_d_logits_stride
    lane = tl.arange(0, COLS)

    target = tl.load(targets_ptr + row)

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
    counts = target != IGNORE_INDEX
    log_denominator = tl.log(denominator)
    is_class = (target >= 0) & (target < n_cols)

    target_logit = tl.load(logits_ptr + row_start + target, mask=is_class, other=float("nan")).to(tl.float32)
    loss = log_denominator - (target_logit - row_max)

    n_counted = tl.load(n_counted_ptr)
    tl.store(losses_ptr + row, tl.where(counts, loss, 0.0))

    for start in range(0, n_cols, COLS):
        col = start + lane
        in_cols = col < n_cols
        logits = tl.load(logits_ptr + row_start + col, mask=in_cols, other=float("-inf")).to(tl.float32)
        numerator = tl.exp(logits - row_max)
        is_target = col == target
        probability = numerator / denominator
        excess = tl.where(is_target, probability - 1.0, probability)
        tl.store(
            unscaled_d_logits_ptr + unscaled_d_logits_start + col,
            tl.where(counts, excess / n_counted.to(tl.float32), 0.0),
            mask=in_cols,
        )


def cross_entropy_and_gradient(
    logits,
    targets,
    n_counted,
    losses,
    unscaled_d_logits,
    n_rows,
    n_cols,
    logits_stride,
    unscaled_d_logits_stride,
):
    """Fill losses and unscaled_d_logits."""
    cross_entropy_and_gradient_kernel[(n_rows,)](
        logits,
        targets,
        n_counted,
        losses,
        unscaled_d_logits,
        n_cols,
        logits_stride,
        unscaled_d_logits_stride,
        COLS=COLS,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )


def reference(logits, targets, n_counted, n_rows, n_cols, logits_stride):
    """What cross_entropy_and_gradient() must fill losses and unscaled_d_logits with."""
    counts = targets != -100
    row = torch.arange(n_rows, device=logits.device).view(-1, 1)
    col = torch.arange(n_cols, device=logits.device)
    at = row * logits_stride + col
    logit = logits[at]
    row_max = logit.amax(-1, keepdim=True)
    numerator = torch.exp(logit - row_max)
    denominator = numerator.sum(-1, keepdim=True)
    is_class = (targets >= 0) & (targets < n_cols)
    place = torch.where(is_class, row * logits_stride + targets, 0)
    target_logit = torch.where(is_class, logits[place], torch.nan)
    probability = numerator / denominator
    unscaled_d_logits = torch.where(
        counts, torch.where(col == targets, probability - 1.0, probability) / n_counted.float(), 0.0
    )
    return torch.where(counts, torch.log(denominator) - (target_logit - row_max), 0.0), unscaled_d_logits
