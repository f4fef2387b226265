"""cat_and_column_sum: cat and sum in one pass, from d_q_contiguous, d_k_contiguous and d_v_contiguous to
d_qkv and d_bias, column by column.

The kernel is cat_and_column_sum.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

cat_and_column_sum = load_kernel("cat_and_column_sum.cpp")


def reference(d_q_contiguous, d_k_contiguous, d_v_contiguous):
    """What cat_and_column_sum() must fill d_qkv and d_bias with."""
    d_qkv = torch.cat([d_q_contiguous, d_k_contiguous, d_v_contiguous], dim=-1)
    return d_qkv, d_qkv.sum(-2, keepdim=True)
