"""The first line of a kernel's file says what is joined, padded and read under a mask, as a formula."""

from __future__ import annotations

from typing import Any

import torch


def joined(gates: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    i, o = gates.chunk(2, -1)
    h = torch.sigmoid(o) * torch.tanh(i)
    return torch.cat((x, h), -1)


def test_pieces_with_formulas_of_their_own_are_joined_in_the_title(emit: Any) -> None:
    files = emit(joined, (torch.randn(3, 16), torch.randn(3, 5)), device="cuda")
    titles = [str(text).partition("\n\n")[0] for path, text in files.items() if path.startswith("kernels/")]
    assert not any("in one pass" in title for title in titles), titles
    assert any("cat(x, " in title or "where(" in title for title in titles), titles
