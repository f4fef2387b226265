"""d_layer_norm_weight: d_weight = sum(d_ln_f * normalized), column by column.

The kernel is d_layer_norm_weight.cpp, built when it changes.
"""

from ..runtime import load_kernel

d_layer_norm_weight = load_kernel("d_layer_norm_weight.cpp")


def reference(d_ln_f, normalized):
    """What d_layer_norm_weight() must fill d_weight with."""
    return (d_ln_f * normalized).sum(-2, keepdim=True)
