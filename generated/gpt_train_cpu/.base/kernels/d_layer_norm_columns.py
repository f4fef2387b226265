"""d_layer_norm_columns: d_weight = sum(d_ln_f * ln_f), column by column.

The kernel is d_layer_norm_columns.cpp, built when it changes.
"""

from ..runtime import load_kernel

d_layer_norm_columns = load_kernel("d_layer_norm_columns.cpp")


def reference(d_ln_f, ln_f):
    """What d_layer_norm_columns() must fill d_weight with."""
    return (d_ln_f * ln_f).sum(-2, keepdim=True)
