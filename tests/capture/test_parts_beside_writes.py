"""What is read beside what was written into a view is what there was before: no copy of all of it is kept alive."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from longhand.capture.frontends.export import capture_export
from longhand.options import Device, Target


def interleaved(x: torch.Tensor) -> torch.Tensor:
    """As multimodal rotary positions are: rows of one table written over the first one."""
    table = x * 2
    first = table[0]
    for row in (1, 2):
        first[..., row::3] = table[row, ..., row::3]
    return first


def written_row(x: torch.Tensor) -> torch.Tensor:
    """The row that was written is read."""
    table = x * 2
    table[1] = x[0]
    return table[1] + table[0]


def from_the_end(x: torch.Tensor) -> torch.Tensor:
    """The written row is named from the end."""
    table = x * 2
    table[-1] = x[0]
    return table[2] + table[0]


def other_dimension(x: torch.Tensor) -> torch.Tensor:
    """A row of another dimension goes through what was written."""
    table = x * 2
    table[0] = x[1]
    return table[:, 1]


def whole(x: torch.Tensor) -> torch.Tensor:
    """All of it is read, too."""
    table = x * 2
    table[0] = x[1]
    return table + table[1]


CASES = (interleaved, written_row, from_the_end, other_dimension, whole)


def calls_of(function: Callable[[torch.Tensor], torch.Tensor]) -> list[str]:
    graph = capture_export(function, (torch.randn(3, 4, 9),), {}, target=Target(Device.CPU, None))
    return [str(node.target) for node in graph.graph.nodes]


def test_what_nothing_that_is_written_is_read_of_is_not_written() -> None:
    assert not any("select_scatter" in call for call in calls_of(interleaved))


@pytest.mark.parametrize("function", CASES[1:])
def test_what_is_read_stays_written(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert any("scatter" in call or "copy" in call for call in calls_of(function))


@pytest.mark.parametrize("function", CASES)
def test_the_values_are_those_of_eager(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.randn(3, 4, 9)
    graph = capture_export(function, (x,), {}, target=Target(Device.CPU, None))
    module = torch.fx.GraphModule(torch.nn.Module(), graph.graph)
    found = module(x)
    torch.testing.assert_close(found[0] if isinstance(found, tuple | list) else found, function(x))


def test_the_callers_tensor_is_written_where_it_lies() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x[0] = x[1] * 2
        return x[2] + 1

    assert any("select_scatter" in call for call in calls_of(function))
