"""A kernel that a file launches three times or more with what a module holds is a function, called after the kernel."""

import itertools
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand

WIDTHS = (4, 6, 10, 12, 8)


class Convolutions(nn.Module):
    """Convolutions of ever other widths, each with its norm; the last ones are added to what they were given."""

    def __init__(self, n_plain: int = 4, n_added: int = 3) -> None:
        super().__init__()
        widths = WIDTHS[: n_plain + 1]
        self.convs = nn.ModuleList([nn.Conv2d(a, b, 3, padding=1) for a, b in itertools.pairwise(widths)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(width) for width in widths[1:]])
        self.last = nn.ModuleDict(
            {f"conv_{n}": nn.Conv2d(widths[-1], widths[-1], 1 + 2 * n, padding=n) for n in range(n_added)}
        )
        self.added = nn.ModuleDict({f"norm_{n}": nn.BatchNorm2d(widths[-1]) for n in range(n_added)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = torch.relu(norm(conv(x)))
        for name, conv in self.last.items():
            x = x + self.added[name.replace("conv", "norm")](conv(x))
        return x


class Plain(Convolutions):
    """The same without functions between them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = norm(conv(x))
        return x


def made(model: Convolutions) -> Convolutions:
    """In eval, with statistics that a fresh one has not."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.normal_(module.weight)
    return model.eval()


def written(model: Convolutions, folder: Path, device: str = "cpu", **wanted: bool) -> str:
    """model.py of a unit that takes images of 9 x 9."""
    arch = "sm_90" if device == "cuda" else None
    given = (torch.randn(2, 4, 9, 9),)
    longhand.generate(model, given, out=folder, device=device, arch=arch, run=False, **wanted)
    return (folder / "model.py").read_text()


def called(text: str, kernel: str) -> int:
    """How often a file launches it."""
    return text.count(f"kernels.{kernel}(")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_launch_is_written_once_and_called_by_its_module(tmp_path: Path, device: str) -> None:
    text = written(made(Convolutions()), tmp_path / "unit", device)
    functions = re.findall(r"def (\w*batch_norm\w*)\((\w+), [\w, ]+\):\n    \"\"\"([^\"]*)\"\"\"", text)
    assert len(functions) == 2
    for name, norm, remark in functions:
        kernel = name.removesuffix("_in_place")
        assert called(text, kernel) == 1
        assert remark.startswith(
            f"kernels.{kernel} by {norm}'s own running_mean, running_var, weight and bias"
        )
        assert name.endswith("_in_place") == ("Overwrites " in remark)
    relu = next(name for name, *_ in functions if "relu" in name)
    assert [f"{relu}(self.norms[{n}], " in text for n in range(4)] == [True] * 4
    assert max(map(len, text.splitlines())) <= 110


def test_two_launches_stay_where_they_are(tmp_path: Path) -> None:
    text = written(made(Convolutions(2, 0)), tmp_path / "unit")
    assert "def batch_norm" not in text and called(text, "batch_norm_relu") == 2


def test_results_are_eagers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = made(Convolutions()), torch.randn(2, 4, 9, 9)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu")
    unit = longhand.load(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(x), model(x))
    given = torch.randn(2, 4, 9, 9)
    given[0, 1, 2, 3] = torch.nan
    torch.testing.assert_close(unit(given), model(given), equal_nan=True)


def test_statistics_of_a_norm_are_one_call(tmp_path: Path) -> None:
    text = written(Convolutions(4, 0).train(), tmp_path / "unit", "cuda", train=True)
    assert called(text, "piece_statistics") == 1 and called(text, "batch_statistics") == 1
    assert len(re.findall(r"mean, \w+rstd = batch_statistics\w*\(self\.norms\[\d\], ", text)) == 4


def test_what_it_says_of_itself_is_a_line(tmp_path: Path) -> None:
    text = written(Plain(4, 0).train(), tmp_path / "unit", "cuda", train=True)
    remark = next(line for line in text.splitlines() if line.startswith('    """kernels.batch_norm '))
    assert remark == '    """kernels.batch_norm and what it reads, by what norm holds."""'
    assert max(map(len, text.splitlines())) <= 110
