"""Random decisions by probabilities in float64 are eager's own: they are drawn with 53 bits, not with 24."""

from pathlib import Path

import pytest
import torch

import longhand


def decided(p: torch.Tensor) -> torch.Tensor:
    return torch.bernoulli(p * 0.5) + 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_decisions_are_eagers(tmp_path: Path, dtype: torch.dtype) -> None:
    p = torch.rand(257, dtype=torch.float64).to(dtype)
    longhand.generate(decided, (p,), out=tmp_path, device="cpu")
    for function in (longhand.load(tmp_path), longhand.compile(decided)):
        torch.manual_seed(3)
        expected = decided(p)
        torch.manual_seed(3)
        assert torch.equal(function(p), expected)
        assert torch.equal(torch.rand(2), _after(p))  # as many numbers are drawn


def _after(p: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        decided(p)
        return torch.rand(2)
