"""cat_mul_add: total from q, rotary_cos and rotary_sin, in one kernel. Built from cat_mul_add.cpp."""

import torch

from ..runtime import load_kernel

cat_mul_add = load_kernel("cat_mul_add.cpp")


def reference(q, rotary_cos, rotary_sin, n_batches, n_groups, n_rows, n_cols, q_offset, half):
    """What cat_mul_add() must fill total with."""
    value = q[
        torch.arange(n_batches, device=q.device).view(-1, 1, 1, 1) * n_rows * n_groups * n_cols
        + torch.arange(n_groups, device=q.device).view(-1, 1, 1) * n_cols
        + torch.arange(n_rows, device=q.device).view(-1, 1) * n_groups * n_cols
        + torch.arange(n_cols, device=q.device)
    ]
    is_less = torch.arange(n_cols, device=q.device) < half
    q_value = torch.where(
        is_less,
        q[
            torch.where(
                is_less,
                torch.arange(n_batches, device=q.device).view(-1, 1, 1, 1) * n_rows * n_groups * n_cols
                + torch.arange(n_groups, device=q.device).view(-1, 1, 1) * n_cols
                + torch.arange(n_rows, device=q.device).view(-1, 1) * n_groups * n_cols
                + torch.arange(n_cols, device=q.device)
                + q_offset,
                0,
            )
        ],
        0,
    )
    q_rotated = torch.where(
        ~is_less,
        q[
            torch.where(
                ~is_less,
                torch.arange(n_batches, device=q.device).view(-1, 1, 1, 1) * n_rows * n_groups * n_cols
                + torch.arange(n_groups, device=q.device).view(-1, 1, 1) * n_cols
                + torch.arange(n_rows, device=q.device).view(-1, 1) * n_groups * n_cols
                + torch.arange(n_cols, device=q.device)
                + -1 * q_offset,
                0,
            )
        ],
        0,
    )
    return value * rotary_cos + torch.where(is_less, -q_value, q_rotated) * rotary_sin
