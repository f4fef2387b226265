"""Where a body holds x != y, what chooses by x == y chooses by the former, the other way round."""

from __future__ import annotations

import torch

from longhand.lower.ir import (
    Axis,
    Constant,
    Index,
    IndexExpression,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Store,
)
from longhand.schedule.fusion.traffic import accesses
from longhand.schedule.range_analysis import simplify_predicates

AT = Index(0, (("row", 1),), ())
PAST = Constant(-100, torch.int64)


def nest(second: Constant) -> Nest:
    return Nest(
        (Axis("row", 8),),
        (
            Load("labels", AT, torch.int64),
            PAST,
            Pointwise(PointwiseOp.NE, (0, 1), torch.bool, "counts"),
            second,
            Pointwise(PointwiseOp.EQ, (0, 3), torch.bool, "is_ignored"),
            Load("x", AT, torch.float32),
            Constant(0.0, torch.float32),
            Pointwise(PointwiseOp.WHERE, (4, 6, 5), torch.float32),
            Store("out", AT, 7),
        ),
    )


def test_one_condition_serves_both_ways() -> None:
    chosen = simplify_predicates(nest(PAST)).body[7]
    assert isinstance(chosen, Pointwise) and chosen.args == (2, 5, 6)


def test_another_constant_is_another_condition() -> None:
    chosen = simplify_predicates(nest(Constant(-1, torch.int64))).body[7]
    assert isinstance(chosen, Pointwise) and chosen.args == (4, 6, 5)


def test_what_is_read_whole_comes_before_the_positions_that_pick_from_it() -> None:
    picked = Index(0, (), ((0, 1),))
    body = (
        Load("labels", AT, torch.int64),
        Load("logits", Index(0, (("row", 4), ("col", 1)), ()), torch.float32),
        Load("logits", picked, torch.float32),
        Load("table", picked, torch.float32),
        Store("losses", AT, 2),
    )
    assert list(accesses(body)) == ["logits", "labels", "table", "losses"]
    assert list(accesses((body[0], body[3], body[4]))) == ["labels", "table", "losses"]


def test_what_is_never_read_is_what_stands_for_it() -> None:
    """A row past the end of a padded matrix: no element of it is in the matrix, whatever the call's sizes are."""
    body = (
        IndexExpression(Index(2, (), ())),
        Constant(2, torch.int64),
        Pointwise(PointwiseOp.LT, (0, 1), torch.bool, "is_inside"),
        Load("matrix", AT, torch.float32, mask=2, other=0),
        Store("out", AT, 3),
    )
    simpler = simplify_predicates(Nest((Axis("row", 8),), body)).body
    assert simpler[3] == Constant(0.0, torch.float32)
    masked = (*body[:1], Constant(3, torch.int64), *body[2:])  # and one that is read stays
    assert simplify_predicates(Nest((Axis("row", 8),), masked)).body[3] == Load("matrix", AT, torch.float32)
