"""Units for training against eager autograd and float64: gradients, statistics, dropout, tied weights, refusals."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from examples import gpt_train, resnet_block_train
from longhand.capture.autograd.joint import differentiate
from longhand.capture.autograd.kept.partition import partition
from longhand.capture.frontends.export import capture_export
from longhand.errors import CaptureError
from longhand.loading import bound
from longhand.options import Device, Target

SEED = 3


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln = nn.LayerNorm(16)
        self.fc = nn.Linear(16, 32)
        self.proj = nn.Linear(32, 16)

    def forward(self, x):
        h = self.ln(x)
        h = F.gelu(self.fc(h))
        return x + self.proj(h)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 16)
        self.drop = nn.Dropout(0.3)
        self.bn = nn.BatchNorm1d(16)

    def forward(self, x):
        return self.bn(x + self.drop(self.fc(x)))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.mix = nn.Linear(8, 8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight
        self.mix.bias.requires_grad_(False)

    def forward(self, tokens):
        return self.head(self.mix(self.embed(tokens)))


class Stopped(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    def forward(self, x):
        y = self.a(x)
        with torch.no_grad():
            z = self.b(y)
        w = self.b(x).detach()
        return y * z + w * self.b(y)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        mixed = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], is_causal=True)[:, 0]
        return {"mixed": torch.cat([mixed, k], -1), "best": x.argmax(-1), "turned": v.transpose(0, 1) + 1}


class Positions(nn.Module):
    """A table read by position, all rows of it or the first ones; `is_tied`: it also projects."""

    def __init__(self, n_rows, is_tied=False):
        super().__init__()
        self.table = nn.Embedding(n_rows, 8)
        self.is_tied = is_tied

    def forward(self, x):
        y = x * self.table(torch.arange(x.shape[1]))
        return F.linear(y, self.table.weight) if self.is_tied else y


CALLS = {
    "all positions": lambda: (Positions(6), (torch.randn(2, 6, 8),)),
    "first positions": lambda: (Positions(7), (torch.randn(2, 6, 8),)),
    "all positions, tied": lambda: (Positions(6, is_tied=True), (torch.randn(2, 6, 8),)),
    "first positions, tied": lambda: (Positions(7, is_tied=True), (torch.randn(2, 6, 8),)),
    "mlp": lambda: (Mlp(), (torch.randn(8, 16, requires_grad=True),)),
    "batch norm and dropout": lambda: (Normed(), (torch.randn(8, 16),)),
    "tied and frozen": lambda: (Tied(), (torch.randint(0, 11, (4, 5)),)),
    "detach and no_grad": lambda: (Stopped(), (torch.randn(4, 8),)),
    "attention": lambda: (Attention(), (torch.randn(2, 6, 8),)),
    "gpt": gpt_train.small,
    "resnet block": resnet_block_train.small,
}


def step(model, args, dtype=None):
    """Results, and by name every gradient and buffer after one backward pass."""
    given = [
        arg.detach().clone().to(dtype if dtype and arg.is_floating_point() else arg.dtype) for arg in args
    ]
    for mine, original in zip(given, args, strict=True):
        mine.requires_grad_(original.requires_grad)
    torch.manual_seed(SEED)
    results = torch.utils._pytree.tree_leaves(model(*given))
    carrying = [result for result in results if result.requires_grad]
    generator = torch.Generator().manual_seed(SEED)
    torch.autograd.backward(
        carrying, [torch.randn(r.shape, generator=generator).to(r.dtype) for r in carrying]
    )
    found = {f"result {i}": result.detach() for i, result in enumerate(results)}
    found |= {f"argument {i}": arg.grad for i, arg in enumerate(given)}
    for name, parameter in model.named_parameters():
        found[name] = None if parameter.grad is None else parameter.grad.clone()
    return found | {name: tensor.clone() for name, tensor in model.named_buffers()}


def assert_as_good(ours, eager, exact):
    assert ours.keys() == eager.keys()
    for name, theirs in eager.items():
        mine = ours[name]
        if theirs is None:
            assert mine is None, name
        elif not theirs.is_floating_point():
            assert torch.equal(mine, theirs), name
        else:
            allowed = 2 * (theirs.double() - exact[name]).abs().max().item()
            allowed += 4 * torch.finfo(theirs.dtype).eps * exact[name].abs().max().item()
            assert (mine.double() - exact[name]).abs().max().item() <= allowed, name


def unit_of(model, args, folder, **options):
    longhand.generate(model, args, out=folder, train=True, **options)
    unit = longhand.load(folder)()
    unit.load_state_dict(model.state_dict())
    return unit


@pytest.mark.parametrize("name", CALLS)
def test_gradients_are_as_good_as_eagers(name, tmp_path):
    torch.manual_seed(0)
    model, args = CALLS[name]()
    unit = unit_of(model.train(), args, tmp_path / "unit")
    exact = step(copy.deepcopy(model).double(), args, torch.float64)
    assert_as_good(step(unit, args), step(model, args), exact)


def test_a_seed_repeats_dropout_and_calls_differ(tmp_path):
    torch.manual_seed(0)
    model = Normed().train()
    args = (torch.randn(8, 16),)
    unit = unit_of(model, args, tmp_path / "unit")
    first, second = step(unit, args), step(unit, args)
    assert torch.equal(first["fc.weight"] * 2, second["fc.weight"])  # accumulated, the mask the same
    torch.manual_seed(SEED + 1)
    assert not torch.equal(unit(*args).detach(), first["result 0"])


def test_an_optimizer_follows_eager(tmp_path):
    torch.manual_seed(0)
    model = Mlp()
    x, y = torch.randn(8, 16), torch.randn(8, 16)
    unit = unit_of(model, (x,), tmp_path / "unit")
    losses = []
    for trained in (model, unit):
        optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-2)
        found = []
        for _ in range(20):
            optimizer.zero_grad()
            loss = F.mse_loss(trained(x), y)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        losses.append(found)
    assert losses[0][-1] < 0.5 * losses[0][0]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


def test_a_smaller_memory_budget_keeps_less_and_gives_the_same(tmp_path):
    torch.manual_seed(0)
    model, args = gpt_train.small()
    target = Target(Device.CPU)
    joint = differentiate(capture_export(model, args, target=target, train=True), target)
    budgets = (1.0, 0.75, 0.5, 0.25, 0.0)
    sizes = [partition(joint, memory_budget=budget).saved_bytes for budget in budgets]
    assert all(later < earlier for earlier, later in itertools.pairwise(sizes))
    assert all(size <= budget * sizes[0] for size, budget in zip(sizes[:-1], budgets[:-1], strict=True))
    unit = unit_of(model, args, tmp_path / "unit", activation_memory_budget=0.5)
    exact = step(copy.deepcopy(model).double(), args)
    assert_as_good(step(unit, args), step(model, args), exact)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 5


def _custom(x, w):
    return Doubled.apply(x @ w)


def _writes(x, w):
    x.mul_(2)
    return x @ w


def _stops(x, w):
    return (x @ w).detach()


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_custom, "custom autograd.Function"),
        (_stops, "depends on anything that requires grad"),
    ],
)
def test_what_has_no_sound_backward_is_refused(function, reason, tmp_path):
    args = (torch.randn(4, 8, requires_grad=True), torch.randn(8, 3, requires_grad=True))
    with pytest.raises(CaptureError, match=reason):
        longhand.generate(function, args, out=tmp_path / "unit", train=True, frontend="export")
    assert not (tmp_path / "unit").exists()


def test_writing_into_what_requires_grad_is_refused(tmp_path):
    args = (torch.randn(4, 8, requires_grad=True) * 1, torch.randn(8, 3, requires_grad=True))
    with pytest.raises(CaptureError):
        longhand.generate(_writes, args, out=tmp_path / "unit", train=True)


def test_a_second_derivative_is_refused(tmp_path):
    x = torch.randn(8, 16, requires_grad=True)
    unit = unit_of(Mlp(), (x,), tmp_path / "unit")
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(unit(x).sum(), x, create_graph=True)


def test_a_gradient_nobody_generated_is_refused(tmp_path):
    x = torch.randn(8, 16)
    unit = unit_of(Mlp(), (x,), tmp_path / "unit")
    with pytest.raises(RuntimeError, match="requires grad"):
        unit(x.clone().requires_grad_())


def test_a_bound_unit_keeps_tied_weights_tied(tmp_path):
    torch.manual_seed(0)
    model = Tied().train()
    args = (torch.randint(0, 11, (4, 5)),)
    longhand.generate(model, args, out=tmp_path / "unit", train=True)
    unit = bound(longhand.load(tmp_path / "unit"), model)
    assert unit.head.weight is unit.embed.weight
    exact = step(copy.deepcopy(model).double(), args, torch.float64)
    assert_as_good(step(unit, args), step(model, args), exact)


@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 3, 5)], ids=str)
def test_gradients_of_a_complex_linear_are_conjugated(shape):
    operands = torch.randn(shape, dtype=torch.complex64), torch.randn(3, 5, dtype=torch.complex64)
    given = [*operands, torch.randn(3, dtype=torch.complex64)]
    d_out = torch.randn(*shape[:-1], 3, dtype=torch.complex64)
    found = []
    for call in (F.linear, longhand.compile(lambda x, weight, bias: F.linear(x, weight, bias))):
        leaves = [value.clone().requires_grad_() for value in given]
        found.append(torch.autograd.grad(call(*leaves), leaves, d_out))
    torch.testing.assert_close(found[1], found[0])


def test_gradients_of_a_complex_norm_are_conjugated():
    given = [torch.randn(shape, dtype=torch.complex64) for shape in ((3, 5), (5,))]
    d_out, found = torch.randn(3, 5, dtype=torch.complex64), []
    for call in (F.rms_norm, longhand.compile(lambda x, shape, weight: F.rms_norm(x, shape, weight))):
        leaves = [value.clone().requires_grad_() for value in given]
        found.append(torch.autograd.grad(call(leaves[0], (5,), leaves[1]), leaves, d_out))
    torch.testing.assert_close(found[1], found[0])
