"""Capture for CUDA on a machine that need not have it: devices are mapped, nothing else changes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch import nn

from longhand.capture.frontends.export import capture_export
from longhand.options import Device, Target

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
