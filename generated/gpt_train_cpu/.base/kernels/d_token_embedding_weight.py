"""d_token_embedding_weight: d_token_embedding = unscaled_d_token_embedding * d_loss +
d_token_embedding_from_lookup.

The kernel is d_token_embedding_weight.cpp, built when it changes.
"""

from ..runtime import load_kernel

d_token_embedding_weight = load_kernel("d_token_embedding_weight.cpp")


def reference(unscaled_d_token_embedding, d_loss, d_token_embedding_from_lookup):
    """What d_token_embedding_weight() must fill d_token_embedding with."""
    return unscaled_d_token_embedding * d_loss + d_token_embedding_from_lookup
