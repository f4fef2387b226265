"""``torch.equal`` and ``torch.allclose`` as the reductions that they are, so that a graph can have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from longhand.capture import torch_private


def _equal(left: torch.Tensor, right: torch.Tensor) -> Any:
    if left.dtype is not right.dtype or left.device != right.device:
        return torch.equal(left, right)  # which raises
    if left.shape != right.shape:
        return False
    return (left == right).all().item()


def _allclose(*args: Any, **kwargs: Any) -> Any:
    return torch.isclose(*args, **kwargs).all().item()


_WRITTEN_OUT: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.equal: _equal,
    torch.Tensor.equal: _equal,
    torch.allclose: _allclose,
    torch.Tensor.allclose: _allclose,
}


class WrittenOutTruth(torch_private.TorchFunctionMode):
    """While on, comparisons of whole tensors are traced as what they are made of: ATen's own call has no symbol."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Calls the function, or what it is made of."""
        return _WRITTEN_OUT.get(func, func)(*args, **(kwargs or {}))
