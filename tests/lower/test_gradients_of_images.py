"""Gradients of images on CUDA: channels last as the images are, biases and means by kernels of our own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from longhand.lower.interpreter import results_of, run_program
from longhand.lower.ir import Extern, Program, in_parts
from longhand.lower.layouts import channels_last_strides
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target
from tests.lower.conftest import traced
from tests.lower.of_runtime import OF_RUNTIME
from tests.lower.test_layouts import checked, filters

aten = torch.ops.aten
CPU, CUDA = Options(Target(Device.CPU)), Options(Target(Device.CUDA, "sm_90"))


def calls(program: Program, target: object) -> list[Extern]:
    return [step for step in in_parts(program.steps) if isinstance(step, Extern) and step.target is target]


def gradients(d_out, x, weight):
    wanted = [True, True, True]
    d_x, d_weight, d_bias = aten.convolution_backward(
        d_out.tanh(), x.tanh(), weight, [72], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, wanted
    )
    return d_x.sigmoid(), d_weight, d_bias


@pytest.mark.parametrize("is_last", [False, True])
def test_what_a_convolution_hands_back_lies_as_its_images(is_last: bool) -> None:
    layout = torch.channels_last if is_last else torch.contiguous_format
    d_out, x = (torch.randn(2, channels, 9, 7).contiguous(memory_format=layout) for channels in (72, 8))
    weight = filters(72, 8, 3, 3)
    graph = traced(gradients, (d_out, x, weight))
    program = lower(graph, CUDA)
    inputs = dict(zip((entry.node for entry in graph.inputs), (d_out, x, weight), strict=True))
    found = results_of(program, run_program(program, inputs, own=OF_RUNTIME), inputs)
    for ours, eager in zip(found, gradients(d_out, x, weight), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4, check_stride=False)
    assert found[0].stride() == x.stride() and found[1].stride() == weight.stride()
    (call,) = calls(program, aten.convolution_backward.default)
    for view in list(call.views())[:2]:
        assert view.stride == channels_last_strides(view.shape)
    assert program.buffers[call.outputs[0]].stride == channels_last_strides((2, 8, 9, 7))
    assert not calls(program, aten.contiguous.default)  # the call sees to it


def test_small_convolutions_and_the_cpu_keep_their_layout() -> None:
    d_out, x, weight = torch.randn(2, 16, 9, 7), torch.randn(2, 8, 9, 7), filters(16, 8, 3, 3)

    def small(d_out, x, weight):
        found = aten.convolution_backward(
            d_out, x, weight, [16], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False]
        )
        return found[0] * 2.0, found[1]

    for options in (CUDA, CPU):
        program = checked(small, d_out, x, weight, options=options)
        (call,) = calls(program, aten.convolution_backward.default)
        assert program.buffers[call.outputs[0]].is_contiguous and not calls(program, aten.contiguous.default)


def test_the_gradient_of_a_bias_is_a_sum_of_a_kernel() -> None:
    d_out, x, weight = torch.randn(2, 72, 9, 7), torch.randn(2, 8, 9, 7), filters(72, 8, 3, 3)
    (call,) = calls(checked(gradients, d_out, x, weight), aten.convolution_backward.default)
    assert list(call.args[-1]) == [True, True, False]
    (call,) = calls(checked(gradients, d_out, x, weight, options=CPU), aten.convolution_backward.default)
    assert list(call.args[-1]) == [True, True, True]


def test_a_bias_alone_stays_with_the_library() -> None:
    def alone(d_out, x, weight):
        given = [72], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, False, True]
        return aten.convolution_backward(d_out, x, weight, *given)[2]

    program = checked(alone, torch.randn(2, 72, 9, 7), torch.randn(2, 8, 9, 7), filters(72, 8, 3, 3))
    assert len(calls(program, aten.convolution_backward.default)) == 1


MEANS = {
    "squares": ((2, 3, 8, 6), (2, 2), torch.float32, {}),
    "oblongs": ((2, 3, 9, 8), (3, 2), torch.bfloat16, {}),
    "a volume": ((1, 2, 4, 4, 6), (2, 2, 2), torch.float32, {}),
    "a divisor": ((2, 3, 8, 6), (2, 2), torch.float64, {"divisor_override": 3}),
}


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("case", MEANS)
def test_windows_side_by_side_hand_each_element_its_part(case: str, is_last: bool) -> None:
    shape, size, dtype, more = MEANS[case]
    target = aten.avg_pool2d_backward if len(size) == 2 else aten.avg_pool3d_backward
    given = size, size, (0,) * len(size), False, True, more.get("divisor_override")
    x = torch.randn(shape).to(dtype)
    d_out = torch.randn(*shape[:2], *(a // b for a, b in zip(shape[2:], size, strict=True))).to(dtype)
    d_out[0, 0, 0] = torch.tensor(float("inf")).to(dtype)
    if is_last and len(size) == 2:
        x, d_out = (one.contiguous(memory_format=torch.channels_last) for one in (x, d_out))
    graph = traced(lambda d_out, x: target(d_out, x, *given), (d_out, x))
    program = lower(graph, CUDA)
    assert not calls(program, target.default)
    inputs = dict(zip((entry.node for entry in graph.inputs), (d_out, x), strict=True))
    (found,) = results_of(program, run_program(program, inputs), inputs)
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    expected = target(d_out.to(wide), x.to(wide), *given).to(dtype)
    torch.testing.assert_close(found, expected)
    assert found.stride() == expected.stride()


OTHERS = {
    "overlapping": ((2, 3, 9, 9), (3, 3), (2, 2), (0, 0)),
    "padded": ((2, 3, 6, 6), (2, 2), (2, 2), (1, 1)),
    "with a rest": ((2, 3, 7, 6), (2, 2), (2, 2), (0, 0)),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_windows_stay_with_the_library(case: str) -> None:
    shape, size, stride, padding = OTHERS[case]
    x = torch.randn(shape)
    d_out = torch.randn_like(F.avg_pool2d(x, size, stride, padding))

    def backward(d_out, x):
        return aten.avg_pool2d_backward(d_out, x, size, stride, padding, False, True, None)

    assert len(calls(checked(backward, d_out, x), aten.avg_pool2d_backward.default)) == 1


def test_what_a_library_lays_out_in_another_order_is_read_in_that() -> None:
    def gradient(d_out, q, k, v):
        out, logsumexp = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
        d_q, d_k, d_v = aten._scaled_dot_product_flash_attention_for_cpu_backward(
            d_out, q, k, v, out, logsumexp, 0.0, False
        )
        return torch.stack([d_q, d_k, d_v]).tanh()

    q, k, v = (torch.randn(2, 5, 3, 8).transpose(1, 2) for _ in range(3))
    graph = traced(gradient, (torch.randn(2, 5, 3, 8).transpose(1, 2), q, k, v))
    (call,) = calls(lower(graph, CPU), aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
    made = graph_values(graph, call.outputs[0])
    program = checked(gradient, torch.randn(2, 5, 3, 8).transpose(1, 2), q, k, v, options=CPU)
    copied = [step for step in calls(program, aten.contiguous.default) if step.args[0].buffer in call.outputs]
    assert not copied  # how this one lays them out is certain: they are read where they lie
    assert not made.is_contiguous()
    for name in call.outputs[:3]:
        assert tuple(program.buffers[name].stride) == made.stride()


def graph_values(graph, name: str) -> torch.Tensor:
    """What is known at capture of a node's value."""
    return next(node.meta["val"] for node in graph.graph.nodes if node.name == name)


class _Given(TorchDispatchMode):
    """Which strides the gradients of convolutions are given to the library in."""

    def __init__(self) -> None:
        super().__init__()
        self.strides: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is aten.convolution_backward.default:
            self.strides.append(args[0].stride())
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_a_part_of_wider_gradients_is_copied_once(layout: torch.memory_format) -> None:
    """cuDNN's call makes a copy of it for each gradient: of DenseNet's step on an H200 48 copies, and 0.5 ms."""
    wide = torch.randn(2, 12, 9, 7).contiguous(memory_format=layout)
    x = torch.randn(2, 8, 9, 7).contiguous(memory_format=layout)
    weight = filters(5, 8, 3, 3)
    options = [5], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False]
    with _Given() as given:
        found = OF_RUNTIME[aten.convolution_backward.default](wide[:, 7:], x, weight, *options)
    eager = aten.convolution_backward(wide[:, 7:].contiguous(), x.contiguous(), weight, *options)
    torch.testing.assert_close(found[:2], eager[:2], rtol=1e-4, atol=1e-4, check_stride=False)
    assert given.strides == [torch.empty(2, 5, 9, 7, memory_format=layout).stride()]
