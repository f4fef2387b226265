"""d_qkv_and_bias: d_qkv = cat(d_q, d_k, d_v); d_bias = sum(d_qkv), column by column.

The kernel is d_qkv_and_bias.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

d_qkv_and_bias = load_kernel("d_qkv_and_bias.cpp")


def reference(d_q, d_k, d_v):
    """What d_qkv_and_bias() must fill d_qkv and d_bias with."""
    d_qkv = torch.cat([d_q, d_k, d_v], dim=-1)
    return d_qkv, d_qkv.sum(-2, keepdim=True)
