"""Symbolic sizes, strided and empty inputs, NaN and infinity, integer types: what breaks lowerings first."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import longhand
from longhand.lower.ir import Load, Nest

INF, NAN = math.inf, math.nan


def awkward(*shape: int) -> torch.Tensor:
    """Normal numbers with NaN, infinities and zeros of both signs among them."""
    x = torch.randn(*shape)
    flat = x.view(-1)
    flat[: min(5, flat.numel())] = torch.tensor([NAN, INF, -INF, 0.0, -0.0])[: min(5, flat.numel())]
    return x


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.softmax(x, -1),
        lambda x: torch.log_softmax(x, -1),
        lambda x: torch.logsumexp(x, -1),
        lambda x: x.amax(-1),
        lambda x: x.max(-1),
        lambda x: x.argmin(-1),
        lambda x: x.argmax(),
        lambda x: (x.relu(), F.leaky_relu(x), F.elu(x), F.hardtanh(x), F.silu(x), F.mish(x), F.softplus(x)),
        lambda x: (
            x.clamp(-1, 1),
            x.sign(),
            x.nan_to_num(),
            torch.fmax(x, x.flip(0)),
            torch.maximum(x, x.flip(0)),
        ),
        lambda x: (x.isnan(), x.isinf(), x == x, x != x, x < 0, x.signbit(), x.bool()),
        lambda x: (x.floor(), x.round(), x.trunc(), torch.fmod(x, 0.3), torch.remainder(x, -0.3)),
        lambda x: (x.sqrt(), x.rsqrt(), x.log(), x.exp(), x**2, x**0.5, x**-1, x.tanh(), x.sigmoid()),
        lambda x: torch.cat((x, x * 2), 1) + 1,
        lambda x: torch.logaddexp(x, x.flip(0)),
    ],
)
def test_nan_and_infinity(check, function):
    check(function, awkward(4, 6))


def test_norms_of_one_element(check):
    """They are its magnitude, though its powers leave the range of its type."""
    x = torch.tensor([[1e30], [-1e-30], [0.0], [INF], [NAN]])
    check(lambda x: tuple(x.norm(order, 1) for order in (0, 0.5, 1, 2, 3, -1, INF, -INF)), x)


def test_statistics_of_a_number(check):
    x = torch.tensor(2.5)
    check(lambda x: (*torch.var_mean(x, 0, correction=0), *torch.std_mean(x, 0, correction=0)), x)


def test_gelu_of_infinity(check):
    # Eager itself says NaN or infinity, depending on where in a vector the element lies.
    (found,) = check(F.gelu, torch.randn(3)).run({"arg0_1": torch.tensor([INF, NAN, 1.0])})
    assert found[0] == INF and found[1].isnan()


def test_strided_inputs(check):
    base = torch.randn(6, 8, 10)
    check(lambda x: torch.softmax(x, 1) + x.sum(-1, keepdim=True), base[::2, 1:7, ::3])
    check(lambda x: x.reshape(-1, 4) * 2, base.transpose(0, 2)[:, :4])
    check(lambda x: x.exp(), torch.randn(3, 1).expand(3, 5))
    check(lambda x: (x.sum(1), x.prod(1), x.argmax(1), x.amin(1)), torch.randn(3, 1).expand(3, 5))
    check(lambda x: x.unfold(1, 3, 2).sum(-1), torch.randn(2, 9))
    check(lambda x: x.diagonal(1, 0, 1) + 1, torch.randn(4, 5, 3))


def test_empty_inputs(check):
    x = torch.randn(0, 4)
    check(lambda x: (x + 1, torch.softmax(x, -1), x.sum(-1)), x)
    check(lambda x: (x.sum(0), x.prod(0), x.mean()), x, externs=3)
    check(lambda x: torch.cat((x, torch.ones(2, 4))), x)


def test_group_norm_of_nothing_is_python_s_call(tmp_path):
    x, weight = torch.randn(0, 2), torch.randn(2)
    longhand.generate(lambda x, w: F.group_norm(x, 1, w), (x, weight), out=tmp_path / "unit")
    assert longhand.load(tmp_path / "unit")(x, weight).shape == (0, 2)


def test_integer_types_wrap_and_round_as_eager(check):
    x = torch.tensor([-128, -7, -1, 0, 1, 7, 100, 127], dtype=torch.int8)
    check(lambda x: (x + x, x * x, -x, x.abs(), x // 3, x % 3, x % -3, x / 3, x >> 1, x << 1, ~x), x)
    check(lambda x: (x.sum(), x.prod(), x.to(torch.uint8), x.float().to(torch.int32)), x)
    check(lambda x: (torch.div(x, 3, rounding_mode="trunc"), torch.fmod(x, 3), torch.div(x, 3)), x.long())
    check(lambda x: (x & 1, x | 6, x ^ 5, x.bool() & (x > 0), x.clamp(-3, 3)), x.int())


def test_numbers_that_an_integer_type_does_not_hold_wrap_as_in_eager(check):
    x = torch.tensor([-128, -7, -1, 0, 1, 7, 100, 127], dtype=torch.int8)
    check(
        lambda x: (x % 1025, torch.fmod(x, 259), x // 1027, x < 1025, x > -300, x + 1000, x ^ 1025, x == 263),
        x,
    )
    y = torch.tensor([0, 1, 5, 255], dtype=torch.uint8)
    check(lambda y: (y % -3, y > -1, y + -1, y - 300, y & 1025), y)


def test_mixed_types_promote(check):
    i, f, h, d = torch.arange(5), torch.randn(5), torch.randn(5).bfloat16(), torch.randn(5).double()
    check(
        lambda i, f, h, d: (i + f, i * h, h + f, f + d, i / 2, i + 1.5, h > i, torch.where(h > 0, h, f)),
        i,
        f,
        h,
        d,
    )
    check(lambda f, d: (f * d.sum(), f + d[0]), f, d)


def test_symbolic_sizes_go_through_views(check):
    def function(x, y):
        batch, seq, _ = x.shape
        a, b = x.chunk(2, -1)
        joined = torch.cat((x, y), 1)
        heads = x.view(batch, seq, 4, 2).transpose(1, 2).reshape(batch * 4, seq, 2)
        mask = torch.arange(seq)[:, None] >= torch.arange(seq)[None, :]
        return (
            a * b,
            joined + 1,
            heads.softmax(-2),
            x[:, 1:] * 2,
            x.mean((0, 1)),
            mask,
            x.flatten(0, 1).sum(0),
        )

    result = check(function, torch.randn(3, 5, 8), torch.randn(3, 7, 8), symbolic=True)
    given = {name: torch.randn(2, 4 + 5 * i, 8) for i, name in enumerate(result.inputs)}
    for ours, eager in zip(result.run(given), function(*given.values()), strict=True):
        torch.testing.assert_close(ours, eager)


def test_rolls(check):
    x = torch.randn(3, 4, 5)
    check(lambda x: (torch.roll(x, (1, -2), (0, 2)), torch.roll(x, -1, 1), torch.roll(x, 3, 0)), x)
    check(lambda x: (torch.roll(x, (1, -1), (0, 0)), torch.roll(x, (1, 1, 1), (0, 2, -1))), x)


def test_borders(check):
    x = torch.randn(2, 3, 5, 6)
    check(lambda x: torch.ops.aten.reflection_pad2d(x, [1, 2, 3, 0]), x)
    check(lambda x: torch.ops.aten.replication_pad2d(x, [1, 2, 3, 4]), x)


def test_indexing_by_ranges_reads_no_index(check):
    def function(x):
        rows, cols = torch.arange(3), torch.arange(4)
        return x[rows[:, None], cols[None, :] + 0] * 2, x[rows[:, None], cols.flip(0)] + 1

    result = check(lambda x: x[torch.arange(3)[:, None], torch.arange(1, 5).flip(0)] * 2, torch.randn(3, 6))
    assert len(result.nests) == 1
    check(function, torch.randn(3, 6))


def test_a_body_never_has_equal_values_twice(check):
    result = check(lambda x: (x * 2).exp() + (x * 2).exp() * torch.softmax(x * 2, -1), torch.randn(3, 4))
    for step in result.program.steps:
        if isinstance(step, Nest):
            loads = [(value.buffer, value.index) for value in step.body if isinstance(value, Load)]
            assert len(loads) == len(set(loads))
