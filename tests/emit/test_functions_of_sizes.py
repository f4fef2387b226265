"""Modules that do the same in other sizes: one function or class, whatever tells the sizes, and the same results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from tests.same_gradients import assert_gradients_as_exact, unit_of


class Attention(nn.Module):
    def __init__(self, dim: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.norm = nn.LayerNorm(dim)
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, dim = x.shape
        normed, n_heads = self.norm(x), self.n_heads
        q = self.query(normed).view(batch, seq, n_heads, dim // n_heads).transpose(1, 2)
        k = self.key(normed).view(batch, seq, n_heads, dim // n_heads).transpose(1, 2)
        v = self.value(normed).view(batch, seq, n_heads, dim // n_heads).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, seq, dim)
        return x + self.proj(mixed)


class Pyramid(nn.Module):
    """Two stages, each with attention of its own width, and of its own number of heads."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 4, stride=4)
        self.first = Attention(32, 2)
        self.merge = nn.Conv2d(32, 64, 2, stride=2)
        self.second = Attention(64, 4)
        self.head = nn.Linear(64, 5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.stem(image)
        x = self.first(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(x.shape)
        x = self.merge(x)
        x = self.second(x.flatten(2).transpose(1, 2))
        return self.head(x.mean(1))


class Mixer(nn.Module):
    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.grow, self.norm1 = nn.Conv2d(width, 2 * width, 1, bias=False), nn.BatchNorm2d(2 * width)
        self.mix = nn.Conv2d(2 * width, 2 * width, kernel, padding=kernel // 2, groups=2 * width, bias=False)
        self.norm2 = nn.BatchNorm2d(2 * width)
        self.shrink, self.norm3 = nn.Conv2d(2 * width, width, 1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = F.silu(self.norm1(self.grow(x)))
        return x + self.norm3(self.shrink(F.silu(self.norm2(self.mix(wide)))))


class Mixers(nn.Module):
    """Two lists of layers; those of the second look further."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 4, stride=4)
        self.near = nn.ModuleList(Mixer(24, 3) for _ in range(3))
        self.down = nn.Conv2d(24, 40, 2, stride=2)
        self.far = nn.ModuleList(Mixer(40, 5) for _ in range(3))
        self.end = nn.Conv2d(40, 8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for layer in self.near:
            x = layer(x)
        x = self.down(x)
        for layer in self.far:
            x = layer(x)
        return self.end(x)


class Apart(nn.Module):
    """Layers of three widths, each by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 2, stride=2)
        self.first, self.wider = Mixer(16, 3), nn.Conv2d(16, 24, 2, stride=2)
        self.second, self.widest = Mixer(24, 5), nn.Conv2d(24, 40, 2, stride=2)
        self.third, self.end = Mixer(40, 3), nn.Conv2d(40, 8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.wider(self.first(self.stem(x)))
        return self.end(self.third(self.widest(self.second(x))))


class Looks(nn.Module):
    """Is given more numbers than a function may be: all but its first call is one with them."""

    def __init__(self, groups: int, *kernels: int) -> None:
        super().__init__()
        self.near = nn.Conv2d(16, 16, 3, padding=1, groups=groups)
        self.further, self.far, self.last = (
            nn.Conv2d(16, 16, kernel, padding=kernel // 2) for kernel in kernels
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        near = F.silu(self.near(x))
        further = F.silu(self.further(near))
        far = F.silu(self.far(further))
        return F.silu(self.last(far))


class TwoLooks(nn.Module):
    """Two modules of which all but the beginning is one function: they are no such themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 4, stride=4)
        self.left, self.right = Looks(1, 3, 5, 7), Looks(2, 5, 7, 3)
        self.ends = nn.ModuleList(nn.Conv2d(16 + place, 17 + place, 2) for place in range(7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.right(self.left(self.stem(x)))
        for end in self.ends:
            x = F.silu(end(x))
        return x


class Smooth(nn.Module):
    """Its second and third call are the same line; in another list they are given other numbers."""

    def __init__(self, width: int, paddings: tuple[int, int, int], padding: int) -> None:
        super().__init__()
        self.paddings = paddings
        self.mix, self.out = nn.Conv2d(width, width, 3, padding=padding), nn.Conv2d(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for padding in self.paddings:
            y = F.avg_pool2d(y, 5, 1, padding)
        return x + self.out(F.silu(self.mix(y)))


class Smoothed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 4, stride=4)
        self.near = nn.ModuleList(Smooth(24, (2, 2, 2), 1) for _ in range(3))
        self.widen = nn.Conv2d(24, 40, 1)
        self.far = nn.ModuleList(Smooth(40, (2, 2, 1), 2) for _ in range(3))
        self.end = nn.Conv2d(40, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for layer in self.near:
            x = layer(x)
        x = self.widen(x)
        for layer in self.far:
            x = layer(x)
        return self.end(x)


class Dense(nn.Module):
    def __init__(self, n_in: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(n_in), nn.Conv2d(n_in, 16, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(16), nn.Conv2d(16, 8, 3, padding=1, bias=False)

    def forward(self, features: list[torch.Tensor]) -> torch.Tensor:
        out = self.conv1(F.relu(self.norm1(torch.cat(features, 1))))
        return self.conv2(F.relu(self.norm2(out)))


class Growing(nn.Module):
    """Layers that each read all before them: what differs is how much they join."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 4, stride=4)
        for place in range(12):
            setattr(self, f"layer{place + 1}", Dense(16 + 8 * place))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = [self.stem(x)]
        for place in range(12):
            features.append(getattr(self, f"layer{place + 1}")(features))
        return torch.cat(features, 1).mean((2, 3))


def _unit(out: Path, model: nn.Module) -> dict[str, str]:
    """The unit of a model in training, which has its gradients."""
    x = torch.randn(2, 3, 32, 32)
    longhand.generate(model, (x,), out=out, train=True)
    assert_gradients_as_exact(model, out, x)
    return {name: (out / name).read_text() for name in ("model.py", "backward.py")}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_attention_of_several_widths_is_given_its_number_of_heads(tmp_path: Path) -> None:
    text = _unit(tmp_path / "unit", Pyramid().train())["model.py"]
    calls = re.findall(r"= attention(?:_\w+)?\(\s*self\.(first|second)\b[^)]*?n_heads=(\d)", text)
    assert calls == [("first", "2"), ("second", "4")], text
    (body,) = re.findall(r"\ndef attention(?:_\w+)?\(.*?\n    return", text, re.S)
    assert not re.search(r"\b(32|64|96|192|256)\b", body), body


def test_layers_of_two_lists_keep_the_number_that_their_calls_are_given(tmp_path: Path) -> None:
    text = _unit(tmp_path / "unit", Mixers().train())["model.py"]
    assert re.findall(r"^class (\w*Mixer)\(", text, re.M) == ["Mixer"]
    assert "padding=self.padding" in text
    assert re.search(r"Mixer\(.*\b24\b.*\b1\) for _ in", text) and re.search(
        r"Mixer\(.*\b40\b.*\b2\) for _ in", text
    )


def test_derivatives_whose_calls_are_given_other_numbers_are_one_function(tmp_path: Path) -> None:
    text = _unit(tmp_path / "unit", Apart().train())["backward.py"]
    assert len(re.findall(r"\.mix\.weight, .*padding=padding", text)) == 1
    assert re.findall(r"mixer_backward\([^()]*padding=(\d)", text) == ["1", "2", "1"]


def test_what_all_layers_do_alike_is_a_function_however_much_each_joins(tmp_path: Path) -> None:
    text = _unit(tmp_path / "unit", Growing().train())["model.py"]
    assert len(re.findall(r"= F\.conv2d\(\w+, \w+\.conv2\.weight", text)) == 1
    assert text.count(".conv2.weight") == 1


@pytest.mark.parametrize("model", [TwoLooks, Smoothed])
def test_each_call_is_given_its_own_numbers(model: type[nn.Module], tmp_path: Path) -> None:
    """Where two functions differ in the number that one of their calls is given, they are two."""
    x, module = torch.randn(2, 3, 64, 64), model().eval()
    longhand.generate(module, (x,), out=tmp_path / "unit")
    torch.testing.assert_close(unit_of(module, tmp_path / "unit")(x), module(x), rtol=1e-4, atol=1e-5)
