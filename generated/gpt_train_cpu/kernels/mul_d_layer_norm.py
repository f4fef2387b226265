"""mul_d_layer_norm: d_ln_f, d_bias and d_weight by mul and sum in one pass, column by column.

The kernel is mul_d_layer_norm.cpp, built when it changes.
"""

from ..runtime import load_kernel

mul_d_layer_norm = load_kernel("mul_d_layer_norm.cpp")


def reference(gpt_targets, d_cross_entropy_loss, gpt):
    """What mul_d_layer_norm() must fill d_ln_f, d_bias and d_weight with."""
    d_ln_f = gpt_targets * d_cross_entropy_loss
    return d_ln_f, d_ln_f.sum(-2, keepdim=True), (d_ln_f * gpt).sum(-2, keepdim=True)
