"""Gradients through an operator whose derivative looks at data, in a unit that stands alone."""

import pytest
import torch
from torch import nn

import longhand
from longhand.capture.autograd.eager_derivative import differentiated, gradient_op
from tests.autograd.grouped_operator import grouped

GROUPED = torch.ops.longhand_tests.grouped.default
ENDS = torch.tensor([2, 2, 5])


class Grouped(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3, 8, 4))

    def forward(self, x, ends):
        return grouped(x, self.weight, ends)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("units") / "grouped_unit"
    longhand.generate(
        Grouped(), (torch.rand(5, 8), ENDS), out=out, train=True, frontend="bytecode", run=False
    )
    return out


def test_autograd_finds_its_gradients(folder):
    model, x = Grouped(), torch.rand(5, 8)
    unit = longhand.load(folder)()
    unit.load_state_dict(model.state_dict())
    expected = torch.autograd.grad(model(x, ENDS).square().sum(), model.weight)
    actual = torch.autograd.grad(unit(x, ENDS).square().sum(), unit.weight)
    assert torch.equal(actual[0], expected[0])


def test_the_unit_imports_what_registers_the_operator(folder):
    line = "import tests.autograd.grouped_operator  # noqa: F401"
    assert all(line in (folder / name).read_text() for name in ("model.py", "backward.py"))


def test_an_operator_that_writes_is_not_run_again():
    assert gradient_op(torch.ops.aten.mul_.Tensor, (0,), (0,)) is None
    assert gradient_op(torch.ops.aten.native_dropout.default, (0,), (0,)) is None
    assert differentiated(gradient_op(GROUPED, (0,), (0,))).target is GROUPED


def _leaf(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def bags(weight, at):
    return torch.nn.functional.embedding_bag(at, weight, mode="sum")


# Eager raises where the loss depends on a phase, looks whether windows add up, or has no derivative for P.
@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x: torch.linalg.eigvals(x), (_leaf(4, 4),)),
        (
            lambda x: torch.linalg.svd(x)[1].sum() + torch.linalg.svd(x).U.abs(),
            (_leaf(4, 3, dtype=torch.complex128),),
        ),
        (lambda x: torch.linalg.norm(x, "nuc"), (_leaf(4, 3, dtype=torch.complex128),)),
        (lambda x: torch.linalg.lu(x), (_leaf(4, 4),)),
        (
            lambda x, window: torch.istft(x, 8, window=window),
            (_leaf(5, 6, dtype=torch.complex128), torch.ones(8).double()),
        ),
        (bags, (_leaf(10, 3, dtype=torch.float32), torch.randint(10, (5, 8))[:, ::2])),
        (lambda x, at, value: x.put(at, value), (_leaf(3, 4), torch.tensor(5), _leaf(1))),
    ],
    ids=["eigvals", "svd", "nuclear norm", "lu", "istft", "embedding_bag", "put"],
)
def test_what_looks_at_data_has_eagers_gradients(function, args, tmp_path):
    longhand.generate(function, args, out=tmp_path / "unit", train=True, run=False)
    unit = longhand.load(tmp_path / "unit")
    wanted = [arg for arg in args if arg.requires_grad]
    found = [_step(call, args, wanted) for call in (unit, function)]
    for ours, eager in zip(*found, strict=True):
        torch.testing.assert_close(ours, eager)
        assert ours.requires_grad == eager.requires_grad


def _step(call, args, wanted):
    results = call(*args)
    results = [results] if isinstance(results, torch.Tensor) else list(results)
    loss = sum(one.abs().square().sum() for one in results if one.requires_grad)
    return [*results, *torch.autograd.grad(loss, wanted)]


def test_a_loss_that_depends_on_a_phase_raises_as_in_eager(tmp_path):
    x = _leaf(4, 3, dtype=torch.complex128)

    def first(x):
        return torch.linalg.svd(x).U

    longhand.generate(first, (x,), out=tmp_path / "unit", train=True, run=False)
    for call in (first, longhand.load(tmp_path / "unit")):
        with pytest.raises(RuntimeError, match="ill-defined"):
            torch.autograd.grad(call(x).real.sum(), x)


def test_a_cast_in_a_decomposition_has_its_derivative(tmp_path):
    x = torch.randn(4, 3).bfloat16().requires_grad_()
    longhand.generate(lambda x: torch.renorm(x, 2, 0, 1.0), (x,), out=tmp_path / "unit", train=True)
    found, expected = x.detach().clone().requires_grad_(), x.detach().clone().requires_grad_()
    longhand.load(tmp_path / "unit")(found).sum().backward()
    torch.renorm(expected, 2, 0, 1.0).sum().backward()
    torch.testing.assert_close(found.grad, expected.grad)


def test_hardsigmoid_in_float64_is_held_to_eager(tmp_path):
    """Eager's hardsigmoid has a sixth of 24 bits in its derivative: the unit is held to eager's."""
    x = torch.randn(20, dtype=torch.float64, requires_grad=True)
    longhand.generate(torch.nn.functional.hardsigmoid, (x,), out=tmp_path / "unit", train=True)
    found, expected = (
        torch.autograd.grad(call(x).square().sum(), x)[0]
        for call in (longhand.load(tmp_path / "unit"), torch.nn.functional.hardsigmoid)
    )
    assert torch.equal(found, expected)
