"""What only lays a value out anew vanishes from a graph, but for where a call returns it: it lies as in eager."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import longhand

CASES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "turned": lambda x: (x * 2).transpose(2, 3).contiguous(),
    "rows": lambda x: (x * 2).flatten(2).transpose(1, 2).contiguous(),
    "clone": lambda x: (x * 2).permute(0, 2, 3, 1).clone(memory_format=torch.contiguous_format),
    "channels last": lambda x: (x * 2).contiguous(memory_format=torch.channels_last),
    "from channels last": lambda x: x.to(memory_format=torch.channels_last).sin().contiguous(),
    "to": lambda x: x.sin().to(memory_format=torch.channels_last),
    "norm": lambda x: F.layer_norm(x.permute(0, 2, 3, 1), (4,)).permute(0, 3, 1, 2).contiguous(),
    "of a library's": lambda x: F.conv2d(x, x[:, :, :2, :2]).flatten(2).transpose(1, 2).contiguous(),
    "a library's": lambda x: F.conv2d(x, x[:, :, :2, :2]).contiguous(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_results_lie_as_in_eager(name: str, trains: bool) -> None:
    x = torch.randn(2, 4, 6, 5, requires_grad=trains)
    eager, ours = CASES[name](x), longhand.compile(CASES[name])(x)
    assert ours.stride() == eager.stride()
    torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("trains", [False, True])
def test_a_librarys_result_lies_as_that_of_the_copy_it_is_made_of(trains: bool) -> None:
    def normed(x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x.clone(memory_format=torch.contiguous_format), None, None, training=True)

    x = torch.randn(2, 4, 6, 5).to(memory_format=torch.channels_last).requires_grad_(trains)
    eager, ours = normed(x), longhand.compile(normed)(x)
    assert ours.stride() == eager.stride()
    torch.testing.assert_close(ours, eager)
