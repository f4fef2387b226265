"""Biases of convolutions on CUDA: added by the kernel that reads the result, else by the library."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from longhand.lower.interpreter import results_of, run_program
from longhand.lower.ir import Extern, Program, in_parts
from longhand.lower.layouts import CONVOLUTIONS
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target
from tests.lower.conftest import traced

CPU, CUDA = Options(Target(Device.CPU)), Options(Target(Device.CUDA, "sm_90"))
X, W, B, BACK = torch.randn(2, 3, 9, 7), torch.randn(5, 3, 3, 3), torch.randn(5), torch.randn(5, 3, 2, 2)


def activated(x, w, b):
    return F.conv2d(x, w, b, padding=1).relu()


def in_flat_rows(x, w, b):
    return F.conv2d(x, w, b).flatten(2).transpose(1, 2) * 2.0


def returned_and_read(x, w, b):
    out = F.conv2d(x, w, b)
    return out, out.sigmoid()


def returned(x, w, b):
    return F.conv2d(x, w, b)


def read_by_the_library(x, w, b):
    return F.conv2d(F.conv2d(x, w, b), w.transpose(0, 1).contiguous())


def transposed(x, w, b):
    return F.conv_transpose2d(F.conv2d(x, w), w.transpose(0, 1)[:, :, :2, :2].transpose(0, 1), b[:3]).tanh()


def biases_given(function, options: Options) -> list[bool]:
    """Of each convolution: whether the library adds its bias. Results are compared with eager's."""
    graph = traced(function, (X, W, B))
    program: Program = lower(graph, options)
    inputs = dict(zip((entry.node for entry in graph.inputs), (X, W, B), strict=True))
    found = results_of(program, run_program(program, inputs), inputs)
    expected = function(X, W, B)
    for ours, eager in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-5)
        assert ours.stride() == eager.stride()
    calls = [
        step for step in in_parts(program.steps) if isinstance(step, Extern) and step.target in CONVOLUTIONS
    ]
    assert calls and len(calls) == str(graph.graph).count("target=torch.ops.aten.conv")
    return [call.args[2:3] not in [(), (None,)] for call in calls]


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (activated, [False]),
        (in_flat_rows, [False]),
        (returned_and_read, [False]),
        (transposed, [False, False]),
        (returned, [True]),
        (read_by_the_library, [True, False]),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_a_kernel_that_reads_the_result_adds_the_bias(function, given) -> None:
    assert biases_given(function, CUDA) == given


def test_on_the_cpu_the_library_adds_it() -> None:
    assert biases_given(activated, CPU) == [True]
