"""Capture for CUDA on a machine that need not have it: devices are mapped, nothing else changes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch import fx, nn

from longhand.capture import torch_private
from longhand.capture.frontends.export import capture_export
from longhand.capture.frontends.finalize import refuse_several_gpus
from longhand.emit.unit.files import emit_unit
from longhand.errors import CaptureError
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target
from longhand.schedule.names.unit import name_plans
from longhand.schedule.scheduler import schedule

CPU, CUDA = Target(Device.CPU), Target(Device.CUDA, "sm_90")


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        seq = x.size(1)
        mask = torch.tril(torch.ones(seq, seq, device=x.device, dtype=torch.bool))
        y = F.scaled_dot_product_attention(self.fc(x), x, x, attn_mask=mask)
        return y + torch.arange(8, device=x.device)


def shape_of(graph):
    return [(node.name, str(node.target)) for node in graph.graph.nodes]


def test_cpu_model_for_cuda():
    args = (torch.randn(2, 5, 8),)
    graph = capture_export(Masked(), args, target=CUDA)
    for node in graph.graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            assert value is None or value.device.type == "cuda"
        for leaf in pytree.tree_leaves((node.args, node.kwargs)):
            assert not isinstance(leaf, torch.device) or leaf.type == "cuda"
    assert shape_of(graph) == shape_of(capture_export(Masked(), args, target=CPU))


@pytest.mark.gpu
def test_cuda_model_on_a_gpu():
    model = Masked()
    graph = capture_export(model.cuda(), (torch.randn(2, 5, 8, device="cuda"),), target=CUDA)
    assert all(node.meta["val"].device.type == "cuda" for node in graph.graph.nodes if node.op != "output")
    assert shape_of(graph) == shape_of(capture_export(model.cpu(), (torch.randn(2, 5, 8),), target=CUDA))


def test_a_cpu_literal_in_a_cpu_model_becomes_cuda():
    graph = capture_export(lambda x: x + torch.zeros(3, device="cpu"), (torch.randn(2, 3),), target=CUDA)
    devices = [node.kwargs["device"] for node in graph.graph.nodes if "device" in node.kwargs]
    assert devices == [torch.device("cuda")]


def test_a_unit_of_the_second_gpu_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its model.py makes what it makes where the first argument lies."""

    class Drawn(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.empty(8, device=x.device).uniform_(1.0, 2.0)

    graph = capture_export(Drawn(), (torch.randn(2, 8),), target=CUDA)
    for node in graph.graph.nodes:
        node.args, node.kwargs = fx.node.map_aggregate((node.args, node.kwargs), _on_second)
    options = Options(CUDA)
    text = emit_unit(
        name_plans(
            schedule(lower(graph, options), options),
        )
    )["model.py"]
    assert "device=x.device" in str(text) and "cuda:1" not in str(text)


def _on_second(leaf: object) -> object:
    return torch.device("cuda", 1) if isinstance(leaf, torch.device) else leaf


def test_what_lies_on_two_gpus_is_refused() -> None:
    graph = capture_export(nn.Linear(8, 8), (torch.randn(2, 8),), target=CUDA)
    refuse_several_gpus(graph.graph, "Linear")
    moved = next(node for node in graph.graph.nodes if node.op == "call_function")
    moved.meta["val"] = torch_private.fake_on_device(moved.meta["val"], torch.device("cuda", 1))
    with pytest.raises(
        CaptureError, match="Linear computes on cuda:0, cuda:1, and a unit runs on one GPU"
    ) as raised:
        refuse_several_gpus(graph.graph, "Linear")
    assert "longhand.compile(model.first_half)" in str(raised.value)
