"""cat_and_column_sum: d_qkv = cat(d_q, d_k, d_v); d_bias = sum(d_qkv), column by column.

The kernel is cat_and_column_sum.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

cat_and_column_sum = load_kernel("cat_and_column_sum.cpp")


def reference(d_q, d_k, d_v):
    """What cat_and_column_sum() must fill d_qkv and d_bias with."""
    d_qkv = torch.cat([d_q, d_k, d_v], dim=-1)
    return d_qkv, d_qkv.sum(-2, keepdim=True)
