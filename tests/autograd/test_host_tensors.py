"""Training on a GPU with tensors that the model keeps on the CPU: they stay there until the model moves them."""

from __future__ import annotations

import pytest
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from longhand.capture.autograd.training import train
from longhand.capture.frontends.dynamo import capture_dynamo
from longhand.errors import CaptureError
from longhand.lower.body import Load
from longhand.lower.ir import Nest
from longhand.lower.lowering import lower
from longhand.options import Device, Mode, Options, Target

CUDA = Target(Device.CUDA, "sm_90")


def positions(x, table):
    """As VideoMAE does with its table of positions."""
    return torch.nn.functional.gelu(x + table.detach().to(device=x.device, copy=True))


def trained(function, *given):
    graph = capture_dynamo(fx.symbolic_trace(function), given, target=CUDA, train=True)
    return train(graph, CUDA)


def on(device, *shape, grad=False):
    return torch.empty(*shape, device=device, requires_grad=grad)


def test_a_table_is_moved_before_a_kernel_reads_it():
    with FakeTensorMode():
        given = on("cuda", 2, 8, 4, grad=True), on("cpu", 8, 4)
    graphs = trained(positions, *given)
    for graph in (graphs.forward, graphs.backward):
        steps = lower(graph, Options(CUDA, Mode.DEFAULT)).steps
        read = {
            v.buffer for step in steps if isinstance(step, Nest) for v in step.body if isinstance(v, Load)
        }
        assert read and "table" not in read
    (moved,) = [node for node in graphs.forward.graph.nodes if "_to_copy" in str(node.target)]
    assert moved.meta["val"].device.type == "cuda" and moved.args[0].meta["val"].device.type == "cpu"


def test_gradients_on_the_cpu_are_refused():
    with FakeTensorMode():
        given = on("cuda", 2, 8, 4), on("cpu", 8, 4, grad=True)
    with pytest.raises(CaptureError, match="Gradients flow through tensors on the CPU"):
        trained(lambda x, table: torch.tanh(x + table.to(x.device)), *given)
