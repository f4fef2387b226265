"""What passes do once for a graph they do not do again for each of its results, buffers or nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest
import torch
from torch import fx

from longhand.capture.autograd.kept.recomputed_chains import links_to_keep
from longhand.lower.draft import LoweringDraft
from longhand.lower.lowering import lower
from longhand.lower.passes import PASSES
from tests.lower.conftest import OPTIONS, traced

N_FEW, N_MANY = 4, 64


def several(n: int) -> Callable[..., tuple[torch.Tensor, ...]]:
    return lambda x: tuple(x * float(factor) for factor in range(2, 2 + n))


def times_that_nodes_are_listed(n: int, monkeypatch: pytest.MonkeyPatch) -> int:
    found: dict[str, LoweringDraft] = {}
    lower(traced(several(n), [torch.randn(6)]), OPTIONS, show=found.__setitem__)
    names = [one.name for one in PASSES]
    place = names.index("return_results")
    listed: list[object] = []
    nodes = fx.Graph.nodes
    assert isinstance(nodes, property) and nodes.fget is not None
    read = nodes.fget
    with monkeypatch.context() as patch:
        patch.setattr(fx.Graph, "nodes", property(lambda graph: (listed.append(graph), read(graph))[1]))
        made = PASSES[place].apply(found[names[place - 1]])
    assert len(made.results) == n
    return len(listed)


def test_nodes_are_not_listed_for_each_result(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (times_that_nodes_are_listed(n, monkeypatch) for n in (N_FEW, N_MANY))
    assert few == many


class Counted(Collection[Any]):
    """A collection that counts how often it is gone through."""

    def __init__(self, items: Collection[Any]) -> None:
        self._items = items
        self.n_times = 0

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __iter__(self) -> Iterator[Any]:
        self.n_times += 1
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


def test_what_is_computed_again_is_not_gone_through_for_each_node() -> None:
    graph = fx.Graph()
    node = graph.placeholder("x")
    region = [node := graph.call_function(torch.neg, (node,)) for _ in range(N_MANY)]
    again = Counted(set(region))
    links_to_keep(region, again, frozenset())
    assert again.n_times == 1
