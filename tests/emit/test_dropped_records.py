"""`del saved.features_2`: a record goes as a whole once nothing of it is read, and what it holds goes with it."""

from __future__ import annotations

import torch

from longhand.emit.module.later_steps import dropped_records
from longhand.lower.ir import Extern, View
from longhand.schedule.names.reached import Reached

INNER = "saved.features_2.conv_exp"
VARIABLES = {
    "a": Reached.field_of("saved.features_2", "x"),
    "b": Reached.field_of("saved.features_2", "mean"),
    "c": Reached.field_of(INNER, "activated"),
    "d": Reached.field_of(INNER, "rstd"),
    "e": Reached.field_of("saved.features_3", "x"),
}


def reading(buffer: str) -> Extern:
    return Extern(torch.ops.aten.relu.default, (View(buffer, (2,), (1,)),), (), ("made",))


def test_a_record_in_a_record_is_gone_with_it() -> None:
    words = [VARIABLES[name] for name in "abcd"]
    dropped, gone = dropped_records(words, (), VARIABLES, [reading("e")])
    assert dropped == ["saved.features_2"]
    assert gone == {"a", "b", "c", "d"}


def test_a_record_stays_while_one_that_it_holds_is_read() -> None:
    words = [VARIABLES[name] for name in "ab"]
    dropped, gone = dropped_records(words, (), VARIABLES, [reading("c")])
    assert dropped == ["saved.features_2.x", "saved.features_2.mean"] and not gone


def test_a_record_in_a_record_may_go_before_it() -> None:
    words = [VARIABLES[name] for name in "cd"]
    dropped, gone = dropped_records(words, (), VARIABLES, [reading("a")])
    assert dropped == [INNER] and gone == {"c", "d"}
