"""The table of masks, a few of its rows; and whole units, both frontends and training, against eager."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from benchmarks import masks
from benchmarks.architectures.transformers_settings import SETTINGS
from longhand.options import Device, Target

CUDA = Target(Device.CUDA, "sm_90")


@pytest.mark.parametrize(
    ("name", "has_argument", "before", "after"),
    [
        ("llama", False, "bool mask 2x1x19x19", "is_causal=True"),
        ("llama", True, "bool mask 2x1x19x19", "float32 bias 2x1x19x19, made once"),
        ("mistral", False, "bool mask 2x1x19x19", "float32 bias 19x19, a table"),
        ("bert", False, "bool mask 2x1x19x19", "no mask"),
        ("bert", True, "bool mask 2x1x19x19", "float32 bias 2x1x1x19, made once"),
    ],
)
def test_what_attention_is_called_with(name: str, has_argument: bool, before: str, after: str) -> None:
    found = masks.row(name, has_argument, CUDA)
    assert found is not None
    assert (found.before, found.after) == ({before: 2}, {after: 2})


class Decoder(nn.Module):
    """Two layers of attention through one mask, made as decoders make theirs."""

    def __init__(self, window: int | None = None) -> None:
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(16, 48) for _ in range(2))
        self.window = window

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        place = torch.arange(x.shape[1], device=x.device)
        mask = place <= place[:, None]
        if self.window is not None:
            mask = mask & (place > place[:, None] - self.window)
        if keep is not None:
            mask = mask & keep[:, None, None, :]
        for qkv in self.qkv:
            q, k, v = qkv(x).view(*x.shape[:2], 3, 2, 8).permute(2, 0, 3, 1, 4)
            attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = x + attended.transpose(1, 2).flatten(2)
        return x


KEEP = torch.tensor([[True] * 7, [False] * 2 + [True] * 5])
KINDS = {"causal": (None, None), "window": (3, None), "padding": (None, KEEP), "both": (3, KEEP)}


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_and_results_of_compile(kind: str, tmp_path: Path) -> None:
    window, keep = KINDS[kind]
    torch.manual_seed(0)
    model, x = Decoder(window), torch.randn(2, 7, 16, requires_grad=True)
    arguments: tuple[Any, ...] = (x,) if keep is None else (x, keep)
    compiled = longhand.compile(model, fullgraph=True, options={"out": str(tmp_path)})
    found, wanted = compiled(*arguments), model(*arguments)
    torch.testing.assert_close(found, wanted)
    weights = [x, *model.parameters()]
    for one, other in zip(
        torch.autograd.grad(found.square().sum(), weights),
        torch.autograd.grad(wanted.square().sum(), weights),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*arguments), model(*arguments))
    text = "".join(path.read_text() for path in tmp_path.rglob("model.py"))
    assert ("is_causal=True" in text) is (kind == "causal")
    assert ("attn_mask" in text.replace("attn_mask=mask)", "")) is (kind != "causal")


def test_softmax_computes_its_mask_from_indices(tmp_path: Path) -> None:
    """GPT-Neo writes its attention out: of its two masks, causal and windowed, no kernel is made."""
    model, kwargs = SETTINGS["gpt_neo"]()
    longhand.generate(model, (), kwargs, out=tmp_path / "unit", device="cuda", arch="sm_90")
    texts = [path.read_text() for path in (tmp_path / "unit" / "kernels").glob("*.py")]
    assert any("tl.where" in text and "softmax" in text for text in texts)
    assert not any("reference(n_rows, n_cols)" in text for text in texts)


@pytest.mark.parametrize("kind", ["window", "padding"])
def test_a_generated_unit_in_bfloat16(kind: str, tmp_path: Path) -> None:
    window, keep = KINDS[kind]
    torch.manual_seed(0)
    model, x = Decoder(window).eval().bfloat16(), torch.randn(2, 7, 16, dtype=torch.bfloat16)
    arguments: tuple[Any, ...] = (x,) if keep is None else (x, keep)
    longhand.generate(model, arguments, out=tmp_path / "unit")
    unit = longhand.load(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(unit(*arguments), model(*arguments), rtol=2e-2, atol=2e-2)
    n_made = len(list((tmp_path / "unit" / "kernels").glob("*mask*.py")))
    assert n_made == 0 or kind == "padding"
    if kind == "window":
        assert (
            "torch.ones(7, 7, dtype=torch.bool).tril().triu(-2)" in (tmp_path / "unit/model.py").read_text()
        )
