"""rotary: rotary_q by cat, mul and add in one pass.

The kernel is rotary.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

rotary = load_kernel("rotary.cpp")


def reference(q, rotary_cos, rotary_sin, n_batches, n_groups, n_rows, n_cols, q_offset, half):
    """What rotary() must fill rotary_q with."""
    batch = torch.arange(n_batches, device=q.device).view(-1, 1, 1, 1)
    group = torch.arange(n_groups, device=q.device).view(-1, 1, 1)
    row = torch.arange(n_rows, device=q.device).view(-1, 1)
    col = torch.arange(n_cols, device=q.device)
    at = batch * n_groups * n_rows * n_cols + group * n_rows * n_cols + row * n_cols + col
    in_first_half = col < half
    right = torch.where(~in_first_half, q[torch.where(~in_first_half, at + -1 * q_offset, 0)], 0)
    rotated = torch.where(
        in_first_half, -torch.where(in_first_half, q[torch.where(in_first_half, at + q_offset, 0)], 0), right
    )
    return q[at] * rotary_cos + rotated * rotary_sin
