"""Where a piece ends that is joined to others is called after the piece: ``some_end``, and ``in_some`` asks for it."""

from __future__ import annotations

import re

import torch

from benchmarks.readability.units import text_of


def kernel_of(function: object, *args: torch.Tensor) -> str:
    """The C++ of a function's kernels."""
    text = text_of((function, args, {}), "cpu", train=False)  # type: ignore[arg-type]
    return "\n".join(lines for path, lines in text.items() if path.endswith(".cpp"))


def test_an_end_is_that_of_its_piece() -> None:
    """It was ``boundary``, and what lies before it ``in_first``."""

    def joined(some: torch.Tensor, more: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.cat([some, more, rest], dim=1)) * 2.0

    text = kernel_of(joined, torch.randn(6, 3), torch.randn(6, 5), torch.randn(6, 7))
    assert {"some_end", "more_end"} <= {*re.findall(r"\b\w+_end\b", text)}
    assert re.search(r"\bin_some = col < some_end", text)
    assert re.search(r"\bbefore_rest = col < more_end", text)
    assert not re.search(r"\bboundary\b|\bin_first", text)


def test_of_two_pieces_of_one_tensor_the_end_is_a_boundary() -> None:
    def rolled(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.cat([x[:, 3:], x[:, :3]], dim=1)) * 2.0

    text = kernel_of(rolled, torch.randn(6, 8))
    assert re.search(r"\bboundary\b", text) and not re.search(r"\bin_x\b", text)
