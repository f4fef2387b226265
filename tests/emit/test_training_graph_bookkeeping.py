"""The bookkeeping of recorded training steps, on the CPU: a stand-in for CUDA computes where a graph would replay.

What the stand-in is, tests/emit/recorded_pair.py tells. What needs a GPU (capture, streams, random numbers) is in
tests/gpu/test_training_graph.py.
"""

from __future__ import annotations

import copy
import logging
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from longhand.emit.unit.templates import write_runtime
from tests.emit.recorded_pair import N, Net, Pair, Pool, inputs, net_forward, runtime_on_stand_ins


@pytest.fixture
def pool() -> Pool:
    return Pool()


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: Pool) -> ModuleType:
    return runtime_on_stand_ins(tmp_path, monkeypatch, pool)


@pytest.fixture
def pair(runtime: Any, pool: Pool) -> Pair:
    return Pair(runtime, pool)


def test_the_first_step_runs_and_the_second_is_recorded(pair: Pair) -> None:
    x = inputs()
    for number in range(5):
        x.normal_()
        pair.step(x)
        assert pair.replays == ([number] * 2 if number else [])
    # One ran, one was recorded, and the stand-in computes where a graph replays.
    assert pair.net.runs == 1 + 1 + 4


def test_inputs_that_lie_elsewhere_are_copied_from_then_on(pair: Pair) -> None:
    same = inputs()
    held = []
    for number in range(6):
        x = same if number < 3 else inputs(seed=number)
        held.append(x)
        pair.step(x)
    known = next(iter(pair.net._graph.shapes.values()))
    assert known.copied == {0}
    assert len(pair.pool.graphs) == 4, "recorded once in place, and once with copies"


def test_gradients_of_results_that_lie_elsewhere_are_copied_from_then_on(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="training_runtime")
    x = inputs()
    for _ in range(3):
        pair.step(x)
    held = []
    for _ in range(4):
        held.append(pair.zeros.pop((6, N)))  # the next step's is another
        pair.step(x)
    assert caplog.text.count("the results' gradients lie elsewhere") == 1
    known = next(iter(pair.net._graph.shapes.values()))
    assert 0 in known.copied_gradients and len(pair.pool.graphs) == 4 and pair.replays[-1] == 3


def test_gradients_add_up_over_micro_batches(pair: Pair) -> None:
    batches = [inputs(seed=seed) for seed in range(3)]
    for _ in range(4):
        for x in batches:
            pair(x)[1].backward()
        wanted = sum(pair.gradient(x) for x in batches)
        torch.testing.assert_close(pair.net.inner.weight.grad, wanted)
        pair.net.zero_grad(set_to_none=True)
    assert pair.net._graph.copies_gradients
    assert pair.replays[-1] >= 6, "from the second step on all is replayed"


def test_gradients_that_are_zeroed_stay_where_they_are(pair: Pair) -> None:
    x = inputs()
    for _ in range(5):
        pair.net.zero_grad(set_to_none=False)
        pair(x)[1].backward()
        pair.check(x)
    assert pair.replays[-1] >= 2


def test_kept_results_and_gradients_are_not_written_over(pair: Pair) -> None:
    kept = []
    for number in range(6):
        x = inputs(seed=number)
        y, mean = pair(x)
        mean.backward()
        gradient = pair.net.inner.weight.grad
        assert gradient is not None
        kept.append((y.detach()[1:].t(), mean.detach(), gradient[2:]))
        pair.net.zero_grad(set_to_none=True)
        del y, mean, gradient
    for number, (y, mean, gradient) in enumerate(kept):
        x = inputs(seed=number)
        wanted = torch.tanh(x @ pair.net.inner.weight.detach())
        torch.testing.assert_close(y, wanted[1:].t())
        torch.testing.assert_close(mean, wanted.square().mean())
        torch.testing.assert_close(gradient, pair.gradient(x)[2:])
    assert pair.net._graph.copies_results and pair.net._graph.copies_gradients


