"""Functions that are cut somewhere (x * log y is 0 at x = 0): there the op's own derivative counts, not its parts'."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import longhand
from longhand.capture.functionalize.canonicalize import TRAINING_RULES
from longhand.capture.functionalize.decompositions import decomposition_table, packet_name
from longhand.compiled.from_bytecode import captured

X, Y = torch.tensor([0.0, 0.5, 1.0, 0.0]), torch.tensor([2.0, 3.0, 0.5, 0.0])


def products(x, y):
    return torch.xlogy(x, y) + torch.special.xlog1py(x, y) + torch.xlogy(2.0, y) + torch.sinc(x) * y


def with_infinite_gradients(x, y):
    return torch.special.entr(x) + torch.logit(x[1:3]).sum() * y


def gradients(function):
    x, y = X.clone().requires_grad_(), Y.clone().requires_grad_()
    return torch.autograd.grad(function(x, y).sum(), (x, y))


@pytest.mark.parametrize("function", [products, with_infinite_gradients])
@pytest.mark.parametrize("door", ["compile", "generate"])
def test_gradients_at_the_cuts(door, function, tmp_path: Path, hook) -> None:
    if door == "generate":
        given = (X.clone().requires_grad_(), Y.clone().requires_grad_())
        longhand.generate(function, given, out=tmp_path / "unit", train=True, run=False)
        made: Callable = longhand.load(tmp_path / "unit")
    else:
        made = captured(function)
    for found, expected in zip(gradients(made), gradients(function), strict=True):
        torch.testing.assert_close(found, expected, equal_nan=True)


def test_what_has_no_derivative_in_eager_has_none_compiled(hook) -> None:
    """The parts of a step function have one, which is zero."""

    def steps(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.heaviside(x, y) * y

    for function in (steps, captured(steps)):
        x, y = (one.clone().requires_grad_() for one in (X, Y))
        with pytest.raises(RuntimeError, match="heaviside is not implemented"):
            function(x, y).sum().backward()


def test_no_other_ops_parts_have_another_derivative():
    """Of all that torch takes apart element by element, where it has a derivative of its own."""
    points = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0], dtype=torch.float64)
    pairs = [one.flatten() for one in torch.meshgrid(points, points, indexing="ij")]
    differing = set()
    for op, parts in decomposition_table().items():
        needed = [one for one in op._schema.arguments if not one.has_default_value()]
        is_plain = 0 < len(needed) < 3 and all(str(one.type) == "Tensor" for one in needed)
        if not is_plain or torch.Tag.pointwise not in op.tags or op._schema.is_mutable:
            continue
        found = [_derived(function, pairs[: len(needed)]) for function in (op, parts)]
        if found[0] is None:
            continue
        if found[1] is None or not all(
            torch.allclose(one, other, equal_nan=True) for one, other in zip(*found, strict=True)
        ):
            differing.add(packet_name(op))
    assert {"sinc", "xlogy", "special_xlog1py"} <= differing <= set(TRAINING_RULES)


def _derived(function, points):
    given = [one.clone().requires_grad_() for one in points]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = torch.autograd.grad(function(*given).sum(), given, materialize_grads=True)
        except (RuntimeError, NotImplementedError, TypeError):
            return None
    return found
