"""What the forward of a torch.autograd.Function is called with: interpreted like user code."""

from __future__ import annotations

from typing import Any

__all__ = ["ForwardContext"]


class ForwardContext:
    """Keeps what forward tells autograd, and what it leaves for backward."""

    saved_tensors: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    dirty: tuple[Any, ...] = ()
    materialize_grads = True

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """For forward-mode derivatives, which nobody asks for."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.non_differentiable = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        self.dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value
