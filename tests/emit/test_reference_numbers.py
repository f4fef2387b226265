"""Numbers in references: a place that no axis moves is a Python number, and torch's functions take only some."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from longhand.emit.text.expression import Text
from longhand.emit.text.reference_ops import operation
from longhand.lower.ir import Pointwise, PointwiseOp


def last_of_positions(x: torch.Tensor) -> torch.Tensor:
    """Fourier features' positions: what the last one is divides all."""
    rows = torch.arange(1, 9, device=x.device).float()[:, None].repeat(1, 4)
    return x * (rows / (rows[-1:, :] + 1e-6))


def last_of_positions_in_arithmetic(x: torch.Tensor) -> torch.Tensor:
    rows = torch.arange(8, device=x.device).float()[:, None].repeat(1, 4)
    return x * torch.sqrt(rows[-1:, :]) + torch.copysign(rows[-1:, :], x)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("function", [last_of_positions, last_of_positions_in_arithmetic])
def test_a_place_that_no_axis_moves_is_a_number(emit: Any, function: Any, device: str) -> None:
    x = torch.randn(8, 4)
    files = emit(function, (x,), device=device)
    (text,) = (
        str(text)
        for path, text in files.items()
        if path.endswith(".py") and "def reference(" in str(text) and path.startswith("kernels/")
    )
    written = next(
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name == "reference"
    )
    given = {"x": x, "n_rows": 8, "n_cols": 4, "n_elements": 32, "eps": 1e-6}
    namespace: dict[str, Any] = {"torch": torch, "F": F}
    exec(compile(ast.Module([written], []), "reference", "exec"), namespace)
    made = namespace["reference"](*(given[argument.arg] for argument in written.args.args))
    torch.testing.assert_close(made, function(x))


@pytest.mark.parametrize(
    ("op", "n_arguments"),
    [
        (PointwiseOp.ATAN2, 2),
        (PointwiseOp.HYPOT, 2),
        (PointwiseOp.NEXTAFTER, 2),
        (PointwiseOp.COPYSIGN, 2),
        (PointwiseOp.FMOD, 2),
        (PointwiseOp.REMAINDER, 2),
        (PointwiseOp.POW, 2),
        (PointwiseOp.FLOOR_DIV, 2),
        (PointwiseOp.MAXIMUM, 2),
        (PointwiseOp.ADD, 2),
        (PointwiseOp.EXP, 1),
    ],
)
def test_numbers_may_stand_anywhere(op: PointwiseOp, n_arguments: int) -> None:
    x = torch.tensor([1.5, 4.0])
    value = Pointwise(op, tuple(range(n_arguments)), torch.float32)
    for bits in range(2**n_arguments):
        is_number = [bool(bits >> i & 1) for i in range(n_arguments)]
        given = [Text("2.0") if number else Text("x") for number in is_number]
        text = operation(value, given, [torch.float32] * n_arguments, is_number).text
        wanted = operation(
            value, [Text("y") if n else Text("x") for n in is_number], [torch.float32] * 2, [False] * 2
        )
        seen = torch.as_tensor(eval(text, {"torch": torch, "x": x}))
        expected = eval(wanted.text, {"torch": torch, "x": x, "y": torch.tensor([2.0, 2.0])})
        torch.testing.assert_close(seen.expand(2), expected)