def test_two_forwards_before_two_backwards(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    first, second = inputs(seed=1), inputs(seed=2)
    for _ in range(4):
        means = [pair(x)[1] for x in (first, second)]
        for mean in means:
            mean.backward()
        torch.testing.assert_close(pair.net.inner.weight.grad, pair.gradient(first) + pair.gradient(second))
        pair.net.zero_grad(set_to_none=True)
    assert "still to come" in caplog.text
    assert pair.replays[-1] >= 1


def test_a_backward_that_never_comes_frees_the_recording(pair: Pair) -> None:
    x = inputs()
    for _ in range(3):
        pair.step(x)
    before = sum(pair.replays)
    pair(x)  # dropped at once
    with torch.no_grad():
        pair(x)
    with pytest.raises(RuntimeError, match="on purpose"):
        _fail_in_the_backward(pair, x)
    pair.step(x)
    assert sum(pair.replays) == before + 3 + 2


def _fail_in_the_backward(pair: Pair, x: torch.Tensor) -> None:
    _, mean = pair(x)
    mean.register_hook(_raise)
    mean.backward()


def _raise(gradient: torch.Tensor) -> None:
    raise RuntimeError("on purpose")


def test_a_retained_graph_is_not_used_up(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    x = inputs()
    for _ in range(3):
        pair.step(x)
    _, mean = pair(x)
    for times in (1, 2, 3):
        mean.backward(retain_graph=True)
        pair.check(x, times)
    mean.backward()
    pair.check(x, 4)
    assert "retained" in caplog.text
    with pytest.raises(RuntimeError, match="second time"):
        mean.backward()


def test_a_weight_that_was_written_to_before_the_backward_raises_as_in_eager(pair: Pair) -> None:
    x = inputs()
    for _ in range(3):
        pair.step(x)
    _, mean = pair(x)
    with torch.no_grad():
        pair.net.inner.weight.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        mean.backward()


def test_a_weight_that_moved_before_the_backward_is_not_read_where_it_was(pair: Pair) -> None:
    x = inputs()
    for _ in range(3):
        pair.step(x)
    _, mean = pair(x)
    pair.net.inner.weight.data = pair.net.inner.weight.detach().clone()
    mean.backward()
    pair.check(x)


def test_weights_that_move_are_noticed(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="training_runtime")
    x = inputs()
    for number in range(12):
        if number in (4, 8):
            pair.net.inner.weight = nn.Parameter(torch.randn(N, N) * 0.2)
            pair.note()
        pair.step(x)
    assert len(pair.pool.graphs) == 6 and all(pair.replays)
    for _ in range(12):
        pair.net.inner.weight = nn.Parameter(torch.randn(N, N) * 0.2)
        pair.note()
        pair.step(x)
    assert "lie elsewhere in each step" in caplog.text


def test_sets_of_shapes_have_recordings_of_their_own(pair: Pair, runtime: Any) -> None:
    for _ in range(5):
        for n_rows in (4, 6, 8):
            pair.step(inputs(n_rows, seed=n_rows))
    assert len(pair.net._graph.shapes) == 3
    assert sum(pair.replays) >= 2 * 3 * 3
    for n_rows in range(10, 20):
        pair.step(inputs(n_rows))
    assert len(pair.net._graph.shapes) == runtime.MOST_SHAPES


def test_large_results_may_be_the_loss_and_be_written_to(pair: Pair) -> None:
    x = inputs()
    d_y = torch.randn(6, N)
    for _ in range(4):
        y, _ = pair(x)
        y.backward(d_y)
        own = pair.net.inner.weight.detach().clone().requires_grad_()
        torch.tanh(x @ own).backward(d_y)
        torch.testing.assert_close(pair.net.inner.weight.grad, own.grad)
        pair.net.zero_grad(set_to_none=True)
    y, mean = pair(x)
    y.data.add_(1.0)  # autograd does not see it
    del y
    y, mean = pair(x)
    with torch.no_grad():
        y.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        mean.backward()


def test_gradients_of_results_that_lie_elsewhere(pair: Pair) -> None:
    x = inputs()
    held = []
    for number in range(6):
        d_y = torch.full((6, N), float(number))
        held.append(d_y)
        y, _ = pair(x)
        y.backward(d_y)
        own = pair.net.inner.weight.detach().clone().requires_grad_()
        torch.tanh(x @ own).backward(d_y)
        torch.testing.assert_close(pair.net.inner.weight.grad, own.grad)
        pair.net.zero_grad(set_to_none=True)
        del y


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints_compute_again(pair: Pair, use_reentrant: bool) -> None:
    x = inputs().requires_grad_()
    for _ in range(4):
        mean = checkpoint(lambda x: pair(x)[1], x, use_reentrant=use_reentrant)
        mean.backward()
        pair.check(x.detach())
        pair.net.zero_grad(set_to_none=True)


def test_hooks_on_saved_tensors_see_all_of_them(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    x = inputs()
    for _ in range(3):
        pair.step(x)
    seen = []
    with saved_tensors_hooks(lambda one: seen.append(one) or one.clone(), lambda one: one):
        _, mean = pair(x)
    mean.backward()
    pair.check(x)
    assert len(seen) == 4
    assert "hooks" in caplog.text


def test_copies_of_a_module_record_for_themselves(pair: Pair) -> None:
    x = inputs()
    for _ in range(3):
        pair.step(x)
    other = copy.deepcopy(pair.net)
    assert other._graph.module is other and not other._graph.shapes
    assert pickle.loads(pickle.dumps(pair.net))._graph.launch.func is net_forward


def test_why_nothing_is_replayed_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runtime.py"
    path.write_text(write_runtime(["TrainingGraph", "Weights", "check_weights"]))
    module = ModuleType("plain_runtime")
    monkeypatch.setitem(sys.modules, "plain_runtime", module)
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    net = Net(module)
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            net(inputs())[1].backward()
    assert caplog.text.count("not all on one CUDA device") == 1
