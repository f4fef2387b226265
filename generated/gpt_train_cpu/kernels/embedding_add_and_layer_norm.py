"""embedding_add_and_layer_norm: x = token_embedding[tokens] + position_embedding; normed = layer_norm(x).

The kernel is embedding_add_and_layer_norm.cpp, built when it changes.
"""

import torch.nn.functional as F

from ..runtime import load_kernel

embedding_add_and_layer_norm = load_kernel("embedding_add_and_layer_norm.cpp")


def reference(tokens, token_embedding, position_embedding, weight, bias, dim, eps):
    """What embedding_add_and_layer_norm() must fill x and normed with."""
    x = token_embedding.view(-1, dim)[tokens.squeeze(-1)] + position_embedding
    return x, F.layer_norm(x, weight.shape, weight, bias, eps)
