"""Updates of lists of parameters, compiled: few launches for all of them, and what they compute is eager's."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree

import examples.adamw
import longhand
from longhand.compiled.backend import GraphReport, longhand_backend
from longhand.compiled.from_bytecode import captured
from longhand.verify.comparison import compare

SHAPES = [(16, 16), (16,), (16, 64), (64,), (1,), (), (3, 5, 7)]
LARGER = [shape for shape in SHAPES if torch.Size(shape).numel() > 1]
LR, BETA1, BETA2, EPS, DECAY = 1e-3, 0.9, 0.99, 1e-8, 0.01
State = tuple[Any, ...]


def loop(params, grads, exp_avgs, exp_avg_sqs, step: float) -> None:
    """As a person writes it."""
    for param, grad, exp_avg, exp_avg_sq in zip(params, grads, exp_avgs, exp_avg_sqs, strict=True):
        param.mul_(1 - LR * DECAY)
        exp_avg.lerp_(grad, 1 - BETA1)
        exp_avg_sq.mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
        denominator = (exp_avg_sq / (1 - BETA2**step)).sqrt_().add_(EPS)
        param.addcdiv_(exp_avg, denominator, value=-LR / (1 - BETA1**step))


def foreach(params, grads, exp_avgs, exp_avg_sqs, step: float) -> None:
    """As torch.optim writes it."""
    torch._foreach_mul_(params, 1 - LR * DECAY)
    torch._foreach_lerp_(exp_avgs, grads, 1 - BETA1)
    torch._foreach_mul_(exp_avg_sqs, BETA2)
    torch._foreach_addcmul_(exp_avg_sqs, grads, grads, value=1 - BETA2)
    denominators = torch._foreach_div(exp_avg_sqs, 1 - BETA2**step)
    torch._foreach_sqrt_(denominators)
    torch._foreach_add_(denominators, EPS)
    torch._foreach_addcdiv_(params, exp_avgs, denominators, value=-LR / (1 - BETA1**step))


def steps_of_their_own(params, grads, exp_avgs, exp_avg_sqs, steps) -> None:
    """As torch.optim does where it is capturable: every parameter counts its steps in a tensor."""
    torch._foreach_add_(steps, 1)
    torch._foreach_lerp_(exp_avgs, grads, 1 - BETA1)
    torch._foreach_mul_(exp_avg_sqs, BETA2)
    torch._foreach_addcmul_(exp_avg_sqs, grads, grads, 1 - BETA2)
    corrections = torch._foreach_pow(BETA1, steps)
    torch._foreach_sub_(corrections, 1)
    torch._foreach_div_(corrections, LR)
    denominators = torch._foreach_sqrt(exp_avg_sqs)
    torch._foreach_add_(denominators, EPS)
    torch._foreach_mul_(denominators, corrections)
    torch._foreach_addcdiv_(params, exp_avgs, denominators)


def amsgrad(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs) -> None:
    """The second moment never falls."""
    for param, grad, exp_avg, exp_avg_sq, largest in zip(
        params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, strict=True
    ):
        exp_avg.lerp_(grad, 1 - BETA1)
        exp_avg_sq.mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
        largest.copy_(torch.maximum(largest, exp_avg_sq))
        param.addcdiv_(exp_avg, largest.sqrt().add_(EPS), value=-LR)


def sgd(params, grads, momenta, lr) -> None:
    """With momentum, Nesterov's."""
    grads = torch._foreach_add(grads, params, alpha=DECAY)
    torch._foreach_mul_(momenta, 0.9)
    torch._foreach_add_(momenta, grads)
    grads = torch._foreach_add(grads, momenta, alpha=0.9)
    for param, grad in zip(params, grads, strict=True):
        param.sub_(lr * grad)


def as_new(params, grads):
    """Returns what others would write."""
    return [param - LR * grad for param, grad in zip(params, grads, strict=True)]


def zero(grads) -> None:
    torch._foreach_zero_(grads)


