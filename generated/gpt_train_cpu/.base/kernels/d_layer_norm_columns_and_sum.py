"""d_layer_norm_columns_and_sum: d_bias = sum(d_ln_2); d_weight = sum(d_ln_2 * ln_2), column by column.

The kernel is d_layer_norm_columns_and_sum.cpp, built when it changes.
"""

from ..runtime import load_kernel

d_layer_norm_columns_and_sum = load_kernel("d_layer_norm_columns_and_sum.cpp")


def reference(d_ln_2, ln_2):
    """What d_layer_norm_columns_and_sum() must fill d_bias and d_weight with."""
    return d_ln_2.sum(-2, keepdim=True), (d_ln_2 * ln_2).sum(-2, keepdim=True)
