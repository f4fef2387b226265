"""What ``tensor.data`` gave: a write through it is no write of the tensor's for autograd, but it is one for capture."""

from __future__ import annotations

import torch

from longhand.capture import torch_private

__all__ = ["DataViews"]


class DataViews:
    """The tensors that ``data`` gave, each with the one that it was asked of."""

    def __init__(self) -> None:
        self._pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._n_writes: list[int] = []  # of each, those that are counted already

    def follow(self, seen: torch.Tensor, fake: torch.Tensor) -> None:
        """`seen` is the ``data`` of `fake`."""
        self._pairs.append((seen, fake))
        self._n_writes.append(0)

    def count_writes(self) -> None:
        """Tensors count what the last call wrote through their ``data``: capture asks them what was written."""
        for place, (seen, fake) in reversed([*enumerate(self._pairs)]):
            n_new = torch_private.version(seen) - self._n_writes[place]
            if n_new > 0:
                torch_private.set_version(fake, torch_private.version(fake) + n_new)
                self._n_writes[place] += n_new