def two_in_a_row(params, grads) -> None:
    """The second update reads what the first one wrote."""
    for _ in range(2):
        for param, grad in zip(params, grads, strict=True):
            param.sub_(grad * param)


def chained(params, grads) -> None:
    """Each parameter takes what the one before has become: no list can be made."""
    last = grads[0][0]
    for param in params:
        param.sub_(last)
        last = param[0] * 2


def _tensors(n_lists: int, shapes=SHAPES, dtype=torch.float32) -> list[list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [[torch.rand(shape, generator=generator).to(dtype) for shape in shapes] for _ in range(n_lists)]


def _mixed() -> State:
    lists = _tensors(4)
    half = [[tensor.bfloat16() for tensor in tensors] for tensors in lists]
    return (*(one + other for one, other in zip(lists, half, strict=True)), 3.0)


def _strided() -> State:
    """Two parameters and their gradients are transposed, one other is only a part."""
    lists = _tensors(4, [(8, 6)] * 9)
    for tensors in lists[:2]:
        tensors[1] = tensors[1].t().contiguous().t()
        tensors[4] = torch.rand(8, 12)[:, ::2]
    return (*lists, 3.0)


@dataclasses.dataclass(frozen=True)
class Case:
    """An update, what it is given, and how many kernels and launches it becomes."""

    update: Callable[..., None]
    state: Callable[[], State]
    n_kernels: int
    n_launches: int


CASES = {
    "loop": Case(loop, lambda: (*_tensors(4), 3.0), 1, 1),
    "foreach": Case(foreach, lambda: (*_tensors(4), 3.0), 1, 1),
    "steps": Case(
        steps_of_their_own, lambda: (*_tensors(4, LARGER), [torch.tensor(float(n)) for n in range(5)]), 2, 2
    ),
    "amsgrad": Case(amsgrad, lambda: tuple(_tensors(5)), 1, 1),
    "sgd": Case(sgd, lambda: (*_tensors(3), torch.tensor(0.1)), 1, 1),
    "as new": Case(as_new, lambda: tuple(_tensors(2)), 1, 1),
    "zero": Case(zero, lambda: tuple(_tensors(1)), 1, 1),
    "bfloat16": Case(loop, lambda: (*_tensors(4, dtype=torch.bfloat16), 3.0), 1, 1),
    "two dtypes": Case(loop, _mixed, 2, 2),
    "empty": Case(loop, lambda: (*_tensors(4, [(4, 0), *SHAPES, (0,)]), 3.0), 1, 1),
    "strided": Case(loop, _strided, 3, 3),
    "few": Case(loop, lambda: (*_tensors(4, [(8,), (9,), (10, 3)]), 3.0), 1, 3),
    "two in a row": Case(two_in_a_row, lambda: tuple(_tensors(2)), 1, 1),
    "chained": Case(chained, lambda: tuple(_tensors(2, [(size,) for size in range(6, 12)])), 3, 6),
    "gallery": Case(examples.adamw.adamw, lambda: examples.adamw.state([(40000,), *SHAPES]), 2, 2),
}


def in_float64(state: State) -> State:
    return pytree.tree_map_only(torch.Tensor, torch.Tensor.double, state)


def run(case: Case, path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[GraphReport], State, State, State]:
    """What became of the graph; the state after two steps of ours, of eager and of eager in float64."""
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(path / "cache"))  # so that it is made now
    reports: list[GraphReport] = []
    compiled = captured(case.update, report=reports.append)
    states = []
    for _ in range(2):
        torch.manual_seed(0)
        states.append(case.state())
    ours, eager = states
    exact = in_float64(eager)
    results = []
    for state, update in ((ours, compiled), (eager, case.update), (exact, case.update)):
        update(*state)
        results.append((state, update(*state)))
    return reports, *results


