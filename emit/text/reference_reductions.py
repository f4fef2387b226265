"""How a reference finds the place of the largest element of a window, as PyTorch's pooling does."""

from __future__ import annotations

from collections.abc import Sequence

from longhand.emit.text.expression import Text
from longhand.emit.text.reference_ops import TORCH
from longhand.emit.text.reference_page import ReferencePage


def winner(page: ReferencePage, text: str, dims: Sequence[int]) -> Text:
    """The place in a window, its first dimensions `dims`: of the last NaN, else of the first of the largest."""
    dim = dims[-1]
    if len(dims) > 1:
        text = _line(page, "in_window", f"{text}.flatten({dims[0]}, {dim})")
    is_nan = _line(page, "is_nan", f"{text}.isnan()")
    last = f"{is_nan}.shape[{dim}] - 1 - {is_nan}.flip({dim}).int().argmax({dim}, keepdim=True)"
    last_nan = _line(page, "last_nan", last)
    first = f"{text}.argmax({dim}, keepdim=True)"
    page.modules.add(TORCH)
    return Text(f"torch.where({is_nan}.any({dim}, keepdim=True), {last_nan}, {first})")


def _line(page: ReferencePage, word: str, text: str) -> str:
    name = page.scope.pick([word])
    page.lines.append((name, text))
    return name
