"""Where a part of a tensor begins: only a part has a place, what a split returns is all of them."""

from __future__ import annotations

import torch
from torch import fx
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from longhand.schedule.names.meanings.parts import _begins_at

aten = torch.ops.aten


def _nodes(*calls: tuple[object, ...]) -> list[fx.Node]:
    """Views of one tensor after the other, the last first."""
    graph = fx.Graph()
    node, made = graph.placeholder("x"), []
    for target, *args in calls:
        node = graph.call_function(target, (node, *args))  # type: ignore[arg-type]
        made.append(node)
    graph.output(node)
    module = fx.GraphModule(torch.nn.Module(), graph)
    FakeTensorProp(module).propagate(torch.empty(2, 16, 192))
    return made[::-1]


def test_a_part_begins_where_it_stands() -> None:
    views = _nodes((aten.reshape.default, [2, 16, 3, 64]), (aten.select.int, 2, 1))
    assert _begins_at(views, 64)
    assert not _begins_at(views, 0)


def test_all_parts_of_a_split_begin_nowhere() -> None:
    views = _nodes((aten.reshape.default, [2, 16, 3, 64]), (aten.unbind.int, 2))
    assert not _begins_at(views, 0)
