"""Rows whose halves are joined are walked half by half: two loads, no choice, two stores, and what eager makes."""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.verify.verification import verify


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    """As transformers writes it."""
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


def rotated(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return q * cos + rotate_half(q) * sin


def rotated_by_chunks(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """As a person writes it who has one table of each angle."""
    first, second = q.chunk(2, dim=-1)
    cos, sin = cos.chunk(2, dim=-1)[0], sin.chunk(2, dim=-1)[1]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def joined(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Two tensors side by side, and something beside them that knows nothing of halves."""
    return torch.cat([q.exp(), q.neg()], dim=-1) + torch.cat([sin, cos], dim=-1).unsqueeze(0)


def uneven(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """No halves."""
    return torch.cat([q[..., :40], q[..., :24]], dim=-1) * cos


def short(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Halves of four columns."""
    return rotate_half(q[..., :8]) + cos[..., :8]


def of_eight(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Halves of eight columns."""
    return rotated(q[..., :16].contiguous(), cos[..., :16], sin[..., :16])


class Rotation(nn.Module):
    """Its backward pass joins halves, too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        return rotated(self.layer(x), cos, sin)


class Interleaved(nn.Module):
    """Rotated pairs beside columns that stay: its backward pass joins halves of halves, at places of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        stays, turns = self.layer(x).split([32, 32], dim=-1)
        first, second = turns[..., 0::2], turns[..., 1::2]
        cos, sin = cos[..., :16], sin[..., :16]
        turned = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
        return torch.cat([stays, turned], dim=-1).exp()


ARGUMENTS = (torch.randn(2, 3, 64), torch.randn(3, 64), torch.randn(3, 64))
HALVED = (rotated, rotated_by_chunks, joined)
WHOLE = (uneven, short)
# Factories, for what verifies a unit in another process.
cases = types.SimpleNamespace(
    **{function.__name__: functools.partial(tuple, (function, ARGUMENTS)) for function in (*HALVED, *WHOLE)},
    Rotation=lambda: (Rotation(), ARGUMENTS),
    Interleaved=lambda: (Interleaved(), ARGUMENTS),
)


def kernel_text(function: Callable[..., torch.Tensor], folder: Path, device: str) -> str:
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(function, ARGUMENTS, out=folder / "unit", device=device, arch=arch)
    kernels = folder / "unit" / "kernels"
    paths = [*kernels.glob("*.py" if device == "cuda" else "*.cpp")]
    (text,) = [
        text for text in (path.read_text() for path in paths) if re.search(r"\b(half|boundary)\b", text)
    ]
    return text


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("function", HALVED)
def test_halves_are_walked_together(function, tmp_path: Path, device: str) -> None:
    text = kernel_text(function, tmp_path, device)
    start, end = ("_kernel(\n", "\ndef ") if device == "cuda" else ("extern", "\n}")
    body = text.partition(start)[2].partition(end)[0]
    assert "where(" not in body and "?" not in body and "in_first_half" not in body
    assert re.search(r"col < half\b", body)


def test_short_halves_are_walked_together_where_that_is_faster(tmp_path: Path) -> None:
    assert "?" not in kernel_text(of_eight, tmp_path / "cpu", "cpu").partition("extern")[2]
    assert "where(" in kernel_text(of_eight, tmp_path / "cuda", "cuda")


def test_each_element_is_loaded_once(tmp_path: Path) -> None:
    text = kernel_text(rotated, tmp_path, "cuda")
    assert text.count("tl.load(") == 6
    assert text.count("tl.store(") == 2
    assert "first_q" in text and "second_q" in text


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("function", WHOLE)
def test_other_joins_are_walked_as_they_were(function, tmp_path: Path, device: str) -> None:
    text = kernel_text(function, tmp_path, device)
    assert "where(" in text or "?" in text


@pytest.mark.parametrize("function", [*HALVED, *WHOLE, of_eight])
def test_the_values_are_those_of_eager(function, tmp_path: Path) -> None:
    kernel_text(function, tmp_path, "cpu")
    unit = longhand.load(tmp_path / "unit")
    torch.testing.assert_close(unit(*ARGUMENTS), function(*ARGUMENTS))


@pytest.mark.parametrize("function", [*HALVED, *WHOLE])
def test_the_kernels_for_a_gpu_are_right_in_the_interpreter(function, tmp_path: Path) -> None:
    kernel_text(function, tmp_path, "cuda")
    result = verify(tmp_path / "unit", f"tests.schedule.test_halves:cases.{function.__name__}")
    assert result.is_right and result.is_interpreted != torch.cuda.is_available()


def test_special_values_are_those_of_eager(tmp_path: Path) -> None:
    q = torch.randn(2, 3, 64)
    q.view(-1)[::7] = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0] * 11)[
        : len(q.view(-1)[::7])
    ]
    arguments = (q, *ARGUMENTS[1:])
    kernel_text(rotated, tmp_path, "cpu")
    found = longhand.load(tmp_path / "unit")(*arguments)
    torch.testing.assert_close(found, rotated(*arguments), equal_nan=True)


def test_the_backward_pass_is_walked_by_halves(tmp_path: Path) -> None:
    unit = tmp_path / "unit"
    longhand.generate(Rotation(), ARGUMENTS, out=unit, device="cpu", train=True)
    text = (unit / "kernels" / "d_rotary.cpp").read_text()
    assert "?" not in text.partition("extern")[2]
    assert verify(unit, "tests.schedule.test_halves:cases.Rotation").is_right


def test_halves_of_pairs_are_walked_together_backwards(tmp_path: Path) -> None:
    """Each value of the second half was chosen by both conditions, and loaded once for each of them."""
    unit = tmp_path / "unit"
    longhand.generate(Interleaved(), ARGUMENTS, out=unit, device="cpu", train=True)
    texts = [path.read_text() for path in (unit / "kernels").glob("*.cpp")]
    (text,) = [text for text in texts if "odd_offset" in text and "half" in text]  # beside the pairs
    body = text.partition("extern")[2]
    assert body.count("?") == 1 and "both" not in body
    assert len(re.findall(r"\bsin_row\[|\bcos_row\[", body)) == 2
    assert verify(unit, "tests.schedule.test_halves:cases.Interleaved").is_right


def test_a_kernel_for_both_kinds_of_joins_is_walked_whole(tmp_path: Path) -> None:
    def both(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.cat([cos, sin], dim=-1) * 2, torch.cat([q[..., :40], q[..., :24].sin()], -1) * 2

    longhand.generate(both, ARGUMENTS, out=tmp_path / "unit", device="cpu")
    unit = longhand.load(tmp_path / "unit")
    for found, expected in zip(unit(*ARGUMENTS), both(*ARGUMENTS), strict=True):
        torch.testing.assert_close(found, expected)


def test_sizes_may_vary(tmp_path: Path) -> None:
    seq = torch.export.Dim("seq", min=2, max=64)
    longhand.generate(
        rotated,
        ARGUMENTS,
        out=tmp_path / "unit",
        device="cpu",
        dynamic_shapes={"q": {1: seq}, "cos": {0: seq}, "sin": {0: seq}},
    )
    unit = longhand.load(tmp_path / "unit")
    arguments = (torch.randn(2, 5, 64), torch.randn(5, 64), torch.randn(5, 64))
    torch.testing.assert_close(unit(*arguments), rotated(*arguments))
