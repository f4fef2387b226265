"""Recurrent cells and layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.models.handwritten.registry import model, normal


@model(normal(3, 5, 12))
class Gru(nn.Module):
    """A GRU cell by hand, over five steps."""

    def __init__(self) -> None:
        super().__init__()
        self.input = nn.Linear(12, 48)
        self.hidden = nn.Linear(16, 48)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(x.shape[0], 16)
        for step in range(x.shape[1]):
            cell_x = self.input(x[:, step])
            cell_h = self.hidden(state)
            reset_x, update_x, new_x = cell_x.chunk(3, -1)
            reset_h, update_h, new_h = cell_h.chunk(3, -1)
            reset = torch.sigmoid(reset_x + reset_h)
            update = torch.sigmoid(update_x + update_h)
            new = torch.tanh(new_x + reset * new_h)
            state = (1 - update) * new + update * state
        return state


class _GruCell(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.x = nn.Linear(dim, 3 * hidden)
        self.h = nn.Linear(hidden, 3 * hidden)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        xr, xz, xn = self.x(x).chunk(3, dim=-1)
        hr, hz, hn = self.h(h).chunk(3, dim=-1)
        r = torch.sigmoid(xr + hr)
        z = torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        return (1 - z) * n + z * h


@model(normal(4, 6, 10))
class GruWithCell(nn.Module):
    """The cell as a module of its own, called ``cell``."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = _GruCell(10, 16)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.shape[0], 16, device=x.device)
        outs = []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            outs.append(h)
        return torch.stack(outs, dim=1)


@model(normal(3, 5, 12))
class Lstm(nn.Module):
    """An LSTM by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Linear(12 + 16, 64)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.zeros(x.shape[0], 16)
        c = torch.zeros(x.shape[0], 16)
        for t in range(x.shape[1]):
            i, f, g, o = self.gates(torch.cat([x[:, t], h], dim=-1)).chunk(4, dim=-1)
            c = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h, c
