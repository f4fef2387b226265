"""Training steps that the user records whole as CUDA graphs, and what cannot be recorded."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import longhand
from longhand.compiled.backend import GraphReport, longhand_backend

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def make() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    layers = (
        nn.Linear(64, 256),
        nn.GELU(),
        nn.Dropout(0.5),
        nn.Linear(256, 64),
        nn.LayerNorm(64),
        nn.Dropout(0.2),
    )
    return nn.Sequential(*layers).cuda(), torch.randn(128, 64, device="cuda")


def step_of(
    model: nn.Module, run: Callable[..., torch.Tensor], x: torch.Tensor
) -> Callable[[], torch.Tensor]:
    def step() -> torch.Tensor:
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()
        loss = run(x).square().mean()
        loss.backward()
        return loss.detach()

    return step


def warm_up(step: Callable[[], torch.Tensor]) -> None:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)


def seen(model: nn.Module, step: Callable[[], torch.Tensor], n_steps: int) -> list[list[torch.Tensor]]:
    """The loss and all gradients of each step, from one seed."""
    torch.manual_seed(5)
    found = []
    for _ in range(n_steps):
        loss = step().clone()
        found.append([loss, *(parameter.grad.clone() for parameter in model.parameters())])
    return found


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_recorded_step_draws_new_masks_and_follows_the_seed(mode: str) -> None:
    model, x = make()
    step = step_of(model, longhand.compile(model, mode=mode), x)
    warm_up(step)
    unrecorded = seen(model, step, 3)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay() -> torch.Tensor:
        graph.replay()
        return loss

    first, second = seen(model, replay, 3), seen(model, replay, 3)
    for number in range(3):
        for again, before, plain in zip(second[number], first[number], unrecorded[number], strict=True):
            assert torch.equal(again, before), "the seed says which masks are drawn"
            torch.testing.assert_close(before, plain, rtol=1e-5, atol=1e-6, msg="recorded and not")
    assert not torch.equal(first[0][0], first[1][0]), "each replay draws masks of its own"


def test_a_recorded_mask_drops_its_share_and_the_backward_reads_it() -> None:
    """Eager's dropout on CUDA draws otherwise than ATen's bernoulli: there only the statistics agree."""
    dropout = nn.Dropout(0.3).cuda()
    x = torch.ones(1000, 1000, device="cuda", requires_grad=True)
    run = longhand.compile(dropout)

    def step() -> torch.Tensor:
        if x.grad is not None:
            x.grad.zero_()
        result = run(x)
        result.sum().backward()
        return result.detach()

    warm_up(step)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
    for _ in range(3):
        graph.replay()
        assert torch.equal(result, x.grad), "of ones, both are the mask over what is kept"
        assert abs(float((result == 0).double().mean()) - 0.3) < 5 * (0.3 * 0.7 / x.numel()) ** 0.5
        torch.testing.assert_close(result.max(), torch.tensor(1 / 0.7, device="cuda"))


def test_what_cannot_be_recorded_in_training_is_told() -> None:
    """A training step whose number of elements its data decide."""

    def chosen(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x[x > 0] * w).sum()

    torch.compiler.reset()
    reports: list[GraphReport] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
        return longhand_backend(graph, inputs, mode="reduce-overhead", report=reports.append)

    x, w = torch.randn(64, device="cuda"), torch.ones((), device="cuda", requires_grad=True)
    torch.compile(chosen, backend=backend)(x, w).backward()
    torch.testing.assert_close(w.grad, x[x > 0].sum())
