"""A kernel with several callers has the words that all of them have; what they call differently has a plain one."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import nn

import longhand
from examples import llama_block


def kernels_of(files: dict[str, Any]) -> list[str]:
    """The C++ texts without their comments."""
    texts = (str(text) for path, text in files.items() if re.fullmatch(r"kernels/\w+\.cpp", path))
    return [re.sub(r"//[^\n]*", "", text) for text in texts]


class Twice(nn.Module):
    def forward(self, first: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        decayed = first * torch.exp(-first) + 1
        masked = other * torch.exp(-other) + 1
        return decayed.sum(0) @ masked.sum(0)


def test_what_callers_call_differently_has_a_plain_word(emit: Any) -> None:
    files = emit(Twice(), (torch.randn(40, 6), torch.randn(40, 6)))
    (text,) = kernels_of(files)
    assert str(files["model.py"]).count("kernels.") == 2
    assert not re.search(r"\b(first|other|decayed|masked)\b", text), text
    assert re.search(r"\bx\b", text) and re.search(r"\bsums\b", text)


class Joined(nn.Module):
    """Halves of 4 and 4 columns; parts of 3 and 5."""

    def forward(
        self, x: torch.Tensor, y: torch.Tensor, short: torch.Tensor, long: torch.Tensor
    ) -> torch.Tensor:
        halves = torch.cat([x.sin(), y.cos()], dim=1)
        parts = torch.cat([short.sin(), long.cos()], dim=1)
        return halves @ parts.T


def test_a_boundary_is_a_half_only_if_it_is_for_every_caller(emit: Any) -> None:
    sizes = 4, 4, 3, 5
    files = emit(Joined(), tuple(torch.randn(6, size) for size in sizes))
    (text,) = kernels_of(files)
    assert "x_end" in text and not re.search(r"\bhalf\b|in_first_half", text), text
    assert "in_x" in text


class Attention(nn.Module):
    """Results are laid side by side, head after head; in the backward pass their gradients are taken apart so."""

    def __init__(self) -> None:
        super().__init__()
        self.n_heads, self.head_dim = 4, 8
        self.q, self.k, self.v, self.out = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, seq, _ = hidden.shape
        shape = batch, seq, self.n_heads, self.head_dim
        parts = self.q(hidden), self.k(hidden), self.v(hidden)
        query, key, value = (part.view(shape).transpose(1, 2) for part in parts)
        weights = torch.softmax(torch.matmul(query, key.transpose(2, 3)) * 0.3, dim=-1)
        attended = torch.matmul(weights, value).transpose(1, 2).reshape(batch, seq, -1).contiguous()
        return self.out(attended), weights.detach()


def test_what_both_passes_call_has_words_of_both(tmp_path: Any) -> None:
    folder = tmp_path / "unit"
    longhand.generate(Attention(), (torch.randn(2, 5, 32),), out=folder, device="cpu", train=True)
    passes = [(folder / name).read_text() for name in ("model.py", "backward.py")]
    both = set.intersection(*({*re.findall(r"kernels\.(\w+)\(", text)} for text in passes))
    assert both, passes
    for name in both:
        text = re.sub(r"//[^\n]*", "", (folder / "kernels" / f"{name}.cpp").read_text())
        assert not re.search(r"attended|n_heads|n_positions", text), text


class Interleaved(nn.Module):
    """Rotary positions of pairs of neighbours, behind what stays: two pieces of the same values are a piece again."""

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x1, x2 = x[..., 4::2], x[..., 5::2]
        rotated = torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)
        return torch.cat([x[..., :4], rotated], dim=-1)


def test_pieces_made_of_the_same_values_are_stored_side_by_side(tmp_path: Any) -> None:
    torch.manual_seed(0)
    given = torch.randn(2, 3, 7, 20), torch.randn(7, 8), torch.randn(7, 8)
    longhand.generate(Interleaved(), given, out=tmp_path / "unit", device="cpu")
    texts = [path.read_text() for path in (tmp_path / "unit" / "kernels").glob("*.cpp")]
    (text,) = (text for text in texts if "cos" in text)
    assert "?" not in text and len(re.findall(r"_row\[[^\]]*\] = ", text)) == 2, text
    title = " ".join(text.partition("#include")[0].replace("//", "").split())
    assert re.search(r"= cat\(x1 \* cos - x2 \* sin, x2 \* cos \+ x1 \* sin\)", title), title


def test_what_is_walked_in_part_has_words_before_the_part(emit: Any) -> None:
    given = torch.randn(2, 3, 7, 20), torch.randn(7, 8), torch.randn(7, 8)
    model = str(emit(Interleaved(), given)["model.py"])
    _, _, call = model.partition("kernels.")
    assert "batch * heads" in call and "n_positions=seq" in call, call


def test_dimensions_of_one_noun_have_that(emit: Any) -> None:
    """Queries have more heads than keys: for a kernel that rotates both, what they have are heads."""
    model, args = llama_block.small()
    files = emit(model, args)
    (text,) = (text for text in kernels_of(files) if "cos" in text)
    assert "n_heads" in text and "kv_heads" not in text and "flat_row" not in text, text
    assert "N_KV_HEADS" in str(files["model.py"])
