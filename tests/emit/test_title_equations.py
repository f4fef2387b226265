"""A kernel's first lines: what is too long for one is an equation a line, in the math that people write."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

from longhand.emit.text.kernel_head import head_lines, in_one_line
from longhand.emit.text.title_lines import Equation, laid_out


def titles(files: Any) -> str:
    """The first paragraphs of all kernels."""
    paths = [
        path
        for path in files
        if path.startswith("kernels/") and path.endswith(".py") and "__init__" not in path
    ]
    return "\n".join(str(files[path]).partition("\n\n")[0] for path in paths)


class TwoNorms(nn.Module):
    """A norm of what another one adds, written out."""

    def __init__(self) -> None:
        super().__init__()
        self.post_feedforward_weight = nn.Parameter(torch.rand(48))
        self.final_norm_weight = nn.Parameter(torch.rand(48))

    def forward(self, hidden_states: torch.Tensor, projected: torch.Tensor) -> torch.Tensor:
        scale = torch.rsqrt(projected.pow(2).mean(-1, keepdim=True) + 1e-6)
        total = hidden_states + projected * scale * self.post_feedforward_weight
        return total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + 1e-6) * self.final_norm_weight


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_long_formula_says_its_result_first_and_then_what_it_is_made_of(emit: Any, device: str) -> None:
    text = titles(emit(TwoNorms().eval(), (torch.randn(6, 48), torch.randn(6, 48)), device=device))
    first, *equations = text.splitlines()
    assert first.endswith(", where") and " = " in first, text
    assert any(line.startswith("    ") and line.lstrip().startswith("total = ") for line in equations), text
    assert "mean(" in text and "/ n" not in text, text


def looked_up(table: torch.Tensor, places: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return table[places] * x


def around_ones(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    ones = torch.ones(30, 1)
    return torch.cat([-2.0 * x, ones, torch.sigmoid(y)], dim=-1)


@pytest.mark.parametrize(
    ("function", "args", "wanted", "never"),
    [
        (
            looked_up,
            (torch.randn(20, 16), torch.randint(20, (30,)), torch.randn(30, 16)),
            "table[places]",
            "where(",
        ),
        (around_ones, (torch.randn(30, 13), torch.randn(30, 20)), "cat(x * -2.0, 1.0, sigmoid(y))", "where("),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_guards_and_pieces_are_not_in_the_formula(
    emit: Any, function: Any, args: Any, wanted: str, never: str, device: str
) -> None:
    text = titles(emit(function, args, device=device))
    assert wanted in text and never not in text, text


def test_several_results_stand_in_the_order_of_computing() -> None:
    equations = [
        Equation("rstd", "rsqrt(v)", is_result=False),
        Equation("y", "x * rstd", is_result=True),
        Equation("z", "y + 1", is_result=True),
    ]
    title = laid_out(equations, ", row by row")
    assert head_lines("scale", title, 80, str) == [
        "scale: y and z, row by row:",
        "    rstd = rsqrt(v)",
        "    y = x * rstd",
        "    z = y + 1",
    ]
    assert in_one_line(title) == "rstd = rsqrt(v); y = x * rstd; z = y + 1."


def test_of_many_results_the_first_line_says_how_many_there_are() -> None:
    apart = [Equation(word, "relu(x)", is_result=True) for word in "abcde"]
    assert laid_out(apart, ", row by row").splitlines()[0] == "5 results, row by row:"


def test_one_result_stands_before_its_steps_and_a_long_equation_goes_on_indented() -> None:
    equations = [
        Equation("total", " + ".join(["x"] * 20), is_result=False),
        Equation("y", "relu(total)", is_result=True),
    ]
    lines = head_lines("add_relu", laid_out(equations, ""), 60, str)
    assert lines[0] == "add_relu: y = relu(total), where"
    assert lines[1].startswith("    total = x + x") and lines[2].startswith("        ")
    assert all(len(line) <= 60 for line in lines)


def angles(inv_freq: torch.Tensor) -> torch.Tensor:
    freqs = torch.arange(12)[:, None] * inv_freq
    return torch.cat((freqs, freqs), dim=-1).cos()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_reference_has_no_second_name_for_a_column(emit: Any, device: str) -> None:
    files = emit(angles, (torch.rand(6),), device=device)
    references = [
        str(text).partition("def reference")[2] for path, text in files.items() if "kernels/" in path
    ]
    assert any("row" in text for text in references), references
    assert not any(re.search(r"^ +\w+ = (row|col)$", text, re.M) for text in references), references


def laid_out_in_fours(x: torch.Tensor, places: torch.Tensor, rates: torch.Tensor) -> torch.Tensor:
    """A rotary table of two axes: halves of halves, so that several loads read half a row before."""
    first, second = (
        part[:, axis % 2] for axis, part in enumerate((places[..., None] * rates).cos().chunk(2, dim=-1))
    )
    half = torch.cat([first, second], dim=-1)
    return torch.cat([half, half], dim=-1) * x


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_loads_of_halves_that_are_told_by_one_another(emit: Any, device: str) -> None:
    args = (torch.randn(6, 16), torch.randn(6, 2), torch.randn(8))
    assert "x" in titles(emit(laid_out_in_fours, args, device=device))
