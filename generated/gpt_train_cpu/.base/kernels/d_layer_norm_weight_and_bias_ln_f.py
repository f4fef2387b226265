"""d_layer_norm_weight_and_bias_ln_f: d_weight = sum(d_ln_f * normalized); d_bias = sum(d_ln_f).

The kernel is d_layer_norm_weight_and_bias_ln_f.cpp, built when it changes.
"""

from ..runtime import load_kernel

d_layer_norm_weight_and_bias_ln_f = load_kernel("d_layer_norm_weight_and_bias_ln_f.cpp")


def reference(d_ln_f, normalized):
    """What d_layer_norm_weight_and_bias_ln_f() must fill d_weight and d_bias with."""
    return (d_ln_f * normalized).sum(-2, keepdim=True), d_ln_f.sum(-2, keepdim=True)
