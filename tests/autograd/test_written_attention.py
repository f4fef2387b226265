"""Attention that is written out, and heads in groups, in training: one call each way, and eager's gradients."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand


@pytest.fixture(autouse=True)
def unit_runs() -> None:
    """Units are run before they are kept: that compares results and gradients with eager's."""


EFFICIENT = "_scaled_dot_product_efficient_attention"
FLASH = "_scaled_dot_product_flash_attention"
HEADS, DIM = 3, 8


class Written(nn.Module):
    """What many models have: projections, two products and a softmax; maybe a bias of a table for each head."""

    def __init__(self, way: str = "matmul", seq: int = 0, window: bool = False) -> None:
        super().__init__()
        self.way, self.window = way, window
        self.qkv = nn.Linear(24, 3 * HEADS * DIM)
        self.table = nn.Parameter(torch.randn(11, HEADS)) if seq else None
        if seq:
            self.register_buffer("places", torch.randint(11, (seq, seq)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        q, k, v = self.qkv(x).reshape(batch, seq, 3, HEADS, DIM).permute(2, 0, 3, 1, 4).unbind(0)
        if self.way == "einsum":
            scores = torch.einsum("bhid,bhjd->bhij", q, k) * DIM**-0.5
        elif self.way == "bmm":
            q, k, v = (one.reshape(batch * HEADS, seq, DIM) for one in (q * DIM**-0.5, k, v))
            scores = torch.bmm(q, k.transpose(1, 2))
        else:
            scores = q @ k.transpose(-2, -1) / 3.0
        if self.table is not None:
            scores = scores + self.table[self.places].permute(2, 0, 1)
        if self.window:
            later = torch.ones(seq, seq, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, float("-inf"))
        weights = scores.softmax(-1)
        mixed = torch.einsum("bhij,bhjd->bhid", weights, v) if self.way == "einsum" else weights @ v
        return mixed.reshape(batch, HEADS, seq, DIM).transpose(1, 2).flatten(2)


def texts(folder: Path, model: nn.Module, *given: torch.Tensor) -> tuple[str, str]:
    """The unit's two files, for CUDA: its trial run compares results and gradients with eager's."""
    out = folder / "unit"
    longhand.generate(model, given, out=out, device="cuda", arch="sm_90", train=True)
    return code(out / "model.py"), code(out / "backward.py")


def code(file: Path) -> str:
    """Without the user's statements, which comments quote."""
    return "\n".join(line for line in file.read_text().splitlines() if not line.lstrip().startswith("#"))


CASES = {
    "matmul": Written(),
    "einsum": Written("einsum"),
    "bmm": Written("bmm"),
    "a bias": Written(seq=13),
    "causal": Written(window=True),
    "causal with a bias": Written(seq=13, window=True),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", CASES)
def test_one_call_forward_and_one_backward(tmp_path: Path, case: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 13, 24, dtype=dtype, requires_grad=True)
    forward, backward = texts(tmp_path, CASES[case].to(dtype), x)
    is_biased = "bias" in case or dtype is torch.float32
    assert forward.count(f"{EFFICIENT}.default(" if is_biased else "cudnn_attention(") == 1
    assert backward.count(f"{EFFICIENT}_backward.default(" if is_biased else "cudnn_attention_backward(") == 1
    assert "bmm" not in forward + backward and "softmax(" not in forward + backward
    assert ("is_causal=True" in forward) is (case == "causal")


@pytest.mark.parametrize("case", CASES)
def test_gradients_on_the_cpu(tmp_path: Path, case: str) -> None:
    """A bias that is trained stays as written: the CPU's kernel has no gradient of it."""
    torch.manual_seed(0)
    x, out = torch.randn(2, 13, 24, requires_grad=True), tmp_path / "unit"
    longhand.generate(CASES[case].float(), (x,), out=out, device="cpu", train=True)
    forward = code(out / "model.py")
    assert (f"{FLASH}_for_cpu" in forward) is ("bias" not in case)


def test_a_bias_that_is_not_trained_is_the_cpus_kernels(tmp_path: Path) -> None:
    model, x, out = Written(seq=13), torch.randn(2, 13, 24, requires_grad=True), tmp_path / "unit"
    assert model.table is not None
    model.table.requires_grad_(False)
    longhand.generate(model, (x,), out=out, device="cpu", train=True)
    assert f"{FLASH}_for_cpu" in code(out / "model.py")


def test_weights_that_are_dropped_stay_as_written(tmp_path: Path) -> None:
    class Dropped(Written):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.qkv(x).reshape(2, 13, 3, HEADS, DIM).permute(2, 0, 3, 1, 4).unbind(0)
            return F.dropout((q @ k.mT).softmax(-1), 0.3, self.training) @ v

    x = torch.randn(2, 13, 24, requires_grad=True)
    assert EFFICIENT not in texts(tmp_path, Dropped().train(), x)[0]
    assert EFFICIENT in texts(tmp_path / "eval", Dropped().eval(), x)[0]


class Grouped(nn.Module):
    """Heads of queries that share those of keys and values."""

    def __init__(self, groups: int, masked: bool = False, causal: bool = False) -> None:
        super().__init__()
        self.groups, self.masked, self.causal = groups, masked, causal
        self.query, self.keys = nn.Linear(16, 4 * DIM), nn.Linear(16, 2 * 4 // groups * DIM)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        query = self.query(x).view(batch, seq, 4, DIM).transpose(1, 2)
        key, value = self.keys(x).view(batch, seq, 2, -1, DIM).permute(2, 0, 3, 1, 4)
        place = torch.arange(seq, device=x.device)
        mask = (place[:, None] - place).abs() < 3 if self.masked else None
        mixed = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=self.causal, enable_gqa=True
        )
        return mixed.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_groups_in_float32_are_the_efficient_kernels(tmp_path: Path, groups: int, masked: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 13, 16, requires_grad=True)
    forward, backward = texts(tmp_path, Grouped(groups, masked), x)
    assert forward.count(f"{EFFICIENT}.default(") == 1 and "enable_gqa" not in forward
    assert backward.count(f"{EFFICIENT}_backward.default(") == 1
    assert "bmm" not in forward + backward


@pytest.mark.parametrize("causal", [False, True])
def test_groups_in_halves_are_the_flash_kernels_own(tmp_path: Path, causal: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 13, 16, dtype=torch.bfloat16, requires_grad=True)
    forward, backward = texts(tmp_path, Grouped(2, causal=causal).bfloat16(), x)
    assert forward.count(f"{FLASH}.default(") == 1 and backward.count(f"{FLASH}_backward.default(") == 1
    assert "bmm" not in forward + backward


@pytest.mark.parametrize(("dtype", "masked"), [(torch.float32, False), (torch.bfloat16, True)])
def test_groups_in_inference(tmp_path: Path, dtype: torch.dtype, masked: bool) -> None:
    out = tmp_path / "unit"
    longhand.generate(
        Grouped(2, masked).to(dtype),
        (torch.randn(2, 13, 16, dtype=dtype),),
        out=out,
        device="cuda",
        arch="sm_90",
    )
    text = code(out / "model.py")
    assert "F.scaled_dot_product_attention(" in text and "enable_gqa" not in text


def test_groups_that_the_flash_kernel_takes_stay_as_they_are(tmp_path: Path) -> None:
    out = tmp_path / "unit"
    given = (torch.randn(2, 13, 16, dtype=torch.bfloat16),)
    longhand.generate(Grouped(2).bfloat16(), given, out=out, device="cuda", arch="sm_90")
    assert "enable_gqa=True" in code(out / "model.py")
