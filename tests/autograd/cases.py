"""What a case of the sweep over training is: a program that trains through a compiler, and how it must come out.

A case is run twice, with `wrap` the identity and with `wrap` the compiler, and returns what can be seen of it: results,
gradients, statistics, flags. Both runs must return the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

Seen = dict[str, torch.Tensor | None]
Wrap = Callable[[Callable], Callable]


@dataclasses.dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        run: From `wrap` to what is seen.
        refused: What the reason says, as a regular expression, that some of it runs in eager; None where nothing may.
        breaks: What longhand's own capture says where it breaks the graph; None where it may not.
        is_whole: Through longhand's own capture nothing runs in eager, though through Dynamo it does.
        tolerance: Relative to the largest number of each tensor. None for 16 bits: `run` takes `in_float64`, too, and
            what is seen is at most twice as far from that as eager's is.
    """

    run: Callable[..., Seen]
    refused: str | None
    breaks: str | None
    tolerance: float | None
    is_whole: bool = False


# Up to torch 2.12 Dynamo makes an autograd function of a hook on a tensor.
HOOKS = "register_hook|autograd_function_apply"


class Cases(dict[str, Case]):
    """A module's cases, collected by its decorator."""

    def __call__(
        self,
        refused: str | None = None,
        breaks: str | None = None,
        tolerance: float | None = 1e-5,
        *,
        is_whole: bool = False,
    ) -> Callable:
        def register(run: Callable[..., Seen]) -> Callable[..., Seen]:
            self[run.__name__] = Case(run, refused, breaks, tolerance, is_whole)
            return run

        return register


class Mlp(nn.Module):
    """Two layers, always with the same weights."""

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(8, 16)
        self.b = nn.Linear(16, 8)
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.gelu(self.a(x))
        return self.b(F.dropout(h, self.p, self.training))


def leaf(*shape: int, grad: bool = True, seed: int = 1, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Always the same numbers for a seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype).requires_grad_(grad)


def gradients(model: nn.Module | None = None, **tensors: torch.Tensor) -> Seen:
    """The gradients of a model's parameters and of further tensors."""
    found: Seen = {f"d_{name}": tensor.grad for name, tensor in tensors.items()}
    if model is not None:
        found |= {f"d_{name}": parameter.grad for name, parameter in model.named_parameters()}
    return found


def flags(*values: bool) -> torch.Tensor:
    """What is seen of what is no tensor."""
    return torch.tensor(values)
