"""In a Triton kernel file a name is given once: what printing adds takes no parameter's, value's or constant's name."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import longhand

ROWS = 0.25


def gates_of_two_products(x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """Parts of two tensors: their offsets are called x_offset, x_start, h_offset, ..."""
    reset_x, update_x, new_x = x.chunk(3, dim=-1)
    reset_h, update_h, new_h = h.chunk(3, dim=-1)
    new = torch.tanh(new_x + torch.sigmoid(reset_x + reset_h) * new_h)
    return torch.sigmoid(update_x + update_h) * new


def scaled_by_rows(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A number that the user calls as a kernel calls the rows of its block."""
    return torch.tanh(x.t() + bias) * ROWS


def softmax_of_x(x: torch.Tensor) -> torch.Tensor:
    """Long rows of a value called x, which the running maximum needs under a name, too."""
    shifted = x * 2.0 + 1.0
    return torch.softmax(torch.where(shifted > 0, shifted, -shifted), dim=-1) * x


def two_sums_of_exponentials(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Two running maxima in one loop."""
    return torch.logsumexp(x + y, dim=-1) - torch.logsumexp(x - y, dim=-1)


CASES: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "offsets": (gates_of_two_products, (torch.randn(4, 96), torch.randn(4, 96))),
    "constant": (scaled_by_rows, (torch.randn(70, 50), torch.randn(70))),
    "element": (softmax_of_x, (torch.randn(3, 40000),)),
    "maxima": (two_sums_of_exponentials, (torch.randn(3, 40000), torch.randn(3, 40000))),
}


@pytest.mark.parametrize("name", CASES)
def test_each_name_is_given_once(name: str, tmp_path: Path) -> None:
    function, args = CASES[name]
    longhand.generate(function, args, out=tmp_path / "unit", device="cuda", arch="sm_90")
    kernels = [path for path in (tmp_path / "unit" / "kernels").glob("*.py") if path.stem != "__init__"]
    assert kernels
    for path in kernels:
        tree = ast.parse(path.read_text())
        module = [target for statement in tree.body for target in bound_by(statement)]
        assert len(module) == len(set(module))
        for kernel in (one for one in tree.body if isinstance(one, ast.FunctionDef)):
            if not kernel.name.endswith("_kernel"):
                continue
            parameters = {argument.arg for argument in kernel.args.args}
            constants = set(module) & {word.id for word in ast.walk(kernel) if isinstance(word, ast.Name)}
            # Tunables are passed on as constexprs of the same name.
            assert not parameters & (
                constants - {tunable for tunable in constants if tunable in tunables(tree)}
            )
            for bound in blocks(kernel):
                assert not parameters & set(bound), (path.name, bound)
                assert len(bound) == len(set(bound)), (path.name, bound)


def tunables(tree: ast.Module) -> set[str]:
    """The names of plain numbers at the top of a file."""
    return {
        name
        for statement in tree.body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        for name in bound_by(statement)
    }


def blocks(function: ast.FunctionDef) -> Iterator[list[str]]:
    """The names that each list of statements binds."""
    for node in ast.walk(function):
        body: Any = getattr(node, "body", None)
        if isinstance(body, list):
            yield [name for statement in body for name in bound_by(statement)]


def bound_by(statement: ast.stmt) -> list[str]:
    """The names that an assignment binds."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [word.id for target in targets for word in ast.walk(target) if isinstance(word, ast.Name)]
