"""From words and tensors to a target."""

import pytest
import torch
from torch import fx, nn

from longhand.errors import OptionError
from longhand.options import Device, Mode
from longhand.targets import options_for, placing, tensors_of


def test_the_device_is_where_the_tensors_are():
    options = options_for(None, None, None, [torch.ones(2), 3, "word"])
    assert options.target.device is Device.CPU and options.mode is Mode.DEFAULT


def test_a_device_that_longhand_does_not_write_for():
    with pytest.raises(OptionError, match="meta"):
        options_for(None, None, None, [torch.ones(2, device="meta")])


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_torch_compiles_modes_are_known(mode):
    assert options_for("cpu", None, mode, []).mode.value == mode


def test_cuda_without_a_gpu_needs_an_architecture(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(OptionError, match="--arch sm_90"):
        options_for("cuda", None, None, [])
    assert options_for("cuda", "sm_90", None, []).target.arch == "sm_90"


def test_the_tensors_of_a_module_and_its_call():
    module = torch.nn.BatchNorm1d(3)
    call = ((torch.ones(2, 3),), {"y": 1})
    n_tensors = sum(isinstance(leaf, torch.Tensor) for leaf in tensors_of(module, *call))
    assert n_tensors == 1 + len(list(module.parameters())) + len(list(module.buffers()))


@pytest.mark.parametrize(
    ("named", "device"), [("cuda", "cuda"), (torch.device("cuda", 1), "cuda"), (None, "cpu")]
)
def test_a_graph_without_tensors_runs_where_its_calls_say(named, device):
    graph = fx.Graph()
    graph.output(graph.call_function(torch.arange, (3,), {"device": named}))
    module = fx.GraphModule(nn.Module(), graph)
    arch = "sm_90" if device == "cuda" else None
    assert options_for(None, arch, None, placing(module, [2])).target.device.value == device
    assert options_for(None, None, None, placing(module, [torch.ones(2)])).target.device.value == "cpu"
