"""make_d_qkv: d_qkv_out = cat(d_q, d_k, d_v); d_bias = sum(d_qkv_out), column by column.

The kernel is make_d_qkv.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

make_d_qkv = load_kernel("make_d_qkv.cpp")


def reference(d_q, d_k, d_v):
    """What make_d_qkv() must fill d_qkv_out and d_bias with."""
    d_qkv_out = torch.cat([d_q, d_k, d_v], dim=-1)
    return d_qkv_out, d_qkv_out.sum(-2, keepdim=True)
