"""Kernels of the same math are one, in whatever order the axes of what they read lie in memory."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand


class HeadsApart(nn.Module):
    """A softmax of heads that stand behind the tokens, and one of heads that stand before them."""

    def __init__(self, *, is_weighted: bool) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(24, 24), nn.Linear(24, 24)
        self.is_weighted = is_weighted

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, seq, _ = x.shape
        one = self.one(x).view(batch, seq, 4, 6).transpose(1, 2)
        two = self.two(x).view(batch, 4, seq, 6)
        if self.is_weighted:
            one, two = one * w, two * w
        return torch.softmax(one * 2.0, -1).contiguous(), torch.softmax(two * 2.0, -1).contiguous()


class PartAndWhole(nn.Module):
    """A layer norm of some of a tensor's tokens, and one of all tokens of another."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.other = nn.LayerNorm(24), nn.LayerNorm(24)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.norm(x[:, 2:]), self.other(y)


def _unit(model: nn.Module, given: tuple[torch.Tensor, ...], out: Path) -> list[str]:
    """Generates it for the CPU, compares it with eager, and returns the names of its kernels."""
    longhand.generate(model.eval(), given, out=out)
    unit = longhand.load(out)()
    unit.load_state_dict(model.state_dict())
    with torch.no_grad():
        for mine, theirs in zip(unit(*given), model(*given), strict=True):
            torch.testing.assert_close(mine, theirs)
    return sorted(path.stem for path in (out / "kernels").glob("*.cpp"))


def _calls(out: Path, kernel: str) -> list[dict[str, str]]:
    """What each call of a kernel is given by keyword: the values of the module's constants."""
    tree = ast.parse((out / "model.py").read_text())
    constants = {
        ast.unparse(node.targets[0]): ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
    }
    return [
        {
            given.arg or "": constants.get(ast.unparse(given.value), ast.unparse(given.value))
            for given in node.keywords
        }
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"kernels.{kernel}"
    ]


@pytest.mark.parametrize("is_weighted", [False, True])
def test_heads_before_and_behind_tokens_are_walked_by_strides(is_weighted: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    given = torch.randn(2, 5, 24), torch.rand(4, 5, 6)
    (kernel,) = _unit(HeadsApart(is_weighted=is_weighted), given, tmp_path / "unit")
    text = (tmp_path / "unit" / "kernels" / f"{kernel}.cpp").read_text()
    assert ") by strides" in text
    one, two = _calls(tmp_path / "unit", kernel)
    strides = [word for word in one if word.endswith("_stride")]
    assert len(strides) == 3 and any(one[word] != two[word] for word in strides)
    assert one.keys() == two.keys()  # each tells its sizes by the tensors that it is given


def test_what_lies_as_its_result_is_still_overwritten(tmp_path: Path) -> None:
    torch.manual_seed(0)
    out = tmp_path / "unit"
    (kernel,) = _unit(HeadsApart(is_weighted=False), (torch.randn(2, 5, 24), torch.rand(4, 5, 6)), out)
    assert "; may be " in (out / "kernels" / f"{kernel}.cpp").read_text()
    assert (out / "model.py").read_text().count("empty(") == 1, "what is transposed has memory of its own"


def test_a_part_of_each_batch_and_a_whole_tensor_are_one_norm(tmp_path: Path) -> None:
    torch.manual_seed(0)
    kernels = _unit(PartAndWhole(), (torch.randn(2, 5, 24), torch.randn(3, 7, 24)), tmp_path / "unit")
    assert kernels == ["layer_norm"]


def test_the_same_math_along_other_lanes_is_two_kernels(tmp_path: Path) -> None:
    class Across(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.softmax(x, -1), torch.softmax(y.transpose(1, 2), -1).contiguous()

    given = torch.randn(2, 40, 48), torch.randn(2, 48, 40)
    assert len(_unit(Across(), given, tmp_path / "unit")) == 2


class PartsOfImages(nn.Module):
    """Layer norms of images without their padding, of whole ones, and of one that is a single pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(24) for _ in range(3))

    def forward(
        self, padded: torch.Tensor, whole: torch.Tensor, pixel: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        images = padded[:, :4, :5], whole, pixel
        return tuple(norm(image) for norm, image in zip(self.norms, images, strict=True))


def test_a_kernel_of_which_not_every_call_has_the_axes_stays_as_it_is(tmp_path: Path) -> None:
    """As in SAM 2, whose last images are one pixel: there were two axes where the padded ones have four."""
    given = torch.randn(2, 7, 7, 24), torch.randn(2, 4, 5, 24), torch.randn(2, 1, 1, 24)
    assert len(_unit(PartsOfImages(), given, tmp_path / "unit")) == 2
