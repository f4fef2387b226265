"""A graph for a GPU with tensors on the CPU: ATen computes with them there, and no kernel is given one."""

from __future__ import annotations

import pytest
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from longhand.capture.frontends.dynamo import capture_dynamo
from longhand.capture.graph import InputKind
from longhand.emit.unit.files import emit_unit
from longhand.lower.body import Load, Store
from longhand.lower.ir import Nest
from longhand.lower.lowering import lower
from longhand.options import Device, Mode, Options, Target
from longhand.schedule.names.unit import name_plans
from longhand.schedule.scheduler import schedule

CUDA = Target(Device.CUDA, "sm_90")


def counted(states, counts, scale):
    """Counts that the caller reads on the CPU, as models with experts keep them, beside work for the GPU."""
    ends = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cumsum(counts, 0)])
    counts.add_(1)
    last = (ends[1:] + torch.tensor([1, 2, 3])).flip(0)
    return torch.tanh(states) * scale + torch.tensor(2.0), last, ends[:2].t(), ends[:2].view(2, 1)


@pytest.fixture(scope="module", params=["default", "reduce-overhead"])
def made(request):
    """The program, and the texts of the unit."""
    with FakeTensorMode():
        given = [
            torch.empty(4, 3, device="cuda"),
            torch.empty(3, dtype=torch.int64),
            torch.empty(()),
        ]
    graph = capture_dynamo(fx.symbolic_trace(counted), given, target=CUDA)
    options = Options(CUDA, Mode(request.param))
    program = lower(graph, options)
    return program, {
        name: str(text) for name, text in emit_unit(name_plans(schedule(program, options))).items()
    }


def test_no_kernel_reads_or_writes_the_cpu(made):
    program, _ = made
    held = {entry.node for entry in program.graph.inputs if entry.kind is InputKind.CONSTANT}
    there = {
        node.name
        for node in program.graph.graph.nodes
        if "val" in node.meta and node.name not in held and node.meta["val"].device.type == "cpu"
    }
    assert {"counts", "scale", "cumsum", "cat"} <= there
    nests = [step for step in program.steps if isinstance(step, Nest)]
    touched = {value.buffer for nest in nests for value in nest.body if isinstance(value, Load | Store)}
    assert "states" in touched
    assert not [name for name in touched if name.removesuffix("_contiguous") in there or "_on_cpu" in name]


def test_the_call_is_held_to_where_its_tensors_were(made):
    _, texts = made
    model = texts["model.py"]
    assert model.count('device=torch.device("cpu")') >= 2  # counts, scale
    assert "CudaGraph" not in model  # a replay would repeat the first call's scale
    assert "counts.copy_(" in model
    moved = [line for line in texts["check.py"].splitlines() if line.endswith(".to(DEVICE)")]
    assert [line.split()[0] for line in moved] == ["states"]
