"""Training steps that longhand records as CUDA graphs, forward and backward each.

Each step of the mode that records is compared with the default mode's, of a copy of the model, from one seed. Steps
that the user records whole are in tests/gpu/test_steps_recorded_whole.py.
"""

from __future__ import annotations

import copy
import gc
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import longhand

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def about(name: str) -> Callable[[str], str]:
    """How a difference is told: whose it is, and how large."""
    return lambda text: f"{name}: {text}"


class Recorded:
    """A model in the mode that records, and a copy of it in another, step by step."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.other = copy.deepcopy(model)
        self.run = longhand.compile(self.model, mode="reduce-overhead")
        self.plain = longhand.compile(self.other)
        self.optimizers = [torch.optim.AdamW(one.parameters(), lr=1e-3) for one in (self.model, self.other)]

    def compare(self) -> None:
        for (name, ours), theirs in zip(self.model.named_parameters(), self.other.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, msg=about(name))
            if theirs.grad is not None:
                torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-5, msg=about(name))
        for (name, ours), theirs in zip(self.model.named_buffers(), self.other.buffers(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, msg=about(name))

    def both(self, step: Callable[..., Any], seed: int, x: torch.Tensor | None = None) -> None:
        """The same step of both, from one seed, and compared."""
        results = []
        for run, model, optimizer in zip(
            (self.run, self.plain), (self.model, self.other), self.optimizers, strict=True
        ):
            torch.manual_seed(seed)
            results.append(step(run, model, optimizer, x))
        torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)
        self.compare()


@pytest.fixture
def told() -> Iterator[list[str]]:
    """What the recorders of units say, from debug on."""
    found: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "CUDA graph" in record.msg:
                found.append(record.getMessage())

    handler = Handler(logging.DEBUG)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield found
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts replays of CUDA graphs."""
    count = [0]
    replay = torch.cuda.CUDAGraph.replay

    def counted(self: Any) -> None:
        count[0] += 1
        replay(self)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", counted)
    return count


def batches(*shape: int, n: int = 3) -> list[torch.Tensor]:
    torch.manual_seed(7)
    return [torch.randn(*shape, device="cuda") for _ in range(n)]


def wide() -> nn.Module:
    """Large enough that gradients and results are lent."""
    torch.manual_seed(0)
    layers = (nn.Linear(256, 512), nn.GELU(), nn.Dropout(0.3), nn.Linear(512, 256), nn.LayerNorm(256))
    return nn.Sequential(*layers).cuda()


def test_steps_with_updates_are_replayed_and_equal(replays: list[int], told: list[str]) -> None:
    pair = Recorded(wide())

    def step(run: Any, model: Any, optimizer: Any, x: Any) -> torch.Tensor:
        optimizer.zero_grad()
        y = run(x)
        loss = y.square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for number, x in enumerate(batches(192, 256) * 4):
        pair.both(step, number, x)
    assert replays[0] >= 2 * 10, told
    assert all("first step" in one or "elsewhere" in one for one in told), told


