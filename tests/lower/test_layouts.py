"""Channels last for CUDA's convolutions: values are eager's, and so are the strides of what the caller gets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from longhand.capture.frontends.export import capture_export
from longhand.lower.interpreter import results_of, run_program
from longhand.lower.ir import BufferKind, Extern, Nest, Program, View, in_parts
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target
from tests.lower.conftest import traced
from tests.lower.of_runtime import OF_RUNTIME
from tests.lower.test_results_and_mutations import inputs_of

CPU, CUDA = Options(Target(Device.CPU)), Options(Target(Device.CUDA, "sm_90"))
Function = Callable[..., object]


def strides(tensor: torch.Tensor) -> list[int]:
    """The strides that mean something."""
    return [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def checked(function: Function, *args: torch.Tensor, options: Options = CUDA) -> Program:
    """The program of a function, its results compared with eager's."""
    graph = traced(function, args)
    program = lower(graph, options)
    inputs = dict(zip((entry.node for entry in graph.inputs), args, strict=True))
    found = results_of(program, run_program(program, inputs, own=OF_RUNTIME), inputs)
    expected = function(*args)
    for ours, eager in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4, check_stride=False)
        assert strides(ours) == strides(eager)
    return program


def convolutions(program: Program) -> list[Extern]:
    """The calls that give images."""
    return [
        step
        for step in in_parts(program.steps)
        if isinstance(step, Extern) and step.memory_format is not None
    ]


def filters(*shape: int) -> torch.Tensor:
    """A weight that keeps activations near one."""
    return torch.randn(shape) * (2.0 / (shape[1] * shape[2] * shape[3])) ** 0.5


X, W1, W2 = torch.randn(2, 8, 9, 7), filters(72, 8, 3, 3), filters(72, 72, 3, 3)
W_BACK = filters(8, 72, 1, 1)


def chain(x, w1, w2):
    return F.conv2d(F.relu(F.conv2d(x, w1, padding=1)), w2, padding=1).relu()


def residual(x, w1, w2):
    first = F.conv2d(x, w1, padding=1)
    return first + F.conv2d(F.gelu(first), w2, padding=1)


def residual_on_the_input(x, w1, w_back):
    return x + F.conv2d(F.relu(F.conv2d(x, w1, padding=1)), w_back)


def result_of_a_convolution(x, w1, w2):
    return F.conv2d(x, w1), F.conv2d(x * 2, w1)


def pooled(x, w1, w2):
    out = F.max_pool2d(F.relu(F.conv2d(x, w1, padding=1)), 2)
    return F.avg_pool2d(F.conv2d(out, w2, padding=1) + out, 2)


def joined(x, w1, w2):
    out = F.conv2d(x, w1, padding=1)
    up = F.interpolate(F.max_pool2d(out, (3, 7)), size=(9, 7), mode="nearest")
    return torch.cat([out.relu(), x, up], 1).tanh()


def head(x, w1, w2):
    out = F.conv2d(x, w1).relu()
    return out.mean((2, 3)), out.flatten(1) * 2, out.softmax(1)


def shuffled(x, w1, w2):
    out = F.conv2d(x, w1, padding=1)
    split = out.view(2, 18, 2, 2, 9, 7).permute(0, 1, 4, 2, 5, 3).reshape(2, 18, 18, 14)
    return split, out.view(2, 72, 63).transpose(1, 2) @ torch.ones(72, 5)


def views_of_a_result(x, w1, w2):
    out = F.conv2d(x, w1, padding=1)
    return out.exp().view(2, -1), out.flatten(1).view(2, 72, 9, 7) + 1


def padded(x, w1, w2):
    out = F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), w1)
    return F.conv2d(F.pad(out, (1, 0, 2, 0)), w2)


def transposed(x, w1, w2):
    return F.conv_transpose2d(F.conv2d(x, w1, padding=1), w1.transpose(2, 3), stride=2).sigmoid()


def normalized(x, w1, w2):
    return F.group_norm(F.conv2d(x, w1, padding=1), 8).relu()


def split_in_two(x, w1, w2):
    a, b = F.conv2d(x, w1, padding=1).chunk(2, 1)
    return a * b.sigmoid()


