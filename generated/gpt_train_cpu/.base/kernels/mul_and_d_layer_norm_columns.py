"""mul_and_d_layer_norm_columns: d_ln_f = gpt_targets * d_cross_entropy_loss; d_bias = sum(d_ln_f).

The kernel is mul_and_d_layer_norm_columns.cpp, built when it changes.
"""

from ..runtime import load_kernel

mul_and_d_layer_norm_columns = load_kernel("mul_and_d_layer_norm_columns.cpp")


def reference(gpt_targets, d_cross_entropy_loss):
    """What mul_and_d_layer_norm_columns() must fill d_ln_f and d_bias with."""
    d_ln_f = gpt_targets * d_cross_entropy_loss
    return d_ln_f, d_ln_f.sum(-2, keepdim=True)