def test_zero_grad_between_forward_and_backward(replays: list[int]) -> None:
    pair = Recorded(wide())

    def step(run: Any, model: Any, optimizer: Any, x: Any) -> torch.Tensor:
        loss = run(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    (x,) = batches(192, 256, n=1)
    for number in range(8):
        pair.both(step, number, x)
    assert replays[0] >= 2 * 5


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_add_up_over_micro_batches(set_to_none: bool, replays: list[int]) -> None:
    pair = Recorded(wide())
    parts = batches(96, 256, n=2)

    def step(run: Any, model: Any, optimizer: Any, x: Any) -> torch.Tensor:
        total = torch.zeros((), device="cuda")
        for part in parts:
            loss = run(part).square().mean() / 2
            loss.backward()
            total += loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad(set_to_none=set_to_none)
        return total

    for number in range(6):
        pair.both(step, number)
    assert replays[0] >= 2 * 6


def test_two_forwards_then_two_backwards() -> None:
    pair = Recorded(wide())
    parts = batches(96, 256, n=2)

    def step(run: Any, model: Any, optimizer: Any, x: Any) -> list[torch.Tensor]:
        losses = [run(part).square().mean() for part in parts]
        for loss in losses:
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return [loss.detach() for loss in losses]

    for number in range(5):
        pair.both(step, number)


def test_shapes_that_change_share_memory(replays: list[int]) -> None:
    pair = Recorded(wide())
    parts = [torch.randn(rows, 256, device="cuda") for rows in (64, 160, 32)]

    def step(run: Any, model: Any, optimizer: Any, x: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = run(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for number, x in enumerate(parts * 5):
        pair.both(step, number, x)
    assert replays[0] >= 2 * 3 * 2


def test_what_is_kept_is_not_written_over(replays: list[int]) -> None:
    pair = Recorded(wide())
    kept: dict[str, list[torch.Tensor]] = {"ours": [], "theirs": []}

    def step(run: Any, model: Any, optimizer: Any, x: Any) -> torch.Tensor:
        optimizer.zero_grad()
        y = run(x)
        y.square().mean().backward()
        kept["ours" if model is pair.model else "theirs"] += [
            y.detach()[3:].t(),
            *(one.grad.view(-1)[5:] for one in model.parameters()),
        ]
        optimizer.step()
        return y.detach().clone()

    for number, x in enumerate(batches(192, 256) * 3):
        pair.both(step, number, x)
    torch.testing.assert_close(kept["ours"], kept["theirs"], rtol=1e-3, atol=1e-5)
    assert replays[0] >= 2 * 5


def test_retained_graphs_and_no_gradients(replays: list[int]) -> None:
    pair = Recorded(wide())
    (x,) = batches(192, 256, n=1)

    def step(run: Any, model: Any, optimizer: Any, x: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = run(x).square().mean()
        if number % 3 == 1:
            loss.backward(retain_graph=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for number in range(9):
        pair.both(step, number, x)
    with torch.no_grad():
        assert pair.run(x).shape == pair.plain(x).shape
    assert replays[0] >= 2 * 4
    with pytest.raises(RuntimeError, match="second derivative"):
        torch.autograd.grad(pair.run(x).sum(), [*pair.model.parameters()], create_graph=True)
    # The next call is eager's; differentiated once, it gives those after it back, of all models with this graph.
    before = replays[0]
    pair.run(x).sum().backward()
    assert replays[0] == before
    pair.run(x).sum().backward()
    assert replays[0] == before + 2


def test_a_scaler() -> None:
    pair = Recorded(wide())
    (x,) = batches(192, 256, n=1)
    scalers = {id(run): torch.amp.GradScaler("cuda", init_scale=2.0**10) for run in (pair.run, pair.plain)}

    def step(run: Any, model: Any, optimizer: Any, x: Any) -> torch.Tensor:
        scaler = scalers[id(run)]
        optimizer.zero_grad()
        # The squares alone of what is normalized add up to a constant: gradients of rounding.
        loss = run(x).sigmoid().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    for number in range(6):
        pair.both(step, number, x)


def test_batch_norm_counts_each_step_once(replays: list[int]) -> None:
    torch.manual_seed(0)
    layers = (
        nn.Conv2d(3, 16, 3, padding=1, bias=False),  # before a norm, its gradient is noise
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    pair = Recorded(nn.Sequential(*layers, nn.Linear(16, 5)).cuda())

    def step(run: Any, model: Any, optimizer: Any, x: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(run(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    target = torch.arange(8, device="cuda") % 5
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        for number, x in enumerate(batches(8, 3, 32, 32) * 3):
            pair.both(step, number, x)
    assert replays[0] >= 2 * 6


def test_a_unit_on_disk_is_replayed_and_frees_its_memory(tmp_path: Path, replays: list[int]) -> None:
    model = wide()
    (x,) = batches(192, 256, n=1)
    longhand.generate(model, (x,), out=tmp_path / "wide_unit", train=True, mode="reduce-overhead")
    unit = longhand.load(tmp_path / "wide_unit")().cuda()
    unit.load_state_dict(model.state_dict())
    plain = longhand.compile(model)
    before = 0
    for number in range(6):
        gradients = []
        for run, owner in ((unit, unit), (plain, model)):
            torch.manual_seed(number)
            owner.zero_grad()
            run(x).square().mean().backward()
            gradients.append([one.grad.clone() for one in owner.parameters()])
        torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-3, atol=1e-5)
        del gradients
        if number == 3:
            before = torch.cuda.memory_allocated()
    assert replays[0] >= 2 * 4
    assert torch.cuda.memory_allocated() <= before
    unit.zero_grad()
    del unit, run, owner
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() < before


def test_checkpoints_and_threads_and_streams() -> None:
    pair = Recorded(wide())
    (x,) = batches(192, 256, n=1)
    side = torch.cuda.Stream()

    def step(run: Any, model: Any, optimizer: Any, x: Any) -> torch.Tensor:
        optimizer.zero_grad()
        if number % 2:
            loss = checkpoint(lambda given: run(given).square().mean(), x, use_reentrant=False)
            loss.backward()
        else:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                loss = run(x).square().mean()
                loss.backward()
            torch.cuda.current_stream().wait_stream(side)
        optimizer.step()
        return loss.detach()

    for number in range(8):
        pair.both(step, number, x)
