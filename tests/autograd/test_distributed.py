"""DistributedDataParallel over two CPU processes: the gradients are eager's, whichever is inside the other."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from longhand.backend import longhand_backend
from tests.autograd.cases import Mlp, leaf

N_PROCESSES = 2


def _gradients(model: nn.Module, run: nn.Module, rank: int) -> dict[str, torch.Tensor]:
    for step in range(2):
        run(leaf(4, 8, grad=False, seed=10 * step + rank)).square().sum().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def _process(rank: int, rendezvous: str, is_inside: bool, failures: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=N_PROCESSES)
    try:
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
    except BaseException as error:
        failures.put(f"process {rank}: {type(error).__name__}: {error}")
    finally:
        dist.destroy_process_group()


@pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")
@pytest.mark.parametrize("is_inside", [True, False], ids=["of the compiled model", "compiled with the model"])
def test_gradients_are_eagers(is_inside, tmp_path):
    failures = mp.get_context("spawn").SimpleQueue()
    mp.spawn(_process, (str(tmp_path / "rendezvous"), is_inside, failures), nprocs=N_PROCESSES)
    assert failures.empty(), failures.get()
