"""Operators that a file calls several times in one way are functions at its top, and a call is one line."""

from pathlib import Path

import torch
from torch import nn

import longhand


class Normed(nn.Module):
    """Convolutions of ever more channels, each with its batch norm and a pool of the same windows."""

    def __init__(self, n_blocks: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(4 + n, 5 + n, 3, padding=1) for n in range(n_blocks)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(5 + n) for n in range(n_blocks)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = nn.functional.max_pool2d(norm(conv(x)), 3, stride=2, padding=1)
        return x


def of_normed(folder: Path, n_blocks: int) -> tuple[Normed, torch.Tensor, str, str]:
    torch.manual_seed(0)
    model, x = Normed(n_blocks).train(), torch.randn(2, 4, 16, 16, requires_grad=True)
    longhand.generate(model, (x,), out=folder, device="cpu", train=True)
    return model, x, (folder / "model.py").read_text(), (folder / "backward.py").read_text()


def test_calls_with_what_one_module_holds_are_a_line_each(tmp_path: Path) -> None:
    model, x, forward, backward = of_normed(tmp_path, 4)
    assert forward.count("torch.native_batch_norm(") == 1
    assert "def batch_norm(x, norm):" in forward
    assert forward.count("= batch_norm(") == 4
    assert forward.count("torch.ops.aten.max_pool2d_with_indices.default(") == 1
    assert backward.count("torch.ops.aten.max_pool2d_with_indices_backward.default(") == 1
    assert not [line for line in (forward + backward).splitlines() if len(line) > 110]
    unit = longhand.load(tmp_path)().train()
    unit.load_state_dict(model.state_dict())
    given = x.detach().clone().requires_grad_()
    unit(given).square().sum().backward()
    model(x).square().sum().backward()
    torch.testing.assert_close(given.grad, x.grad)
    for own, other in zip(unit.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(own.grad, other.grad)


def test_a_single_call_stays_where_it_is(tmp_path: Path) -> None:
    _, _, forward, _ = of_normed(tmp_path, 1)
    assert "def batch_norm" not in forward and "def max_pool2d" not in forward
    assert "= torch.native_batch_norm(" in forward


def test_an_operator_called_in_many_ways(tmp_path: Path) -> None:
    """More ways than there are names for functions: the last ones' calls stay where they are."""

    def many_ways(x: torch.Tensor) -> list[torch.Tensor]:
        results = []
        for _ in range(4):
            x = x + 1
            for inverse, counts in ((False, False), (False, True), (True, False), (True, True)):
                for is_sorted in (False, True):
                    found = torch.unique(x, is_sorted, inverse, counts)
                    results.append(found[0] if inverse or counts else found)
        return results

    x = torch.tensor([3.0, 1.0, 3.0, 2.0])
    longhand.generate(many_ways, (x,), out=tmp_path, device="cpu")
    text = (tmp_path / "model.py").read_text()
    assert text.count("torch.ops.aten._unique2.default(") > 3
    for own, expected in zip(longhand.load(tmp_path)(x), many_ways(x), strict=True):
        torch.testing.assert_close(own, expected)
