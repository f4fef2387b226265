"""cat_sum: d_qkv and d_bias by cat and sum in one pass, column by column.

The kernel is cat_sum.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

cat_sum = load_kernel("cat_sum.cpp")


def reference(
    d_q_contiguous,
    d_k_contiguous,
    d_v_contiguous,
    n_rows,
    n_cols,
    d_q_contiguous_stride,
    d_k_contiguous_stride,
    d_k_contiguous_offset,
    d_v_contiguous_stride,
    d_v_contiguous_offset,
    boundary,
    d_linear_by,
):
    """What cat_sum() must fill d_qkv and d_bias with."""
    col = torch.arange(n_cols, device=d_q_contiguous.device)
    value = col
    is_less = value < boundary
    row = torch.arange(n_rows, device=d_q_contiguous.device).view(-1, 1)
    at = row * d_q_contiguous_stride + col
    attn_is_less = value < d_linear_by
    at_at = row * d_k_contiguous_stride + col
    d_k_contiguou = torch.where(
        ~is_less & attn_is_less,
        d_k_contiguous[torch.where(~is_less & attn_is_less, at_at + d_k_contiguous_offset, 0)],
        0,
    )
    at_index = row * d_v_contiguous_stride + col
    d_v_contiguou = torch.where(
        ~attn_is_less, d_v_contiguous[torch.where(~attn_is_less, at_index + d_v_contiguous_offset, 0)], 0
    )
    d_qkv = torch.where(
        is_less,
        torch.where(is_less, d_q_contiguous[torch.where(is_less, at, 0)], 0),
        torch.where(attn_is_less, d_k_contiguou, d_v_contiguou),
    )
    return d_qkv, d_qkv.sum(-2, keepdim=True)
