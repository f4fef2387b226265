"""What a reader sees in the gallery's units, and that what was left out of them for his sake cannot be missed."""

from __future__ import annotations

import math
from pathlib import Path

import torch
import torch.nn.functional as F

from generated.fused_ops_cpu.cross_entropy import cross_entropy
from generated.fused_ops_cpu.softmax import softmax

GENERATED = Path(__file__).resolve().parents[2] / "generated"
SOFTMAX = (GENERATED / "fused_ops_cpu" / "softmax" / "kernels" / "softmax.cpp").read_text()
GPT = (GENERATED / "gpt_cpu" / "model.py").read_text()


def special_rows(n_rows: int, n_cols: int) -> torch.Tensor:
    """Rows with a NaN, of NaN, with an infinity, of minus infinity; the others plain."""
    x = torch.randn(n_rows, n_cols)
    x[3, 5] = math.nan
    x[7] = math.nan
    x[9, 1] = math.inf
    x[11] = -math.inf
    return x


def test_softmax_passes_nan_on_although_its_maximum_does_not() -> None:
    assert "row_max" in SOFTMAX and "nan" not in SOFTMAX.lower()
    x, w = special_rows(4096, 1024), torch.randn(1024)
    torch.testing.assert_close(softmax(x, w), torch.softmax(x * 0.125 + w, -1), equal_nan=True)


def test_cross_entropy_passes_nan_on_but_not_from_ignored_rows() -> None:
    logits, labels = special_rows(2048, 8192), torch.randint(0, 8192, (2048,))
    logits[20, 3], labels[20] = math.nan, -100
    expected = F.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(cross_entropy(logits, labels), expected, equal_nan=True)
    assert expected[3].isnan() and expected[20] == 0


def test_a_block_is_printed_once_even_where_the_first_one_begins_differently() -> None:
    code = [line for line in GPT.splitlines() if not line.lstrip().startswith("#")]
    assert sum("F.scaled_dot_product_attention(" in line for line in code) == 1
    assert "lns = [*(layer.ln_1 for layer in self.blocks), self.ln_f]" in GPT
    assert "for block, next_ln in zip(self.blocks, lns[1:], strict=True):" in GPT


def test_views_have_the_users_names() -> None:
    lines = [line.strip() for line in GPT.splitlines()]
    heads = lines.index("q, k, v = qkv.view(batch, seq, 3, n_heads, -1).transpose(1, 3).unbind(2)")
    assert lines[heads + 1] == "mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)"
