"""What a loop over layers binds is told apart from the lists that other loops filled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.layer_names import _singular
from longhand.schedule.names.reached import Reached


class Words:
    """Calls every buffer ``hidden_states``."""

    def variables(self, buffer: str, layer: str, *, is_of_all: bool) -> Iterator[str]:
        yield "hidden_states"


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({}, "hidden_states"),
        ({"relu_1": "hidden_states"}, "layer_hidden_states"),
        ({"relu_1": Reached("hidden_states", 1)}, "layer_hidden_states"),
        ({"relu_1": Reached("hidden_states_before", 1)}, "hidden_states"),
    ],
    ids=["nothing else", "a variable", "a list of another loop", "a list of another name"],
)
def test_what_one_layer_hands_on_hides_nothing(others: dict[str, str], expected: str) -> None:
    variables = {
        "conv_9": Reached("all_hidden_states", 2),
        "conv_8": Reached("all_hidden_states", 1),
        **others,
    }
    word = _singular("all_hidden_states", "conv_9", "", "layers.3.", cast(BufferNamer, Words()), variables)
    assert word == expected


def test_the_layers_own_word_comes_first_where_the_list_is_made_of_it() -> None:
    variables = {"conv_9": Reached("all_hidden_states", 2)}
    for own, expected in (("all_hidden_state", "all_hidden_state"), ("features", "hidden_states")):
        words = cast(BufferNamer, Words())
        assert _singular("all_hidden_states", "conv_9", own, "layers.3.", words, variables) == expected