@pytest.mark.parametrize("name", CASES)
def test_it_is_few_launches_and_eagers_result(name: str, tmp_path, monkeypatch) -> None:
    case = CASES[name]
    reports, *states = run(case, tmp_path, monkeypatch)
    assert [report.reason for report in reports] == [None]
    summary = reports[0].summary
    assert summary is not None
    assert (summary.n_kernels, summary.n_launches) == (case.n_kernels, case.n_launches)
    assert not summary.library_calls
    leaves = [[leaf for leaf in pytree.tree_leaves(state) if torch.is_tensor(leaf)] for state in states]
    for place, (ours, eager, exact) in enumerate(zip(*leaves, strict=True)):
        comparison = compare(f"tensor {place}", ours, eager, exact)
        assert comparison.is_right, comparison


def test_tensors_that_share_memory_run_in_eager(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path / "cache"))
    compiled = captured(loop)
    memory = torch.rand(100)
    states = []
    for update in (compiled, loop):
        params, grads, exp_avgs, exp_avg_sqs = _tensors(4, [(60,)] * 5)
        whole = memory.clone()
        params[0], params[3] = whole[:60], whole[40:]
        update(params, grads, exp_avgs, exp_avg_sqs, 3.0)
        states.append(params)
    for ours, eager in zip(*states, strict=True):
        assert torch.equal(ours, eager)


def test_gradients_at_new_addresses_are_read_there(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path / "cache"))
    compiled = captured(sgd)
    ours, eager = (_tensors(3) for _ in range(2))
    for step in range(4):
        grads = [torch.full_like(grad, float(step)) for grad in ours[1]]
        compiled(ours[0], grads, ours[2], torch.tensor(0.1))
        sgd(eager[0], [grad.clone() for grad in grads], eager[2], torch.tensor(0.1))
    for mine, theirs in zip(ours[0], eager[0], strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("foreach", [False, True])
def test_the_gallerys_step_is_that_of_torch_optim(foreach: bool) -> None:
    from generated.adamw_cpu import adamw

    shapes = examples.adamw.gpt_shapes(512, 128, 128, 4)
    params, _, exp_avgs, exp_avg_sqs, step, lr = examples.adamw.state(shapes)
    for state in (*exp_avgs, *exp_avg_sqs, step):
        state.zero_()
    theirs = [param.clone().requires_grad_() for param in params]
    exact = [param.double().requires_grad_() for param in params]
    options = {"lr": lr.item(), "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
    optimizers = [torch.optim.AdamW(given, foreach=foreach, **options) for given in (theirs, exact)]
    for _ in range(3):
        grads = [torch.randn(shape) for shape in shapes]
        adamw(params, grads, exp_avgs, exp_avg_sqs, step, lr)
        for given in (theirs, exact):
            for param, grad in zip(given, grads, strict=True):
                param.grad = grad.to(param.dtype)
        for optimizer in optimizers:
            optimizer.step()
    assert step == 3
    for place, (mine, eager, true) in enumerate(zip(params, theirs, exact, strict=True)):
        comparison = compare(f"parameter {place}", mine, eager.detach(), true.detach())
        assert comparison.is_right, comparison


STEPS = {
    "adamw foreach": (torch.optim.AdamW, {"foreach": True, "weight_decay": 0.1}, 2),
    "adamw loop": (torch.optim.AdamW, {"foreach": False, "weight_decay": 0.1}, 2),
    "amsgrad": (torch.optim.Adam, {"foreach": True, "amsgrad": True}, 2),
    "sgd": (torch.optim.SGD, {"foreach": True, "momentum": 0.9, "nesterov": True}, 1),
    "maximize": (torch.optim.SGD, {"foreach": False, "maximize": True}, 1),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_torch_optim_is_few_launches(name: str, tmp_path, monkeypatch) -> None:
    """Captured by Dynamo, which looks into optimizers. The first step, which makes the state, is eager's."""
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path / "cache"))
    torch.compiler.reset()
    optimizer, options, n_launches = STEPS[name]
    reports: list[GraphReport] = []
    backend = functools.partial(longhand_backend, report=reports.append)
    shapes = [(16, 16), (16,), (16, 64), (64,), (3, 5, 7)]
    generator = torch.Generator().manual_seed(0)
    first = [torch.randn(shape, generator=generator) for shape in shapes]
    grads = [[torch.randn(shape, generator=generator) for shape in shapes] for _ in range(4)]
    results = []
    for dtype, is_compiled in ((torch.float32, True), (torch.float32, False), (torch.float64, False)):
        params = [param.to(dtype, copy=True).requires_grad_() for param in first]
        made = optimizer(params, lr=0.01, **options)
        step = made.step
        for number, of_step in enumerate(grads):
            made.zero_grad(set_to_none=True)
            for param, grad in zip(params, of_step, strict=True):
                param.grad = grad.to(dtype, copy=True)
            if is_compiled and number == 1:
                step = torch.compile(step, backend=backend)
            step()
        results.append([param.detach() for param in params])
    assert [report.reason for report in reports] == [None]
    assert reports[0].summary is not None
    assert reports[0].summary.n_launches == n_launches
    for place, (mine, eager, true) in enumerate(zip(*results, strict=True)):
        comparison = compare(f"parameter {place}", mine, eager, true)
        assert comparison.is_right, comparison


def _after_three_steps(name: str, compiled: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Any:
    """The optimizer and its parameters; the first step, which makes the state, is eager's."""
    optimizer, options, _ = STEPS[name]
    generator = torch.Generator().manual_seed(0)
    params = [torch.randn(size, generator=generator).requires_grad_() for size in (64, 7, 30, 9)]
    made = optimizer(params, lr=0.01, **options)
    for number in range(3):
        for param in params:
            param.grad = torch.randn(param.shape, generator=generator)
        (compiled(made.step) if number else made.step)()
    return made, [param.detach().clone() for param in params]


@pytest.mark.parametrize("name", ["adamw foreach", "adamw loop", "sgd"])
def test_the_step_of_an_optimizer_needs_no_other_frontend(name: str, tmp_path, monkeypatch) -> None:
    """longhand.compile and longhand.explain take Dynamo for it by themselves."""
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path / "cache"))
    torch.compiler.reset()
    made, ours = _after_three_steps(name, functools.partial(longhand.compile, options={"strict": True}))
    _, eager = _after_three_steps(name, lambda step: step)
    for mine, theirs in zip(ours, eager, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)
    explained = longhand.explain(made.step)()
    assert [graph.reason for graph in explained.graphs] == [None]
    assert not explained.breaks


