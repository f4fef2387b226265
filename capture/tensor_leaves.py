"""The tensors in nested containers."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree


def tensors_in(tree: Any) -> list[torch.Tensor]:
    """Every tensor of what a call is given or returns, in order."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
