"""mul_add: d_token_embedding = unscaled_d_token_embedding * d_loss + d_token_embedding_from_lookup.

The kernel is mul_add.cpp, built when it changes.
"""

from ..runtime import load_kernel

mul_add = load_kernel("mul_add.cpp")


def reference(unscaled_d_token_embedding, d_loss, d_token_embedding_from_lookup):
    """What mul_add() must fill d_token_embedding with."""
    return unscaled_d_token_embedding * d_loss + d_token_embedding_from_lookup
