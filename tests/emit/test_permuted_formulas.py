"""A formula shows that a kernel reads its tensor with the axes in another order than its result has in memory."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch


def moved(x: torch.Tensor) -> torch.Tensor:
    return x[:, :, 1:4].transpose(1, 2).contiguous()


def repeated(value_states_of_all: torch.Tensor) -> torch.Tensor:
    """What is read and what is written have so many axes that a line does not hold both."""
    batch, seq, heads, dim = value_states_of_all.shape
    of_heads = value_states_of_all.transpose(1, 2)[:, :, None].expand(batch, heads, 3, seq, dim)
    return of_heads.reshape(batch, heads * 3, seq, dim)


def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2) + y


def permuted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x.permute(2, 0, 3, 1)) * y


def repeated_and_turned(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    k = (k * 0.5)[:, :, None].expand(2, 2, 2, 7, 8).reshape(2, 4, 7, 8)
    return torch.einsum("bhid,bhjd->bhij", q, k)


def summed(x: torch.Tensor) -> torch.Tensor:
    return x.view(2, 3, 2, 5, 8).sum(2).transpose(1, 2).contiguous()


def joined(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.sin(q).transpose(1, 2), torch.cos(k)], dim=2).reshape(2, 5, 48)


def sections(freq: torch.Tensor) -> torch.Tensor:
    """Each part of a row is of another tensor, which has all of the row: nothing is put side by side."""
    return torch.cat([m[i % 3] for i, m in enumerate(freq.sin().split([2, 3, 3], dim=-1))], dim=-1)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("function", "args", "wanted"),
    [
        (moved, (torch.randn(3, 5, 7, 4),), r"\[(\w+), (\w+), (.*)\] = x\[\1, (?!\2)\w+, .*\]"),
        (
            repeated,
            (torch.randn(2, 5, 3, 4),),
            r"\[(\w+), (\w+), .*\] = value_states_of_all\[\1, (?!\2)\w+, .*\]",
        ),
        (added, (torch.randn(3, 5, 7, 4), torch.randn(3, 7, 5, 4)), r"x \+ y\.transpose\(1, 2\)"),
        (
            permuted,
            (torch.randn(3, 5, 7, 4), torch.randn(7, 3, 4, 5)),
            r"relu\(x\) \* y\.permute\(1, 3, 0, 2\)",
        ),
        (
            repeated_and_turned,
            (torch.randn(2, 4, 7, 8), torch.randn(2, 2, 7, 8)),
            r"\[(\w+), (\w+), (\w+), (\w+)\] = k\[\1, \4, \3\] \* 0.5",
        ),
        (
            summed,
            (torch.randn(2, 6, 5, 8),),
            r"\[(\w+), (\w+), (\w+), (\w+)\] = sum\(x\[\1, \3, \w+, \2, \4\]\)",
        ),
        (joined, (torch.randn(2, 3, 5, 8), torch.randn(2, 5, 3, 8)), r"sin\(q\.transpose\(1, 2\)\)"),
        (
            sections,
            (torch.randn(3, 2, 5, 8),),
            r"cat\(\w+\[:boundary\], \w+\[boundary:second_boundary\], \w+\[second_boundary:\]\)",
        ),
    ],
)
def test_axes_in_another_order_are_shown(
    emit: Any, device: str, function: Any, args: Any, wanted: str
) -> None:
    files = emit(function, args, device=device)
    texts = (str(text) for path, text in files.items() if path.startswith("kernels/"))
    titles = [" ".join(re.split(r"\n(?://)?\n", text)[0].replace("//", "").split()) for text in texts]
    assert any(re.search(wanted, title) for title in titles), titles
