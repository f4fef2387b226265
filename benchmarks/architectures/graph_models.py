"""torch_geometric: its common convolutions, each in a network of two layers, on one small graph."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.architectures.example import Example, Factory

_N_NODES, _N_EDGES, _WIDTH = 20, 60, 16

# Class: (settings, what forward is given besides nodes and edges).
_CONVOLUTIONS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "ARMAConv": ({}, ()),
    "ChebConv": ({"K": 3}, ()),
    "ClusterGCNConv": ({}, ()),
    "EGConv": ({"num_heads": 4, "num_bases": 2}, ()),
    "FeaStConv": ({"heads": 2}, ()),
    "FiLMConv": ({}, ()),
    "GATConv": ({"heads": 4, "concat": False}, ()),
    "GATv2Conv": ({"heads": 4, "concat": False}, ()),
    "GCNConv": ({}, ()),
    "GENConv": ({}, ()),
    "GeneralConv": ({}, ()),
    "GraphConv": ({}, ()),
    "LEConv": ({}, ()),
    "MFConv": ({}, ()),
    "ResGatedGraphConv": ({}, ()),
    "SAGEConv": ({}, ()),
    "SGConv": ({"K": 2}, ()),
    "SSGConv": ({"alpha": 0.1, "K": 2}, ()),
    "SuperGATConv": ({"heads": 4, "concat": False}, ()),
    "TAGConv": ({}, ()),
    "TransformerConv": ({"heads": 4, "concat": False}, ()),
    "RGCNConv": ({"num_relations": 3}, ("edge_type",)),
}


class Network(nn.Module):
    """Two convolutions with a ReLU between them.

    Args:
        first: A convolution.
        second: The next.
    """

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        """New features for each node."""
        x = F.relu(self.first(x, edge_index, *more))
        return self.second(x, edge_index, *more)


def graph_factories() -> dict[str, Factory]:
    """By the names of torch_geometric's classes."""

    def factory(name: str, settings: dict[str, Any], more: tuple[str, ...]) -> Factory:
        def make() -> Example:
            import torch_geometric.nn as geometric

            kind = getattr(geometric, name)
            network = Network(kind(_WIDTH, _WIDTH, **settings), kind(_WIDTH, 4, **settings))
            given = {"edge_type": torch.randint(3, (_N_EDGES,))}
            return network.eval(), (*_graph(), *(given[one] for one in more)), {}

        return make

    factories = {name: factory(name, *rest) for name, rest in _CONVOLUTIONS.items()}
    return factories | {
        "GINConv": _gin,
        "GINEConv": _gine,
        "GatedGraphConv": _gated,
        "GCN2Conv": _gcn2,
        "pooled GCN": _pooled,
    }


def _graph() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(_N_NODES, _WIDTH), torch.randint(_N_NODES, (2, _N_EDGES))


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, _WIDTH))


def _gin() -> Example:
    import torch_geometric.nn as geometric

    return Network(geometric.GINConv(_mlp()), geometric.GINConv(_mlp())).eval(), _graph(), {}


def _gine() -> Example:
    import torch_geometric.nn as geometric

    network = Network(geometric.GINEConv(_mlp()), geometric.GINEConv(_mlp()))
    return network.eval(), (*_graph(), torch.randn(_N_EDGES, _WIDTH)), {}


def _gated() -> Example:
    import torch_geometric.nn as geometric

    return geometric.GatedGraphConv(_WIDTH, 2).eval(), _graph(), {}


class _WithStart(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        import torch_geometric.nn as geometric

        self.conv = geometric.GCN2Conv(_WIDTH, alpha=0.1)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.conv(self.conv(x, x, edge_index).relu(), x, edge_index)


def _gcn2() -> Example:
    return _WithStart().eval(), _graph(), {}


class _Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        import torch_geometric.nn as geometric

        self.conv = geometric.GCNConv(_WIDTH, _WIDTH)
        self.pool = geometric.global_mean_pool

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        return self.pool(self.conv(x, edge_index).relu(), batch, 2)


def _pooled() -> Example:
    batch = torch.cat([torch.zeros(_N_NODES // 2), torch.ones(_N_NODES // 2)]).long()
    return _Pooled().eval(), (*_graph(), batch), {}
