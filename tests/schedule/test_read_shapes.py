"""Buffers are allocated in the shape in which library calls read them, and calls read copies that are made anyway."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.lower.ir import Extern, View, ViewCall
from longhand.schedule.layout_copies import read_copies
from tests.same_gradients import assert_same_gradients

aten = torch.ops.aten
TRANSPOSE = ViewCall(aten.transpose.int, (1, 2))
FLAT = ViewCall(aten.view.default, ([6, 20],))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(12)
        self.qkv = nn.Linear(12, 36)
        self.proj = nn.Linear(12, 12)
        self.up = nn.Linear(12, 20)
        self.down = nn.Linear(20, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, dim = x.shape
        q, k, v = (
            part.view(batch, seq, 3, 4).transpose(1, 2) for part in self.qkv(self.norm(x)).split(dim, 2)
        )
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, seq, dim))
        return x + self.down(F.gelu(self.up(x)))


class Stack(nn.Module):
    def __init__(self, n_layers: int = 3) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(n_layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def trained_text(model: nn.Module, x: torch.Tensor, out: Path) -> str:
    """backward.py without its line breaks, once the unit has eager's results and gradients."""
    longhand.generate(model, (x.clone().requires_grad_(),), out=out, train=True)
    assert_same_gradients(model, out, x.clone().requires_grad_())
    return " ".join((out / "backward.py").read_text().split())


@pytest.mark.parametrize("batch", [1, 3])
def test_what_kernels_hand_to_matmuls_has_their_shape(batch: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    text = trained_text(Stack(), torch.randn(batch, 5, 12), tmp_path / "unit")
    calls = re.findall(r"torch\.mm\( ?(.*?)\) ", text)
    assert len(calls) > 8
    viewed = {name for call in calls for name in re.findall(r"(\w+)\.(?:view|reshape|transpose\(1)", call)}
    # What the caller gives and what the forward pass saved as its own result; what kernels make here is flat.
    assert viewed <= {"x", "block_2_x", "d_x", "d_block_x", "attended", "block_0_attended", "residual"}


def test_a_result_keeps_its_shape(tmp_path: Path) -> None:
    def normed(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = F.layer_norm(x, (6,))
        return hidden, hidden.view(-1, 6) @ weight

    x, weight = torch.randn(2, 3, 6), torch.randn(6, 4)
    longhand.generate(normed, (x, weight), out=tmp_path / "unit")
    for got, wanted in zip(longhand.load(tmp_path / "unit")(x, weight), normed(x, weight), strict=True):
        torch.testing.assert_close(got, wanted)


def test_a_value_read_in_two_shapes_has_the_one_of_more_reads(tmp_path: Path) -> None:
    def twice(x: torch.Tensor, weight: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(x) * 2
        flat = hidden.view(-1, 6)
        return (flat @ weight).sum() + (flat @ other).sum() + torch.bmm(hidden, hidden.transpose(1, 2)).sum()

    x, weight, other = torch.randn(4, 3, 6), torch.randn(6, 4), torch.randn(6, 9)
    longhand.generate(twice, (x, weight, other), out=tmp_path / "unit")
    torch.testing.assert_close(longhand.load(tmp_path / "unit")(x, weight, other), twice(x, weight, other))


def test_sizes_that_vary(tmp_path: Path) -> None:
    def projected(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.mm((torch.tanh(x) * 2).view(-1, 6), weight)

    x, weight = torch.randn(4, 3, 6), torch.randn(6, 4)
    shapes = {"x": {0: torch.export.Dim("batch", min=2)}, "weight": None}
    longhand.generate(projected, (x, weight), out=tmp_path / "unit", dynamic_shapes=shapes)
    unit = longhand.load(tmp_path / "unit")
    for batch in (4, 7):
        x = torch.randn(batch, 3, 6)
        torch.testing.assert_close(unit(x, weight), projected(x, weight))
    assert "reshape" not in (tmp_path / "unit/model.py").read_text()


def view(*calls: ViewCall, shape: tuple[int, ...] = (6, 20), stride: tuple[int, ...] = (20, 1)) -> View:
    return View("gradient", shape, stride, 0, calls)


def call(target: torch._ops.OpOverload, *args: object, out: str = "made") -> Extern:
    return Extern(target, args, (), (out,))


COPY = call(aten.contiguous.default, view(TRANSPOSE, FLAT), out="copy")


def test_a_matmul_reads_the_copy() -> None:
    turn = ViewCall(aten.t.default, ())
    steps = (COPY, call(aten.mm.default, view(TRANSPOSE, FLAT, turn, shape=(20, 6), stride=(1, 20)), view()))
    _, product = read_copies(steps)
    assert isinstance(product, Extern)
    assert product.args == (View("copy", (20, 6), (1, 20), 0, (turn,)), view())


def test_a_copy_stands_before_its_first_reader() -> None:
    product = call(aten.relu.default, view(TRANSPOSE, FLAT))
    copy, reader, last = read_copies((product, COPY, product))
    assert copy == COPY and isinstance(reader, Extern) and isinstance(last, Extern)
    assert reader.args == last.args == (View("copy", (6, 20), (20, 1), 0, ()),)


@pytest.mark.parametrize(
    "other",
    [
        view(TRANSPOSE),
        view(FLAT),
        view(TRANSPOSE, ViewCall(aten.view.default, ([20, 6],))),
        View("another", (6, 20), (20, 1), 0, (TRANSPOSE, FLAT)),
    ],
)
def test_other_views_are_no_copy(other: View) -> None:
    steps = (COPY, call(aten.relu.default, other))
    assert read_copies(steps) == steps


def test_what_a_call_writes_into_is_no_copy() -> None:
    writes = Extern(aten.relu_.default, (view(),), (), (), mutates=("gradient",))
    steps = (COPY, writes, call(aten.relu.default, view(TRANSPOSE, FLAT)))
    assert read_copies(steps) == steps
