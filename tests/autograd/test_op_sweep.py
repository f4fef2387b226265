"""A part of the sweep over PyTorch's operator database; all of it is ``python -m tests.autograd.op_sweep``."""

from __future__ import annotations

import random

import pytest
import torch

import longhand
from tests.autograd.op_programs import Form, op_names
from tests.autograd.op_sweep import BAD, PLAN, Door, Outcome, cases, outcome

COMPILED, GENERATED = PLAN[0], PLAN[3]  # in training, between other arithmetic
INFERENCE = PLAN[5]  # generated, alone
# Each of them was wrong once, or an error that nobody wrote for people.
FOUND = {
    ("nn.functional.linear_cross_entropy:chunked", GENERATED): Outcome.RIGHT,
    ("torch.ops.aten._safe_softmax.default", GENERATED): Outcome.RIGHT,
    ("acos", GENERATED): Outcome.RIGHT,
    ("addmm", GENERATED): Outcome.RIGHT,
    ("diagonal_copy", GENERATED): Outcome.RIGHT,
    ("fill", PLAN[1]): Outcome.EAGER,
    ("lu", GENERATED): Outcome.RIGHT,
    ("gather", GENERATED): Outcome.RIGHT,
    ("index_put", GENERATED): Outcome.RIGHT,
    ("linalg.eig", COMPILED): Outcome.RAISES,
    ("special.log_ndtr", COMPILED): Outcome.RIGHT,
    ("complex", PLAN[1]): Outcome.RIGHT,
    ("index_put", COMPILED): Outcome.RIGHT,
    ("masked_select", COMPILED): Outcome.EAGER,
    ("uniform", PLAN[6]): Outcome.RIGHT,
    ("bernoulli", PLAN[1]): Outcome.RIGHT,
    ("bernoulli", GENERATED): Outcome.RIGHT,
    ("block_diag", INFERENCE): Outcome.RIGHT,
    ("broadcast_to", INFERENCE): Outcome.RIGHT,
    ("copysign", INFERENCE): Outcome.RIGHT,
    ("positive", INFERENCE): Outcome.RIGHT,
    ("hsplit", INFERENCE): Outcome.RIGHT,
    ("view_as_complex", INFERENCE): Outcome.RIGHT,
    ("H", PLAN[3]): Outcome.RIGHT,
    ("broadcast_tensors", PLAN[1]): Outcome.RIGHT,
    ("linalg.diagonal", PLAN[1]): Outcome.RIGHT,
    ("meshgrid:list_of_tensors", PLAN[1]): Outcome.RIGHT,
    ("masked.mean", COMPILED): Outcome.RIGHT,
    ("corrcoef", COMPILED): Outcome.RIGHT,
    ("linalg.lstsq", COMPILED): Outcome.RIGHT,
    ("nn.functional.triplet_margin_with_distance_loss", COMPILED): Outcome.RIGHT,
}
KNOWN = frozenset(op_names())  # torch's operator database grows from version to version
DRAWN = [
    (name, plan)
    for name, plan in zip(
        random.Random(11).sample(op_names(), 12), random.Random(12).choices(PLAN, k=12), strict=True
    )
]


@pytest.fixture(autouse=True)
def alone(hook, tmp_path, monkeypatch):
    """Nothing is compiled yet."""
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path))
    torch.compiler.reset()
    longhand.reset()


def the_case(name: str, plan: tuple[Form, Door, bool]):
    form, door, train = plan
    for case in cases(name, seed=0):
        if (case.program.form, case.door, case.train) == (form, door, train):
            return case
    return None


def label(value):
    return (
        value
        if isinstance(value, str)
        else " ".join([value[0].value, value[1].value, "train" * value[2]]).rstrip()
    )


@pytest.mark.parametrize(("name", "plan"), [found for found in FOUND if found[0] in KNOWN], ids=label)
def test_what_was_wrong_once(name, plan):
    kind, words = outcome(the_case(name, plan))
    assert kind is FOUND[name, plan], words


@pytest.mark.parametrize(("name", "plan"), DRAWN, ids=label)
def test_ops_that_were_drawn(name, plan):
    if (case := the_case(name, plan)) is not None:
        kind, words = outcome(case)
        assert kind not in BAD, words
