"""Sizes that the caller named: dynamic_shapes says which may differ, between what bounds, and which are one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.export import Dim

from longhand.capture import torch_private
from longhand.capture.bytecode.entry.shapes import DynamicSizes
from longhand.errors import CaptureError

__all__ = ["MarkedSizes"]


class MarkedSizes(DynamicSizes):
    """The sizes that dynamic_shapes names are symbolic, and no others.

    Args:
        marked: For each tensor's identity, its marked dimensions and what dynamic_shapes says of them.
    """

    def __init__(self, marked: Mapping[int, Mapping[int, Any]]) -> None:
        super().__init__(equal_sizes_are_one=False)
        self.marked = marked
        self._symbols: dict[str, Any] = {}

    def static_dims(self, name: str, value: torch.Tensor, *, is_held: bool = False) -> tuple[bool, ...]:
        dims = self.marked.get(id(value), {})
        return tuple(dim not in dims and dim - value.dim() not in dims for dim in range(value.dim()))

    def fake(self, mode: torch_private.FakeTensorMode, value: torch.Tensor, static: tuple[bool, ...]) -> Any:
        """The fake tensor, its symbols between the bounds that were given.

        Raises:
            CaptureError: The tensor's own size is not.
        """
        made = super().fake(mode, value, static)
        for dim, mark in self.marked.get(id(value), {}).items():
            self._bound(made.shape[dim], value.shape[dim], mark)
        return made

    def _bound(self, size: Any, example: int, mark: Any) -> None:
        lower, upper = (_number(getattr(mark, name, None)) for name in ("min", "max"))
        if (lower is not None and example < lower) or (upper is not None and example > upper):
            raise CaptureError(
                f"dynamic_shapes says {mark}, but the example has size {example} there.",
                hint="Give an example between the bounds.",
            )
        if not isinstance(size, torch.SymInt):
            return
        torch_private.bound_symbol(size, lower, upper)
        name = getattr(mark, "__name__", None)
        if isinstance(mark, Dim) and name is not None:
            first = self._symbols.setdefault(name, size)
            if first is not size and not bool(first == size):
                raise CaptureError(
                    f"dynamic_shapes names two sizes {name}, but the example has {first} and {size}.",
                    hint="Give dimensions that differ names of their own.",
                )

    def refuse_fixed(self) -> None:
        """After the capture: a size that was given a name must have stayed a symbol.

        Raises:
            CaptureError: The code fixes it.
        """
        for name, size in self._symbols.items():
            known = torch_private.symbolic_expression(size)
            if known.is_Integer:
                raise CaptureError(
                    f"The size {name} was asked to be dynamic, but the code is only right for {known}.",
                    hint="Leave that dimension out of dynamic_shapes.",
                )


def _number(bound: Any) -> int | None:
    """A bound; None where there is none (infinity is no int)."""
    return bound if isinstance(bound, int) else None
