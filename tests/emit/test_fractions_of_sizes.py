"""Numbers that follow from sizes and are no whole ones: ``seq ** -0.5`` is computed in each call."""

from __future__ import annotations

from pathlib import Path

import pytest
import sympy
import torch
import torch.nn.functional as F
from torch.export import Dim
from torch.utils._sympy.functions import FloatPow, FloatTrueDiv, IntTrueDiv, ToFloat

from longhand.api import generate
from longhand.emit.text.expression import size_text
from longhand.emit.unit.loading import load_unit

N, M = sympy.Symbol("n", integer=True, positive=True), sympy.Symbol("m", integer=True, positive=True)


@pytest.mark.parametrize(
    "term",
    [
        FloatPow(ToFloat(N), sympy.Float(-0.5)),
        FloatPow(ToFloat(5 * N), sympy.Float(0.5)),
        FloatPow(ToFloat(N + 3), sympy.Float(-1.5)) * ToFloat(N + 1),
        IntTrueDiv(1, N),
        IntTrueDiv(N + M, M * 3) + 0.5,
        -IntTrueDiv(N, M),
        1.0 - IntTrueDiv(1, N),
        2.0 / ToFloat(N + 1),
        FloatTrueDiv(ToFloat(N), IntTrueDiv(M, 7)),
        FloatPow(IntTrueDiv(N, 7), sympy.Float(-0.5)),
        ToFloat(N + M) * 0.25,
    ],
    ids=str,
)
def test_the_text_is_the_number(term: sympy.Expr) -> None:
    for n, m in ((2, 3), (7, 11), (64, 5)):
        text = size_text(term, {"n": "rows", "m": "cols"})
        assert eval(text, {"rows": n, "cols": m}) == pytest.approx(float(term.subs({N: n, M: m}).doit()))


def scaled(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows, cols = x.shape
    return (
        x * rows**-0.5,
        x * (1 / rows),
        F.softmax(x @ x.t() * (rows * cols) ** -0.5, -1),
        torch.full((3,), rows / 3),
        x.abs() ** (rows / 7),
        F.leaky_relu(x, 1 / rows),
        x.clamp(max=1 / rows),
        torch.where(torch.arange(rows)[:, None] < rows // 2, x, 0),
    )


def test_a_unit_computes_them_in_each_call(tmp_path: Path) -> None:
    x = torch.randn(11, 5)
    shapes = ({0: Dim("rows", min=2, max=1000)},)
    generate(scaled, (x,), out=tmp_path / "unit", dynamic_shapes=shapes, run=False, device="cpu")
    unit = load_unit(tmp_path / "unit")
    for rows in (11, 2, 7, 64):
        x = torch.randn(rows, 5)
        torch.testing.assert_close(unit(x), scaled(x))
