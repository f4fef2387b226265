"""What is changed in place keeps its word only where no view is needed: a launch reads strides of the old one by it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from longhand.lower.ir import Buffer, BufferKind
from longhand.schedule.names.variables import StepNamer
from longhand.schedule.names.words import Scope
from longhand.schedule.plan import Reuse
from longhand.schedule.sizes import contiguous_strides


def buffer(name: str, *shape: int) -> Buffer:
    return Buffer(name, BufferKind.INTERMEDIATE, torch.float32, shape, contiguous_strides(shape))


@pytest.mark.parametrize(
    ("shape", "kept"),
    [((2, 4, 6), "x"), ((2, 1, 2, 1, 2, 6), None), ((8, 6), None)],
)
def test_a_word_is_kept_by_what_lies_alike(shape: tuple[int, ...], kept: str | None) -> None:
    buffers = {"old": buffer("old", 2, 4, 6), "new": buffer("new", *shape)}
    words: Any = SimpleNamespace(candidates=lambda _: iter(["x"]), origins=SimpleNamespace(buffers=buffers))
    namer = StepNamer(words, {"old": "x"}, Scope(()), (), alike=cast(Any, SimpleNamespace(layer="")))
    namer._keep_word(Reuse("new", "old", in_place=True))
    assert namer.names.get("new") == kept
