"""FSDP2 on two GPUs: blocks that are fully_sharded and compiled, in either order, train as eager does."""

import copy
import os

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

N_PROCESSES = 2

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < N_PROCESSES, reason="needs two GPUs"),
]


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def train(rank, rendezvous, order, frontend, failures):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    import longhand

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{rendezvous}", rank=rank, world_size=N_PROCESSES)
    try:
        torch.manual_seed(0)
        plain = nn.Sequential(*(Block(64) for _ in range(3))).cuda()
        sharded = copy.deepcopy(plain)
        mesh = init_device_mesh("cuda", (N_PROCESSES,))
        for place, block in enumerate(sharded):
            if order == "shard, compile":
                fully_shard(block, mesh=mesh)
                sharded[place] = longhand.compile(block, frontend=frontend)
            else:
                sharded[place] = longhand.compile(block, frontend=frontend)
                fully_shard(sharded[place], mesh=mesh)
        fully_shard(sharded, mesh=mesh)
        steps = [torch.optim.SGD(model.parameters(), 0.05) for model in (plain, sharded)]
        for number in range(3):
            x = torch.randn(8, 64, generator=torch.Generator().manual_seed(10 * number + rank)).cuda()
            losses = [model(x).square().mean() for model in (plain, sharded)]
            torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-4)
            for loss in losses:
                loss.backward()
            for parameter in plain.parameters():
                dist.all_reduce(parameter.grad, dist.ReduceOp.AVG)
            for step in steps:
                step.step()
                step.zero_grad()
    except BaseException as error:
        failures.put(f"process {rank}: {type(error).__name__}: {error}")
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("frontend", ["bytecode", "dynamo"])
@pytest.mark.parametrize("order", ["shard, compile", "compile, shard"])
def test_blocks(order, frontend, tmp_path, monkeypatch):
    monkeypatch.setitem(os.environ, "LONGHAND_CACHE_DIR", str(tmp_path / "cache"))
    failures = mp.get_context("spawn").SimpleQueue()
    mp.spawn(train, (str(tmp_path / "rendezvous"), order, frontend, failures), nprocs=N_PROCESSES)
    assert failures.empty(), failures.get()