def one_pixel(x, w1, w2):
    out = F.conv2d(F.adaptive_avg_pool2d(F.conv2d(x, w1), 1), w2, padding=1)
    return F.conv2d(x[:, :1], w1[:, :1]) * out.sigmoid()


def strided(x, w1, w2):
    out = F.conv2d(x, w1, padding=1).relu()
    return torch.as_strided(out, (2, 70), (72 * 63, 3), 0) * 2


CASES: list[Function] = [
    chain,
    residual,
    result_of_a_convolution,
    pooled,
    joined,
    head,
    shuffled,
    views_of_a_result,
    padded,
    transposed,
    normalized,
    split_in_two,
    one_pixel,
    strided,
]


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_values_and_strides_are_eagers(function: Function) -> None:
    assert convolutions(checked(function, X, W1, W2))


def test_groups_of_channels_lie_as_the_channels_do() -> None:
    """What a group norm's gradient computes of each group is of the layout of the images, and so is what is normal."""

    def grouped(x, w1, w2):
        first = F.conv2d(x, w1, padding=1)
        groups = first.view(2, 8, 9, 9, 7)
        centered = groups - groups.mean((2, 3, 4), keepdim=True)
        normal = F.group_norm(first, 8)
        return F.conv2d((centered * 2 + groups).view_as(first) * normal, w2, padding=1)

    program = checked(grouped, X, W1, W2)
    made = [buffer for buffer in program.buffers.values() if buffer.kind is BufferKind.INTERMEDIATE]
    groups = [buffer for buffer in made if buffer.shape == (2, 8, 9, 9, 7)]
    norms = [buffer for buffer in made if buffer.name.startswith("group_norm")]
    assert len(groups) >= 2 and len(norms) == 1
    assert {buffer.stride for buffer in groups} == {(7 * 9 * 72, 9, 1, 7 * 72, 72)}
    assert {buffer.stride for buffer in norms} == {(7 * 9 * 72, 1, 7 * 72, 72)}


@pytest.mark.parametrize(
    "function", [chain, residual, pooled, joined, head], ids=lambda function: function.__name__
)
def test_images_that_come_channels_last_stay_so(function: Function) -> None:
    x = X.contiguous(memory_format=torch.channels_last)
    for options in (CPU, CUDA):
        program = checked(function, x, W1, W2, options=options)
        assert not any(name.endswith("_channels_last") for name in program.buffers if name.startswith("x"))


def test_the_input_is_converted_once_and_read_so_by_all() -> None:
    program = checked(residual_on_the_input, X, W1, W_BACK)
    copies = [name for name in program.buffers if name.endswith("_channels_last")]
    assert len(copies) == 1
    assert sum(isinstance(step, Nest) for step in program.steps) == 3


@pytest.mark.parametrize(
    ("function", "x", "weight"),
    [
        (lambda x, w: F.conv2d(x, w, groups=2), X, filters(72, 4, 3, 3)),
        (F.conv2d, X, filters(32, 8, 3, 3)),
        (F.conv1d, X[0], filters(72, 9, 3, 1)[..., 0]),
        (F.conv2d, X.double(), W1.double()),
        (lambda x, w: F.conv2d(x, w, groups=8), X, filters(72, 1, 3, 3)),
        (lambda x, w: F.conv_transpose2d(x, w, groups=8), X.bfloat16(), filters(8, 9, 3, 3).bfloat16()),
    ],
    ids=["grouped", "few channels", "one dimension", "double", "depthwise", "grouped and transposed"],
)
def test_other_convolutions_stay_as_they_are(
    function: Function, x: torch.Tensor, weight: torch.Tensor
) -> None:
    assert not convolutions(checked(function, x, weight))


def test_depthwise_convolutions_of_16_bits_are_channels_last() -> None:
    """Between two that are dense, as in MobileNet: nothing is turned round on the way."""

    def separable(x: torch.Tensor, w1: torch.Tensor, each: torch.Tensor, back: torch.Tensor) -> torch.Tensor:
        h = F.conv2d(F.conv2d(x, w1).relu(), each, padding=1, groups=72)
        return F.conv2d(h.relu(), back).mean((2, 3))

    args = [one.bfloat16() for one in (X, W1, filters(72, 1, 3, 3), W_BACK)]
    program = lower(traced(separable, args), CUDA)
    assert len(convolutions(program)) == 3
    assert [name for name in program.buffers if name.endswith("_channels_last")] == ["arg0_1_channels_last"]


