"""DistributedDataParallel and FSDP2 over two CPU processes: gradients are eager's, whichever is inside the other."""

from __future__ import annotations

import copy
import functools
import gc
import traceback
import warnings
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import longhand
from longhand.compiled.backend import longhand_backend
from longhand.errors import EagerWarning
from tests.autograd.cases import Mlp, leaf

N_PROCESSES = 2


def _gradients(model: nn.Module, run: nn.Module, rank: int) -> dict[str, torch.Tensor]:
    for step in range(2):
        run(leaf(4, 8, grad=False, seed=10 * step + rank)).square().sum().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def _in_group(rank: int, rendezvous: str, failures: mp.SimpleQueue, body: Callable[[], None]) -> None:
    """Runs `body` in a group of processes. What holds the group is gone before it ends: its threads, which let go of
    Python objects, must not outlive the interpreter."""
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=N_PROCESSES)
    try:
        body()
    except BaseException as error:
        failures.put(f"process {rank}: {''.join(traceback.format_exception(error))}")
    finally:
        gc.collect()
        dist.destroy_process_group()


def _process(rank: int, rendezvous: str, is_inside: bool, failures: mp.SimpleQueue) -> None:
    _in_group(rank, rendezvous, failures, functools.partial(_train_in_parallel, rank, is_inside))


def _train_in_parallel(rank: int, is_inside: bool) -> None:
    model, reports = Mlp(), []
    eager = copy.deepcopy(model)
    expected = _gradients(eager, DistributedDataParallel(eager), rank)

    def backend(module, inputs):
        return longhand_backend(module, inputs, report=reports.append)

    if is_inside:
        run = DistributedDataParallel(torch.compile(model, backend=backend))
    else:
        run = torch.compile(DistributedDataParallel(model), backend=backend)
    found = _gradients(model, run, rank)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient)
    assert reports and all(report.reason is None for report in reports), reports


@pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")
@pytest.mark.parametrize("is_inside", [True, False], ids=["of the compiled model", "compiled with the model"])
def test_gradients_are_eagers(is_inside, tmp_path):
    failures = mp.get_context("spawn").SimpleQueue()
    mp.spawn(_process, (str(tmp_path / "rendezvous"), is_inside, failures), nprocs=N_PROCESSES)
    assert failures.empty(), failures.get()


def _sharded_process(rank: int, rendezvous: str, frontend: str, failures: mp.SimpleQueue) -> None:
    _in_group(rank, rendezvous, failures, functools.partial(_train_sharded, rank, frontend))


def _train_sharded(rank: int, frontend: str) -> None:
    torch.manual_seed(0)
    eager = nn.Sequential(Mlp(), Mlp())
    model = copy.deepcopy(eager)
    expected = _gradients(eager, DistributedDataParallel(eager), rank)
    mesh = init_device_mesh("cpu", (N_PROCESSES,))
    for place, block in enumerate(model):
        model[place] = longhand.compile(fully_shard(block, mesh=mesh), frontend=frontend)
    fully_shard(model, mesh=mesh)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EagerWarning)
        found = _gradients(model, model, rank)
    for (name, gradient), ours in zip(expected.items(), found.values(), strict=True):
        torch.testing.assert_close(
            ours.full_tensor(), gradient, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")
@pytest.mark.parametrize("frontend", ["bytecode", "dynamo"])
def test_blocks_that_are_fully_sharded(frontend, tmp_path):
    failures = mp.get_context("spawn").SimpleQueue()
    mp.spawn(_sharded_process, (str(tmp_path / "rendezvous"), frontend, failures), nprocs=N_PROCESSES)
    assert failures.empty(), failures.get()
