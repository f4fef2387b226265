"""The derivative of a norm whose 1 / deviation another kernel made is in closed form; a rule's own is left alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch
import torch.nn.functional as F

import longhand
from longhand.capture.graph import Role
from longhand.lower.ir import Load, Nest, Pointwise, PointwiseOp, ReduceOp
from longhand.schedule.numerics.closed_forms import in_closed_form
from tests.schedule.nests import NestMaker


def derivative() -> Nest:
    """``g * rstd + sum(g * x) * -0.5 * rstd**3 / n * (x * 2.0)``, rstd being read."""
    make = NestMaker(row=6, col=16)
    g, x = make.load("g", "row col"), make.load("x", "row col")
    rstd = make.load("rstd", "row")
    total = make.reduce(ReduceOp.SUM, g * x, "col")
    through = total * -0.5 * (rstd * rstd * rstd) / make.axis_size("col")
    make.store("d_x", "row col", g * rstd + through * (x * 2.0))
    return make.nest()


def numbers(nest: Nest) -> set[float]:
    return {value.value for value in nest.body if hasattr(value, "value") and isinstance(value.value, float)}


def test_what_is_divided_by_may_be_read() -> None:
    nest = in_closed_form(derivative())
    roles = {getattr(value, "name", None) for value in nest.body}
    assert {Role.NORMALIZED, Role.THROUGH_RSTD} <= roles
    assert numbers(nest).isdisjoint({-0.5, 2.0})


def test_a_derivative_of_longhands_own_is_as_it_is() -> None:
    plain = derivative()
    body = tuple(
        (
            dataclasses.replace(value, name=Role.D_NORMALIZED)
            if isinstance(value, Pointwise) and value.op is PointwiseOp.MUL and position == 3
            else value
        )
        for position, value in enumerate(plain.body)
    )
    ruled = Nest(plain.axes, body)
    assert any(isinstance(value, Load) for value in body)
    assert in_closed_form(ruled) == ruled


def test_a_sum_over_fewer_axes_does_not_come_into_a_nest(tmp_path: Path) -> None:
    """What is averaged is a sum, of which one addend is one number for each channel: its own sum is over channels."""

    def gated(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        normed = F.layer_norm(x, (68, 6, 7))
        return normed, normed * normed.mean((2, 3), keepdim=True).sigmoid()

    x = torch.randn(1, 68, 6, 7, requires_grad=True)
    longhand.generate(gated, (x,), out=tmp_path / "unit", device="cuda", arch="sm_90", train=True)
