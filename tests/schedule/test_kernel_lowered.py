"""Every nest that lowering makes of real code can be planned, and its plan means the same, for both devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from longhand.lower.interpreter import bind_sizes, flat, number_of, run_nest
from longhand.lower.interpreter import run_program as interpret
from longhand.lower.ir import Load, Nest, Store
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.kernels.space import refusal
from tests.lower.conftest import lowered
from tests.schedule.execution import run_plan
from tests.schedule.nests import DEVICES


def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


def heads(x: torch.Tensor) -> torch.Tensor:
    q, k, v = x.chunk(3, -1)
    batch, seq, dim = q.shape
    q, k, v = (part.view(batch, seq, 4, dim // 4).transpose(1, 2) for part in (q, k, v))
    return torch.cat((q + k, v.flip(-1)), 2).transpose(1, 2).reshape(batch, seq * 2, dim)


def group_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    batch, channels, *size = x.shape
    groups = x.view(batch, 2, channels // 2, *size)
    var, mean = torch.var_mean(groups, (2, 3, 4), correction=0, keepdim=True)
    return ((groups - mean) * torch.rsqrt(var + 1e-5)).view(x.shape) * weight[:, None, None]


FUNCTIONS: dict[str, tuple[Callable[..., object], tuple[torch.Tensor, ...]]] = {
    "softmax": (lambda x: torch.softmax(x, -1), (torch.randn(5, 19),)),
    "softmax middle": (lambda x: torch.softmax(x, 1), (torch.randn(2, 9, 7),)),
    "log_softmax": (lambda x: F.log_softmax(x.half(), -1), (torch.randn(4, 3, 11),)),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (16,), w, b),
        (torch.randn(2, 5, 16), torch.randn(16), torch.randn(16)),
    ),
    "group_norm": (group_norm, (torch.randn(2, 6, 4, 5), torch.randn(6))),
    "batch_norm": (
        lambda x, mean, var: F.relu((x - mean[:, None, None]) / torch.sqrt(var[:, None, None] + 1e-5)),
        (torch.randn(2, 6, 4, 5), torch.randn(6), torch.rand(6) + 0.5),
    ),
    "var": (lambda x: torch.var(x, (0, 2)), (torch.randn(4, 5, 6),)),
    "sums": (lambda x: (x.sum(), x.sum(0), x.mean(1), x.amax((0, 2))), (torch.randn(6, 5, 4),)),
    "long sums": (lambda x: (x.sum(), x.sum(0), x.double().sum(1)), (torch.randn(700, 130),)),
    "argmax": (lambda x: (x.argmax(-1), x.argmax(), x.argmin(0)), (torch.randn(6, 5, 4),)),
    "integers": (
        lambda x: ((x * 200).sum(1), x.max(), (x > 5).any(0), (x // 3) % 2),
        (torch.randint(-100, 100, (7, 9), dtype=torch.int8),),
    ),
    "rotary": (rotary, (torch.randn(2, 3, 5, 8), torch.randn(5, 8), torch.randn(5, 8))),
    "heads": (heads, (torch.randn(2, 5, 24),)),
    "gelu bias": (lambda x, b: F.gelu(x + b), (torch.randn(4, 8, 16).bfloat16(), torch.randn(16).bfloat16())),
    "swiglu": (lambda x: F.silu(x[..., :8]) * x[..., 8:], (torch.randn(4, 16).bfloat16(),)),
    "transposed": (lambda x, y: x.t().contiguous() + y, (torch.randn(40, 33), torch.randn(33, 40))),
    "causal": (
        lambda x: torch.softmax(x.masked_fill(torch.ones(7, 7).triu(1).bool(), -1e9), -1),
        (torch.randn(2, 7, 7),),
    ),
    "embedding": (lambda i, w: F.embedding(i, w) * 2, (torch.randint(0, 9, (3, 4)), torch.randn(9, 6))),
    "cross_entropy": (
        lambda x, t: F.cross_entropy(x, t, reduction="none"),
        (torch.randn(5, 11), torch.randint(0, 11, (5,))),
    ),
    "padded": (lambda x: F.pad(x, (1, 2, 0, 3)) + 1, (torch.randn(3, 4, 5),)),
    "windows": (lambda x: x.unfold(1, 4, 2).sum(-1), (torch.randn(3, 12),)),
    "strided": (lambda x: x[:, ::2].t() * x[:, 1::2].t(), (torch.randn(6, 10),)),
    "scalar": (lambda x: x * 2 + 1, (torch.randn(()),)),
    "tril": (lambda x: torch.tril(x) + torch.arange(6) * 2, (torch.randn(5, 6),)),
}


@pytest.mark.parametrize("options", DEVICES, ids=("cpu", "cuda"))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_lowered_nests(name: str, options) -> None:
    function, args = FUNCTIONS[name]
    result = lowered(function, *args)
    program = result.program
    before = interpret(program, {name: tensor.clone() for name, tensor in result.inputs.items()})
    assert result.nests
    for nest in result.nests:
        check_nest(nest, program.buffers, before, options)


def check_nest(nest: Nest, described, tensors, options) -> None:
    assert refusal(nest) is None
    plan, launch = plan_kernel(nest, described, options)
    named = {value.buffer for value in nest.body if hasattr(value, "buffer")}
    written = {value.buffer for value in nest.body if isinstance(value, Store)}
    expected = {name: flat(tensors[name]).clone() for name in named}
    for name in written:
        expected[name].zero_()
    memory = {name: tensor.clone() for name, tensor in expected.items()}
    run_nest(nest, expected)
    actual = run_plan(plan, launch, memory)
    for name in written:
        torch.testing.assert_close(actual[name], expected[name], rtol=1e-4, atol=1e-5, equal_nan=True)


SYMBOLIC = (
    "softmax",
    "layer_norm",
    "sums",
    "rotary",
    "gelu bias",
    "transposed",
    "cross_entropy",
)


@pytest.mark.parametrize("options", DEVICES, ids=("cpu", "cuda"))
@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_nests(name: str, options) -> None:
    """Planned once with symbols, the launch's sizes and strides evaluated afterwards."""
    function, args = FUNCTIONS[name]
    result = lowered(function, *args, symbolic=True)
    program, inputs = result.program, {name: tensor.clone() for name, tensor in result.inputs.items()}
    sizes = bind_sizes(program, inputs)
    assert sizes
    tensors = interpret(program, inputs)
    hints = {symbol.symbol: symbol.example for symbol in program.graph.symbols}
    for nest in result.nests:
        plan, launch = plan_kernel(nest, program.buffers, options, hints)
        bound = dataclasses.replace(
            launch,
            sizes=tuple(number_of(size, sizes) for size in launch.sizes),
            ints=tuple(number_of(size, sizes) for size in launch.ints),
            scalars=tuple(number_of(value, sizes) for value in launch.scalars),
        )
        named = {value.buffer for value in nest.body if isinstance(value, Load | Store)}
        memory = {name: flat(tensors[name]).clone() for name in named}
        expected = {name: tensor.clone() for name, tensor in memory.items()}
        run_nest(nest, expected, sizes=sizes)
        actual = run_plan(plan, bound, memory)
        for name in named:
            torch.testing.assert_close(actual[name], expected[name], rtol=1e-4, atol=1e-5, equal_nan=True)
