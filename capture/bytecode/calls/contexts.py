"""What the forward of a torch.autograd.Function is called with where no gradients flow: interpreted like user code."""

from __future__ import annotations

from typing import Any

__all__ = ["ForwardContext"]


class ForwardContext:
    """Keeps what forward saves; nobody will ask for it."""

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value
