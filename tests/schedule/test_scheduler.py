"""Whole plans, executed literally (memory shared and dropped as planned), compute what eager computes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import sympy
import torch
import torch.nn.functional as F
from torch import nn

from longhand.capture.frontends.export import capture_export
from longhand.capture.graph import InputKind
from longhand.lower.interpreter import bind_sizes, number_of
from longhand.lower.ir import Buffer, BufferKind, Extern, Program, View, ViewCall
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target
from longhand.schedule.plan import Allocate, Launch, PlanStep, Release, Repeat, Reuse, UnitPlan
from longhand.schedule.scheduler import schedule
from tests.lower.conftest import traced
from tests.schedule.execution import PlannedLanes, _by_passes, _straight

TARGETS = {"cpu": Options(Target(Device.CPU)), "cuda": Options(Target(Device.CUDA, "sm_90"))}


class Unit:
    """Runs a plan on flat tensors. Fresh memory is full of NaN; released or reused names are gone."""

    def __init__(self, plan: UnitPlan, inputs: dict[str, torch.Tensor]) -> None:
        self.plan = plan
        self.memory = {name: tensor.reshape(-1) for name, tensor in inputs.items()}
        self.overwritten: list[str] = []
        for step in self.flat(plan.steps):
            self.run(step)

    @staticmethod
    def flat(steps: Iterable[Any]) -> Iterable[PlanStep]:
        for step in steps:
            if isinstance(step, Repeat):
                yield from (inner for run in step.runs for inner in run)
            else:
                yield step

    def run(self, step: PlanStep) -> None:
        match step:
            case Allocate():
                buffer = self.plan.buffers[step.buffer]
                assert step.buffer not in self.memory
                wild = float("nan") if buffer.dtype.is_floating_point else 77
                self.memory[step.buffer] = torch.full((math.prod(buffer.shape),), wild, dtype=buffer.dtype)
            case Reuse():
                assert self.plan.buffers[step.of].kind is BufferKind.INTERMEDIATE
                self.memory[step.buffer] = self.memory[step.of]
                self.overwritten.append(step.of)
            case Release():
                for name in step.buffers:
                    self.memory.pop(name, None)
            case Launch():
                kernel = self.plan.kernels[step.kernel]
                pointers = [pointer for pointer in kernel.pointers if not pointer.scratch]
                given = {p.name: self.memory[name] for p, name in zip(pointers, step.buffers, strict=True)}
                lanes = PlannedLanes(kernel, step, given)
                _by_passes(kernel, lanes) if kernel.passes else _straight(lanes)
                while self.overwritten:
                    del self.memory[self.overwritten.pop()]
            case Extern():
                self.call(step)

    def call(self, step: Extern) -> None:
        result = step.target(*self.real(step.args), **{key: self.real(value) for key, value in step.kwargs})
        if step.memory_format is not None:
            result = result.contiguous(memory_format=step.memory_format)
        results = result if isinstance(result, tuple | list) else [result]
        if not step.outputs:  # in place
            results = []
            while self.overwritten:
                del self.memory[self.overwritten.pop()]
        for name, tensor in zip(step.outputs, results, strict=True):
            if name:
                buffer = self.plan.buffers[name]
                placed = torch.empty_strided(buffer.shape, buffer.stride, dtype=buffer.dtype)
                length = placed.untyped_storage().size() // placed.itemsize
                self.memory[name] = placed.copy_(tensor).as_strided((length,), (1,))

    def real(self, argument: Any) -> Any:
        if isinstance(argument, View):
            buffer = self.plan.buffers[argument.buffer]
            if not buffer.layout_is_known:
                tensor = self.memory[argument.buffer].as_strided(buffer.shape, buffer.stride)
                for call in argument.calls:
                    tensor = call.target(tensor, *call.args)
                return tensor
            return self.memory[argument.buffer].as_strided(argument.shape, argument.stride, argument.offset)
        if isinstance(argument, tuple):
            return [self.real(part) for part in argument]
        return argument

    def results(self) -> list[Any]:
        return [self.real(result) if isinstance(result, View) else result for result in self.plan.results]


def planned(function: Callable[..., Any], *args: torch.Tensor, target: str = "cpu") -> UnitPlan:
    """The plan of a function, checked against eager (mutated arguments included)."""
    copies = [arg.clone() for arg in args]
    graph = traced(function, copies)
    plan = schedule(lower(graph, TARGETS[target]), TARGETS[target])
    names = [entry.node for entry in graph.inputs]
    given = {name: arg.clone() for name, arg in zip(names, args, strict=True)}
    unit = Unit(plan, given)
    expected = function(*copies)
    results = expected if isinstance(expected, tuple) else (expected,)
    for ours, eager in zip(unit.results(), results, strict=True):
        tolerance = 2e-5 if eager.dtype is torch.float32 else 1e-2
        torch.testing.assert_close(ours, eager, rtol=tolerance, atol=tolerance, check_stride=False)
    return plan


def concrete(plan: UnitPlan, inputs: dict[str, torch.Tensor]) -> UnitPlan:
    """The plan for one call of it: numbers for symbolic sizes."""
    sizes = bind_sizes(plan.program, inputs)

    def number(item: Any) -> Any:
        if isinstance(item, sympy.Expr):
            return number_of(item, sizes)
        if isinstance(item, tuple):
            return tuple(number(part) for part in item)
        if isinstance(item, View | Buffer | ViewCall | Launch | Extern | Repeat):
            fields = {field.name: number(getattr(item, field.name)) for field in dataclasses.fields(item)}
            return type(item)(**fields)
        return item

    program = dataclasses.replace(plan.program, results=number(plan.program.results))
    buffers = {name: number(buffer) for name, buffer in plan.buffers.items()}
    return dataclasses.replace(plan, program=program, steps=number(plan.steps), buffers=buffers)


SYMBOLIC: dict[str, tuple[Callable[..., Any], int]] = {
    "softmax": (lambda x, y: torch.softmax(x * 0.5 + y, -1), 1),
    "norm": (lambda x, y: (x + y, F.layer_norm(x + y, x.shape[-1:])), 1),
    "tokens": (lambda x, y: ((x + y).reshape(-1, x.shape[-1]) * 2).view(x.shape).softmax(-1), 1),
    "columns": (lambda x, y: (x * y).sum((0, 1)), 1),
    "cat": (lambda x, y: torch.cat([x.exp(), y.tanh()], 1).sum(-1), 1),
    "slice": (lambda x, y: (x * 2)[:, 1:] - y[:, :-1].sigmoid(), 1),
    "flat": (lambda x, y: (x.reshape(-1, x.shape[-1]) + 1).tanh().view(x.shape) * y, 1),
}


@pytest.mark.parametrize("case", SYMBOLIC)
def test_symbolic_sizes(case: str) -> None:
    """Planned at one size, run at another."""
    function, n_launches = SYMBOLIC[case]
    graph = traced(function, (rand(3, 5, 8), rand(3, 5, 8)), symbolic=True)
    assert graph.symbols
    plan = schedule(lower(graph, TARGETS["cpu"]), TARGETS["cpu"])
    args = (rand(4, 7, 12), rand(4, 7, 12))
    inputs = dict(zip([entry.node for entry in graph.inputs], args, strict=True))
    expected = function(*args)
    results = expected if isinstance(expected, tuple) else (expected,)
    for ours, eager in zip(Unit(concrete(plan, inputs), inputs).results(), results, strict=True):
        torch.testing.assert_close(ours, eager, rtol=2e-5, atol=2e-5, check_stride=False)
    assert len(launches(plan)) == n_launches


def launches(plan: UnitPlan) -> list[Launch]:
    return [step for step in Unit.flat(plan.steps) if isinstance(step, Launch)]


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


bf16 = torch.bfloat16
ONE_KERNEL: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "softmax": (
        lambda x, w: torch.softmax(x * 0.125 + w, -1),
        (rand(32, 40, dtype=bf16), rand(32, 40, dtype=bf16)),
    ),
    "layer_norm": (
        lambda x, r, w, b: F.layer_norm(x + r, (40,), w, b),
        (rand(32, 40), rand(32, 40), rand(40), rand(40)),
    ),
    "add_and_norm": (lambda x, r: (x + r, F.layer_norm(x + r, (40,))), (rand(2, 16, 40), rand(2, 16, 40))),
    "silu_mul": (lambda a, b: F.silu(a) * b, (rand(32, 40, dtype=bf16), rand(32, 40, dtype=bf16))),
    "gelu_bias": (lambda x, b: F.gelu(x + b), (rand(32, 40), rand(40))),
    "column_sum": (lambda x: (x * 2).sum(0), (rand(64, 40),)),
    "transpose_add": (lambda x, y: x.t().contiguous() + y, (rand(32, 40), rand(40, 32))),
    "exp_over_sum": (lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True), (rand(4, 16, 40),)),
    "heads": (
        lambda x, b: torch.softmax((x + b).view(2, 16, 4, 10).transpose(1, 2), -1),
        (rand(32, 40), rand(40)),
    ),
    "sliced_gate": (lambda x: F.silu((x + 1)[:, :20]) * (x + 1)[:, 20:], (rand(32, 40),)),
    "statistics": (lambda x: (x.amax(-1), x.sum(-1), (x * x).mean(-1)), (rand(32, 40),)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", ONE_KERNEL)
def test_one_kernel(case: str, target: str) -> None:
    function, args = ONE_KERNEL[case]
    assert len(launches(planned(function, *args, target=target))) == 1


def test_attention_normalizes_in_place() -> None:
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.bmm(q, k.transpose(1, 2))
        return torch.bmm(torch.exp(scores) / torch.exp(scores).sum(-1, keepdim=True), v)

    plan = planned(attention, *(0.3 * rand(2, 16, 8) for _ in range(3)))
    assert [step.in_place for step in plan.steps if isinstance(step, Reuse)] == [True]
    (kernel,) = plan.kernels.values()
    assert all(pointer.may_alias for pointer in kernel.pointers)


def test_several_results_and_mutations() -> None:
    def step(x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mean = x.mean(0)
        out = (x - state) * 2
        state.mul_(0.9).add_(mean, alpha=0.1)
        return out, out.sum(-1), state

    planned(step, rand(32, 40), rand(40))


def test_row_and_column_sums_are_two_kernels_with_a_reason() -> None:
    plan = planned(lambda x: (x.sum(0), x.sum(1)), rand(32, 40))
    assert len(launches(plan)) == 2
    assert any("different axes" in refusal.reason for refusal in plan.refusals)


def test_equal_work_is_done_once() -> None:
    plan = planned(lambda x, y: (x @ y).tanh() + (x @ y).sigmoid(), rand(8, 8), rand(8, 8))
    assert sum(isinstance(step, Extern) for step in plan.steps) == 1
    assert len(launches(plan)) == 1


class Layer(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Stack(nn.Module):
    """Layers, and a head; the last layer can differ."""

    def __init__(self, dim: int, depth: int, odd: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(dim) for _ in range(depth)])
        if odd:
            self.layers[1].up = nn.Linear(dim, 2 * dim, bias=False)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def exported(module: nn.Module, *args: torch.Tensor) -> tuple[Program, dict[str, torch.Tensor]]:
    graph = capture_export(module.eval(), args, {}, target=TARGETS["cpu"].target)
    state = module.state_dict()
    arguments = iter(args)
    inputs = {
        entry.node: (
            graph.constants[entry.target]
            if entry.kind is InputKind.CONSTANT
            else (state[entry.target] if entry.target in state else next(arguments))
        ).clone()
        for entry in graph.inputs
    }
    return lower(graph, TARGETS["cpu"]), inputs


def folded(module: nn.Module, *args: torch.Tensor) -> list[Repeat]:
    program, inputs = exported(module, *args)
    plan = schedule(program, TARGETS["cpu"])
    torch.testing.assert_close(Unit(plan, inputs).results()[0], module(*args), rtol=1e-4, atol=1e-5)
    return [step for step in plan.steps if isinstance(step, Repeat)]


def test_layers_are_a_repeat() -> None:
    with torch.no_grad():
        (repeat,) = folded(Stack(8, 6), rand(4, 8))
    assert len(repeat.runs) >= 5
    assert len(set(repeat.paths)) == len(repeat.paths)
    for before, after in zip(repeat.outputs, repeat.inputs[1:], strict=False):
        assert set(after) <= set(before)
    kernels = [[step.kernel for step in run if isinstance(step, Launch)] for run in repeat.runs]
    assert all(run == kernels[0] for run in kernels)


def test_a_layer_that_differs_is_in_no_repeat() -> None:
    with torch.no_grad():
        repeats = folded(Stack(8, 6, odd=True), rand(4, 8))
    assert all("layers.1" not in repeat.paths for repeat in repeats)


class Short(nn.Module):
    """Two layers of one call and one kernel each."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def test_two_short_layers_are_spelled_out_and_two_long_ones_are_a_loop() -> None:
    with torch.no_grad():
        assert folded(Short(8), rand(4, 8)) == []
        (repeat,) = folded(Stack(8, 2), rand(4, 8))
    assert [len(run) for run in repeat.runs] == [7, 7]


