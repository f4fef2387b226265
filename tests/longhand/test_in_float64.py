"""The original in float64: what it makes without saying a type is float64, too."""

from __future__ import annotations

import torch

from longhand.verify.original import InFloat64


def messages_added_up(messages: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.zeros(3, messages.shape[1]).index_add(0, target, messages)


def test_tensors_of_the_default_type_are_float64() -> None:
    messages, target = torch.randn(5, 2, dtype=torch.float64), torch.tensor([0, 1, 2, 1, 0])
    found = InFloat64(messages_added_up)(messages, target)
    assert found.dtype is torch.float64
    assert torch.get_default_dtype() is torch.float32
