"""cos and sin of one table are one kernel, in either order; kernels' axes are called as the calls' sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.lower.ir import Axis, Index, Load, Nest, Pointwise, PointwiseOp, Store
from longhand.schedule.fusion.result_order import results_in_order


class Angles(nn.Module):
    def forward(self, inv_freq: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        angles = torch.arange(19, device=inv_freq.device).float()[:, None] * inv_freq
        pairs = torch.repeat_interleave(angles, 2, dim=-1)
        return pairs.cos(), pairs.sin()


class Repeated(nn.Module):
    def forward(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.repeat_kv(keys, 3), self.repeat_kv(values, 3)

    def repeat_kv(self, x: torch.Tensor, n_rep: int) -> torch.Tensor:
        x = x.transpose(1, 2)
        batch, n_kv_heads, seq, head_dim = x.shape
        wide = x[:, :, None].expand(batch, n_kv_heads, n_rep, seq, head_dim)
        return wide.reshape(batch, n_kv_heads * n_rep, seq, head_dim)


def _kernels(model: nn.Module, arguments: tuple[torch.Tensor, ...], out: Path) -> dict[str, str]:
    longhand.generate(model, arguments, out=out, device="cuda", arch="sm_90", run=False)
    return {path.stem: path.read_text() for path in (out / "kernels").glob("*.py") if path.stem != "__init__"}


def test_cos_and_sin_of_repeated_angles_are_one_launch(tmp_path: Path) -> None:
    kernels = _kernels(Angles(), (torch.randn(6),), tmp_path / "unit")
    assert len(kernels) == 1, list(kernels)
    inv_freq = torch.randn(6)
    for ours, eager in zip(longhand.compile(Angles())(inv_freq), Angles()(inv_freq), strict=True):
        torch.testing.assert_close(ours, eager)


def test_results_stand_in_an_order_of_their_own() -> None:
    at, f32 = Index(0, (("i", 1),)), torch.float32
    cos, sin = (Pointwise(op, (0,), f32) for op in (PointwiseOp.COS, PointwiseOp.SIN))

    def nest(*steps: Pointwise) -> Nest:
        stores = (Store(step.op.value, at, place + 1) for place, step in enumerate(steps))
        return Nest((Axis("i", 8),), (Load("x", at, f32), *steps, *stores))

    assert results_in_order(nest(sin, cos)) == results_in_order(nest(cos, sin)) == nest(cos, sin)


@pytest.mark.parametrize("word", ["batch", "kv_head", "repeat"])
def test_axes_are_called_as_the_sizes_of_the_calls(word: str, tmp_path: Path) -> None:
    keys, values = torch.randn(2, 5, 4, 8), torch.randn(2, 5, 4, 8)
    (text,) = _kernels(Repeated(), (keys, values), tmp_path / "unit").values()
    assert f"n_{word}" in text
    assert not any(f"n_{filler}" in text for filler in ("outers", "stacks", "groups"))
