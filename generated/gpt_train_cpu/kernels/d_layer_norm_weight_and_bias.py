"""d_layer_norm_weight_and_bias: d_bias = sum(d_ln_2); d_weight = sum(d_ln_2 * normalized).

The kernel is d_layer_norm_weight_and_bias.cpp, built when it changes.
"""

from ..runtime import load_kernel

d_layer_norm_weight_and_bias = load_kernel("d_layer_norm_weight_and_bias.cpp")


def reference(d_ln_2, normalized):
    """What d_layer_norm_weight_and_bias() must fill d_bias and d_weight with."""
    return d_ln_2.sum(-2, keepdim=True), (d_ln_2 * normalized).sum(-2, keepdim=True)
