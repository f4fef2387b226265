"""Matrix products in a unit's text: those of `blas` on CUDA, in both passes, and torch's on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.emit.unit.templates import write_runtime

ARCH = {"cpu": None, "cuda": "sm_90"}


class Products(nn.Module):
    """One of each, and sums of two products."""

    def __init__(self) -> None:
        super().__init__()
        self.blas = nn.Linear(16, 24)

    def forward(self, x: torch.Tensor, narrow: torch.Tensor, total: torch.Tensor) -> tuple[torch.Tensor, ...]:
        widened = torch.relu(self.blas(x))
        heads = torch.bmm(widened, widened.transpose(1, 2))
        rows = torch.mm(widened.view(-1, 24), narrow)
        return heads, rows, torch.addmm(total, rows, narrow.t(), beta=0.5, alpha=2)


def example() -> tuple[torch.Tensor, ...]:
    return torch.randn(2, 4, 16), torch.randn(24, 32), torch.randn(8, 24)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_whose_products_they_are(device: str, tmp_path: Path) -> None:
    out = tmp_path / "unit"
    longhand.generate(Products(), example(), out=out, device=device, arch=ARCH[device], run=False)
    lines = (out / "model.py").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))  # no quotes
    assert ("blas.linear(x, self.blas.weight, self.blas.bias)" in text) == (device == "cuda")
    for name, torchs in {"linear": "F.linear", "mm": "torch.mm", "bmm": "torch.bmm"}.items():
        assert (f"blas.{name}(" in text) == (device == "cuda")
        assert (f"{torchs}(" in text) == (device == "cpu")
    assert "torch.addmm(" in text and "beta=0.5" in text  # which no function of blas takes
    written = {path.name for path in out.glob("*.[ch]")}
    assert written == ({"blas.c", "cublas.h", "matrices.h", "tensors.h"} if device == "cuda" else set())
    names = set(text.partition("from .runtime import ")[2].partition("\n")[0].replace(",", "").split())
    assert ("blas" in names) == (device == "cuda")


def test_the_backward_pass_too(tmp_path: Path) -> None:
    model, x = nn.Sequential(nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 8)), torch.randn(4, 16)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cuda", arch="sm_90", train=True, run=False)
    text = (tmp_path / "unit" / "backward.py").read_text()
    assert text.count("blas.mm(") == 3 and "torch.mm(" not in text


def test_a_unit_without_products_has_no_blas(tmp_path: Path) -> None:
    longhand.generate(
        nn.GELU(), (torch.randn(4, 16),), out=tmp_path / "unit", device="cuda", arch="sm_90", run=False
    )
    assert {path.name for path in (tmp_path / "unit").glob("*.[ch]")} == {"launch.c", "tensors.h"}


def test_without_a_gpu_a_cuda_units_products_are_right(tmp_path: Path) -> None:
    """As the interpreter runs it."""
    names: dict[str, object] = {"__file__": str(tmp_path / "runtime.py"), "__name__": "runtime"}
    exec(write_runtime(["blas"]), names)
    blas: torch.nn.Module = names["blas"]  # type: ignore[assignment]
    x, weight, bias = torch.randn(4, 16), torch.randn(24, 16), torch.randn(24)
    assert torch.equal(blas.linear(x, weight, bias), F.linear(x, weight, bias))
    with pytest.raises(AttributeError):
        blas.no_such_function  # noqa: B018