def test_kernels_between_convolutions_that_are_channels_last():
    def block(x, w1, w2, scale):
        out = F.conv2d(x, w1, padding=1)
        out = F.conv2d(torch.relu(out * scale), w2, padding=1) + out
        return torch.tanh(out * scale), out.view(2, -1)

    w1, w2 = torch.randn(72, 8, 3, 3) / 8, torch.randn(72, 72, 3, 3) / 25
    plan = planned(block, torch.randn(2, 8, 6, 5), w1, w2, torch.randn(72, 1, 1), target="cuda")
    assert sum(isinstance(step, Extern) for step in plan.steps) == 2
    assert sum(isinstance(step, Launch) for step in plan.steps) == 3


def test_a_new_tensor_is_made_like_what_its_launch_reads():
    def model(x, mask, row):
        return torch.tanh(x + row).exp() * mask, (x > row).sum(1)

    plan = planned(model, torch.randn(6, 5), torch.rand(6, 5) > 0.5, torch.randn(5))
    made = {step.buffer: step for step in plan.steps if isinstance(step, Allocate)}
    by_shape = {tuple(plan.buffers[name].shape): step for name, step in made.items()}
    assert by_shape[6, 5].beside == ("arg0_1", "arg2_1") and by_shape[6, 5].like == ("arg0_1",)
    assert by_shape[(6,)].like == ()  # whole numbers
