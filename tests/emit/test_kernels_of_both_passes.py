"""A kernel that two passes call: one file with one head, and in each pass the words of that pass's own plan."""

from __future__ import annotations

import dataclasses

import torch

from longhand.emit.text.kernel_head import headed
from longhand.schedule.names.unit import name_plans
from tests.emit.conftest import plan_unit


def summed(x: torch.Tensor) -> torch.Tensor:
    return (x * torch.sigmoid(x)).sum(-1)


def test_each_pass_keeps_the_names_of_its_own_axes() -> None:
    (forward,) = name_plans(plan_unit(summed, (torch.randn(6, 40),))).passes
    renamed = {
        key: dataclasses.replace(own, axes={f"other_{axis}": words for axis, words in own.axes.items()})
        for key, own in forward.names.kernels.items()
    }
    backward = dataclasses.replace(forward, names=dataclasses.replace(forward.names, kernels=renamed))
    first, second = headed([forward, backward])
    for key, own in renamed.items():
        assert second.names.kernels[key].axes == own.axes != first.names.kernels[key].axes
        assert second.names.kernels[key].title == first.names.kernels[key].title != ""
