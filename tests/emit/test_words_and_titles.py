"""What files say of themselves: titles, sizes and references as a person would write them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn


class Heads(nn.Module):
    """A batch of as many as a head has channels, and as many tokens as features: equal numbers, other meanings."""

    def __init__(self) -> None:
        super().__init__()
        self.n_heads = 4
        self.qkv = nn.Linear(64, 3 * 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, dim = x.shape
        q, k, v = self.qkv(x).split(dim, dim=-1)
        q = q.view(batch, seq, self.n_heads, -1).transpose(1, 2)
        k = k.view(batch, seq, self.n_heads, -1).transpose(1, 2)
        v = v.view(batch, seq, self.n_heads, -1).transpose(1, 2)
        q = torch.sin(q) * q
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, seq, dim)


def test_size_words_come_from_where_a_dimension_does_and_not_from_equal_numbers(emit: Any) -> None:
    text = str(emit(Heads().eval(), (torch.randn(16, 64, 64),))["model.py"])
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    assert re.search(r"\(batch, (seq, n_heads|n_heads, seq), head_dim\)", code), code
    assert ".reshape(batch, seq, dim)" in code
    assert re.search(r"n_heads, head_dim = 4, 16|head_dim, n_heads = 16, 4", code), code
    assert "(batch, seq, batch" not in code and "seq, seq" not in code


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


def apply_rotary(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return q * cos + rotate_half(q) * sin


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_rotation_reads_as_one(emit: Any, device: str) -> None:
    args = (torch.randn(2, 4, 40, 16), torch.randn(40, 16), torch.randn(40, 16))
    files = emit(apply_rotary, args, device=device)
    text = str(files["kernels/rotary.py"])
    assert "rotate_half(q)" in text.splitlines()[0]
    assert "torch.cat([-q[..., half:], q[..., :half]], dim=-1)" in text
    assert "arange" not in text.partition("def reference")[2] and "offset" not in text


def padded(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, 3))


def joined(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.cat([a, torch.tanh(b)], dim=-1) * 2.0


@pytest.mark.parametrize(
    ("function", "args", "wanted"),
    [
        (padded, (torch.randn(30, 13),), "F.pad(x, (0, n_cols - n_filled))"),
        (joined, (torch.randn(30, 13), torch.randn(30, 20)), "torch.cat([a, "),
    ],
)
def test_what_is_put_together_has_its_pieces_in_the_reference(
    emit: Any, function: Any, args: Any, wanted: str
) -> None:
    files = emit(function, args)
    references = [str(text) for path, text in files.items() if path.startswith("kernels/")]
    assert any(wanted in text for text in references), references


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(48))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = x + y
        return h, h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_norm_written_out_takes_its_eps_and_says_that_it_keeps_the_sum(emit: Any, device: str) -> None:
    files = emit(Norm().eval(), (torch.randn(6, 48), torch.randn(6, 48)), device=device)
    name = "add_and_rms_norm"
    source = str(files[f"kernels/{name}.{'cpp' if device == 'cpu' else 'py'}"])
    assert "1e-06" not in source and "eps" in source
    assert f"{name}: h = x + y; " in source
    assert re.search(r"kernels\.add_and_rms_norm\(.*1e-6\)", str(files["model.py"]))


def test_a_copy_is_not_cast_and_a_padded_weight_says_why(emit: Any) -> None:
    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(32, 1537, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(x)

    x = torch.randn(1024, 32, dtype=torch.bfloat16)
    files = emit(Head().eval().bfloat16(), (x,), device="cuda")
    text = str(files["kernels/pad_head.py"])
    assert "float32" not in text and "cuBLAS" in text
    assert "return F.pad(weight, (0, 0, 0, n_rows - n_filled))" in text


def test_transposed_tensors_are_seen_as_they_lie_in_memory(emit: Any) -> None:
    files = emit(lambda x, y: x.t().contiguous() + y, (torch.randn(40, 72), torch.randn(72, 40)))
    (text,) = (str(t) for p, t in files.items() if p.startswith("kernels/t") and p.endswith(".py"))
    assert "return x.t() + y" in text


def test_two_weights_of_a_kind_both_say_whose_they_are(emit: Any) -> None:
    class Embed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(50, 24), nn.Embedding(12, 24)
            self.norm = nn.LayerNorm(24)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.norm(self.tokens(ids) + self.places(torch.arange(12)))

    files = emit(Embed().eval(), (torch.randint(50, (3, 12)),))
    (source,) = (str(text) for path, text in files.items() if re.fullmatch(r"kernels/\w+\.cpp", path))
    assert re.search(r"float \*tokens\b", source) and re.search(r"float \*places\b", source)
    assert re.search(r"float \*weight\b", source) and re.search(r"float \*bias\b", source)
