"""A ``where`` is called after what it chooses."""

import torch

from benchmarks.readability.units import text_of
from longhand.lower.ir import Constant, Index, IndexExpression, Load, Pointwise, PointwiseOp
from longhand.schedule.names.value_rules import choice_names
from longhand.schedule.names.words import element_names, first_free

F32, I64 = torch.float32, torch.int64


def words(*body: object, operands: dict[int, str] | None = None) -> list[str]:
    values = (*body,)
    return list(choice_names(values[-1], values, operands or {}))  # type: ignore[arg-type]


def place() -> IndexExpression:
    return IndexExpression(Index(()), I64)


def load(dtype: torch.dtype = F32) -> Load:
    return Load("x", Index(()), dtype)


def compared(one: int, other: int) -> Pointwise:
    return Pointwise(PointwiseOp.LT, (one, other), torch.bool)


def test_an_index_that_may_count_from_the_end_is_wrapped() -> None:
    body = (
        load(I64),
        Constant(0, I64),
        compared(0, 1),
        Constant(9, I64),
        Pointwise(PointwiseOp.ADD, (0, 3), I64),
    )
    choice = Pointwise(PointwiseOp.WHERE, (2, 4, 0), I64)
    assert words(*body, choice, operands={0: "edges"}) == ["wrapped_edges"]
    assert words(*body, choice) == ["wrapped"]


def test_what_hides_scores_is_a_mask_and_what_it_hides_is_masked() -> None:
    body = (place(), Constant(4, I64), compared(0, 1), Constant(0.0, F32), Constant(-1e9, F32), load())
    assert words(*body, Pointwise(PointwiseOp.WHERE, (2, 3, 4), F32)) == ["additive_mask"]
    assert words(*body, Pointwise(PointwiseOp.WHERE, (2, 5, 4), F32), operands={5: "score"}) == [
        "masked_score"
    ]
    assert words(*body, Pointwise(PointwiseOp.WHERE, (2, 5, 3), F32)) == ["masked"]


def test_halves_of_which_one_is_negated_are_rotated_where_the_place_decides() -> None:
    rest = (
        load(),
        load(),
        Pointwise(PointwiseOp.NEG, (4,), F32),
        Pointwise(PointwiseOp.WHERE, (2, 5, 3), F32),
    )
    assert words(place(), Constant(4, I64), compared(0, 1), *rest) == ["rotated"]
    assert words(load(I64), Constant(4, I64), compared(0, 1), *rest) == []


def test_elements_of_a_tensor_have_an_index() -> None:
    assert first_free(element_names("h"), {"h"}) == "h_i"
    assert first_free(element_names("h"), {f"h_{index}" for index in "ijklm"}) == "second_h"


def test_sums_of_many_things_are_totals() -> None:
    """DenseNet's were ``total_total_total``; by how many things one adds up it is not told from another."""

    def summed(x: torch.Tensor) -> torch.Tensor:
        terms = [torch.sin(x * number) for number in (1.5, 2.5, 3.5, 4.5, 5.5, 6.5)]
        halves = (terms[0] + terms[1] + terms[2]) * (terms[3] + terms[4] + terms[5])
        return torch.exp(halves) * (terms[0] + terms[1] + terms[2] + terms[3] + terms[4] + terms[5])

    text = text_of((summed, (torch.randn(4, 8),), {}), "cpu", train=False)
    kernels = "\n".join(lines for path, lines in text.items() if path.endswith(".cpp"))
    assert " total = " in kernels and "total_total" not in kernels and "sum_of_" not in kernels, kernels