def test_the_cpu_keeps_eagers_layout() -> None:
    assert not convolutions(checked(chain, X, W1, W2, options=CPU))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.transpose(0, 1) * 2,
        lambda x: (x.permute(2, 0, 3, 1) + 1).relu(),
        lambda x: (x * 2).transpose(1, 3).contiguous(),
        lambda x: x.transpose(1, 2).clone(),
        lambda x: x.permute(0, 2, 3, 1).to(torch.float64),
    ],
)
def test_results_of_permuted_tensors_have_eagers_strides(function: Function) -> None:
    checked(function, X, options=CPU)


class Block(nn.Module):
    """A convolution whose weight is only that, and one whose weight is read elsewhere, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(8, 72, 3), nn.Conv2d(72, 72, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        out = self.second(self.first(x).relu())
        return out, out.view(2, -1), self.second.weight.square().sum()


def test_weights_of_convolutions_are_held_channels_last() -> None:
    model, x = Block().eval(), torch.randn(2, 8, 9, 7)
    graph = capture_export(model, (x,), target=CUDA.target)
    program = lower(graph, CUDA)
    held = {b.name: b.layout_is_known for b in program.buffers.values() if b.kind is BufferKind.WEIGHT}
    weights = {entry.target: entry.node for entry in graph.inputs}
    assert not held[weights["first.weight"]] and held[weights["second.weight"]]
    inputs = inputs_of(graph, model, (x,))
    with torch.no_grad():
        out, flat, total = results_of(program, run_program(program, inputs), inputs)
        expected = model(x)
    for ours, eager in zip((out, flat, total), expected, strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)
    assert out.data_ptr() == flat.data_ptr() and isinstance(program.results[0], View)


def gated_heads(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    q = x.view(2, 5, 4, 8).transpose(1, 2) * gate
    k = (x * gate.mean()).view(2, 5, 4, 8).transpose(1, 2)
    return F.scaled_dot_product_attention(q, k, k + 1.0).transpose(1, 2).reshape(2, 5, 32)


@pytest.mark.parametrize("options", [CPU, CUDA], ids=["cpu", "cuda"])
def test_what_attention_reads_lies_as_in_eager(options: Options) -> None:
    program = checked(gated_heads, torch.randn(2, 5, 32), torch.randn(4, 1, 8), options=options)
    (attention,) = (
        step
        for step in program.steps
        if isinstance(step, Extern) and "scaled_dot_product" in str(step.target)
    )
    operands = [program.buffers[view.buffer] for view in attention.args[:3] if isinstance(view, View)]
    transposed = [buffer.stride for buffer in operands if len(buffer.shape) == 4]
    assert len(operands) == 3
    assert transposed == [(160, 8, 32, 1)] * len(transposed) and len(transposed) >= 2  # q and k + 1


class Biased(nn.Module):
    """Heads innermost in the table that the bias is looked up in: permuted (T5), and made contiguous (Swin)."""

    def __init__(self, is_copied: bool) -> None:
        super().__init__()
        self.is_copied = is_copied
        self.table = nn.Parameter(torch.randn(9, 4))

    def forward(self, q: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        bias = self.table[places].permute(2, 0, 1)
        bias = bias.contiguous() if self.is_copied else bias
        return F.scaled_dot_product_attention(q, q, q, attn_mask=bias.unsqueeze(0))


@pytest.mark.parametrize("seq", [5, 16])
@pytest.mark.parametrize("is_copied", [False, True], ids=["permuted", "copied"])
def test_a_bias_of_attention_has_its_keys_side_by_side(is_copied: bool, seq: int) -> None:
    args = (torch.randn(2, 4, seq, 8), torch.randint(9, (seq, seq)))
    graph = capture_export(Biased(is_copied), args, target=CUDA.target)
    program = lower(graph, CUDA)
    (attention,) = (
        step
        for step in program.steps
        if isinstance(step, Extern) and "scaled_dot_product" in str(step.target)
    )
    bias = attention.args[3] if len(attention.args) > 3 else dict(attention.kwargs)["attn_mask"]
    assert isinstance(bias, View) and bias.stride[-1] == 1 and bias.stride[-2] == 16
