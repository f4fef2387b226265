"""The cases that the CPU and the GPU benchmark share."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

import longhand
from benchmarks.timing import Function, Row
from examples.gpt import Block
from longhand.factory import Call, resolve
from longhand.loading import bound
from longhand.verify.original import moved

GALLERY = Path(__file__).resolve().parent.parent / "generated"


def eager(call: Call) -> Function:
    """The model as it is."""
    return call.model


def torch_compile(call: Call, mode: str = "default") -> Function:
    """torch.compile with its own compiler."""
    torch.compiler.reset()
    return torch.compile(call.model, mode=mode)


def unit(call: Call, folder: Path, *, device: str, mode: str = "default") -> Function:
    """The unit in a folder; generated there if there is none."""
    if not (folder / "longhand.lock").exists():
        longhand.generate(call.model, call.args, call.kwargs, out=folder, device=device, mode=mode)
    return bound(longhand.load(folder), call.model)


def longhand_compile(call: Call) -> Function:
    """longhand through torch's Dynamo."""
    torch.compiler.reset()
    return torch.compile(call.model, backend="longhand", options={"strict": True})


def example(factory: str, device: str) -> Call:
    """An example's call on a device."""
    return moved(resolve(factory), device)


def contenders(folder: Path, device: str, mode: str = "default") -> Mapping[str, Callable[[Call], Function]]:
    """Eager, torch.compile and the unit in a folder."""
    return {
        "eager": eager,
        "torch.compile": functools.partial(torch_compile, mode=mode),
        "longhand": functools.partial(unit, folder=folder, device=device, mode=mode),
    }


def fused_row(name: str, size: str, folder: Path, device: str, goal_ms: float | None = None) -> Row:
    """A function of fused_ops."""
    make = functools.partial(example, f"examples.fused_ops:{size}.{name}", device)
    return Row(name, make, contenders(folder, device), is_memory_bound=True, goal_ms=goal_ms)


def model_row(name: str, size: str, folder: Path, device: str, mode: str = "default") -> Row:
    """A model of the gallery."""
    make = functools.partial(example, f"examples.{name}:{size}", device)
    return Row(f"{name} {size}", make, contenders(folder, device, mode))


@dataclasses.dataclass(frozen=True)
class BlockCall:
    """Makes the call of one GPT block in bfloat16, 16 heads of 64 (`Block`) on the device."""

    batch: int
    seq: int
    dim: int
    device: str

    def __call__(self) -> Call:
        model: nn.Module = Block(self.dim, self.dim // 64).eval().to(self.device, torch.bfloat16)
        x: Any = torch.randn(self.batch, self.seq, self.dim, device=self.device, dtype=torch.bfloat16)
        return Call(model, (x,), {})
