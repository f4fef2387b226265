"""Equal blocks whose images differ: what tells a size of one tells that of the others, and a loop is no obstacle."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.emit.text.told_sizes import with_single
from tests.same_gradients import assert_gradients_as_exact


def _conv(n_in: int, n_out: int, stride: int) -> nn.Conv3d:
    return nn.Conv3d(n_in, n_out, 3, stride, 1, bias=False)


class Block(nn.Module):
    """A residual block of deep images."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Sequential(_conv(n_in, n_out, stride), nn.BatchNorm3d(n_out), nn.ReLU(inplace=True))
        self.conv2 = nn.Sequential(_conv(n_out, n_out, 1), nn.BatchNorm3d(n_out))
        self.relu = nn.ReLU(inplace=True)
        wide = nn.Conv3d(n_in, n_out, 1, stride, bias=False)
        self.shortcut = nn.Sequential(wide, nn.BatchNorm3d(n_out)) if n_in != n_out else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.conv2(self.conv1(x))
        out += x if self.shortcut is None else self.shortcut(x)
        return self.relu(out)


class Deep(nn.Module):
    """Two blocks of the stem's width, and three stages, of which the last has images of one slice."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv3d(3, 8, 3, padding=1, bias=False), nn.BatchNorm3d(8), nn.ReLU())
        self.layer1 = nn.Sequential(Block(8, 8, 1), Block(8, 8, 1))
        self.layer2 = nn.Sequential(Block(8, 16, 2), Block(16, 16, 1))
        self.layer3 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1))
        self.layer4 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1))
        self.head = nn.Linear(64, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer4(self.layer3(self.layer2(self.layer1(self.stem(x)))))
        return self.head(x.mean((2, 3, 4)))


@pytest.fixture(scope="module")
def on_cuda(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("deep") / "unit"
    longhand.generate(
        Deep().train(),
        (torch.randn(1, 3, 8, 32, 32),),
        out=folder,
        train=True,
        device="cuda",
        arch="sm_90",
        run=False,
    )
    return {name: (folder / name).read_text() for name in ("model.py", "backward.py")}


def _functions_called(text: str, ending: str) -> list[str]:
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    names = [ast.unparse(call.func) for call in calls]
    return [
        name
        for name in names
        if re.fullmatch(rf"(\w*_)?block(_\w+)?{ending}|(layer\d_\d(_(and|to)_)?)+{ending}", name)
    ]


def test_the_gradients_are_the_models(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Deep().train(), torch.randn(2, 3, 8, 32, 32)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=True)
    assert_gradients_as_exact(model, tmp_path / "unit", x)


def test_blocks_of_deep_and_of_flat_images_are_one_function(on_cuda: dict[str, str]) -> None:
    called = _functions_called(on_cuda["model.py"], "")
    called = [name for name in called if not name.endswith("_weights")]
    assert len(called) >= 5 and len(set(called)) <= 3, called


def test_their_derivatives_are_one_function(on_cuda: dict[str, str]) -> None:
    called = _functions_called(on_cuda["backward.py"], "_backward")
    assert len(called) >= 7 and len(set(called)) <= 4, called


def test_what_is_averaged_is_told_by_the_image(on_cuda: dict[str, str]) -> None:
    for text in on_cuda.values():
        assert not re.search(r"(n_averaged|piece_size)=\d", text)


def test_no_loop_gathers_a_list_of_each_tensor(on_cuda: dict[str, str]) -> None:
    assert ".append(" not in on_cuda["model.py"]


def test_a_dimension_of_one_place_belongs_to_the_image() -> None:
    order = range(5)
    assert [*with_single([3, 4], order, (1, 64, 1, 4, 4))] == [2, 3, 4]
    assert [*with_single([3, 4], order, (1, 64, 2, 4, 4))] == [3, 4]
    assert [*with_single([2, 3], range(4), (2, 1, 4, 4))] == [2, 3]  # the channels are no part of it
    assert [*with_single([3, 4], (0, 2, 3, 4, 1), (1, 64, 1, 4, 4))] == [3, 4]
