"""d_layer_norm_bias: d_ln_f = unscaled_d_ln_f * d_loss; d_bias = sum(d_ln_f), column by column.

The kernel is d_layer_norm_bias.cpp, built when it changes.
"""

from ..runtime import load_kernel

d_layer_norm_bias = load_kernel("d_layer_norm_bias.cpp")


def reference(unscaled_d_ln_f, d_loss):
    """What d_layer_norm_bias() must fill d_ln_f and d_bias with."""
    d_ln_f = unscaled_d_ln_f * d_loss
    return d_ln_f, d_ln_f.sum(-2, keepdim=True)