@pytest.mark.parametrize("max_norm", [0.5, 1e6], ids=("clipped", "as they are"))
def test_gradients_are_clipped_as_in_eager(max_norm: float, tmp_path, monkeypatch) -> None:
    """By way of Dynamo: longhand's own capture breaks where gradients are read."""
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path / "cache"))
    torch.compiler.reset()
    reports: list[GraphReport] = []
    backend = functools.partial(longhand_backend, report=reports.append)

    def clip(params: list[torch.Tensor]) -> torch.Tensor:
        return torch.nn.utils.clip_grad_norm_(params, max_norm)

    results = []
    for run, dtype in (
        (torch.compile(clip, backend=backend), torch.float32),
        (clip, torch.float32),
        (clip, torch.float64),
    ):
        generator = torch.Generator().manual_seed(0)
        params = [torch.zeros(shape, dtype=dtype, requires_grad=True) for shape in SHAPES]
        for param in params:
            param.grad = torch.randn(param.shape, generator=generator).to(dtype)
        norm = run(params)
        results.append([norm, *(param.grad for param in params)])
    assert [report.reason for report in reports] == [None]
    for place, (mine, theirs, true) in enumerate(zip(*results, strict=True)):
        comparison = compare(f"norm or gradient {place}", mine, theirs, true)
        assert comparison.is_right, comparison
