"""mul_add: mul and add in one pass, from gpt_x and token_embedding to d_weight and d_weight_contiguous.

The kernel is mul_add.cpp, built when it changes.
"""

from ..runtime import load_kernel

mul_add = load_kernel("mul_add.cpp")


def reference(gpt_x, d_cross_entropy_loss, token_embedding):
    """What mul_add() must fill d_weight and d_weight_contiguous with."""
    d_weight_contiguous = gpt_x * d_cross_entropy_loss + token_embedding
    return d_weight_contiguous, d_weight_contiguous
