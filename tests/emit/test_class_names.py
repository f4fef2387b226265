"""What a class of equal layers is called: a Python name, whatever the user's modules are called."""

from __future__ import annotations

import pytest

from longhand.emit.layers.class_names import free_name


@pytest.mark.parametrize(
    ("owner", "name"),
    [("2.layers", "Module2Layer"), ("decoder.layers", "DecoderLayer"), ("stages.1.blocks", "Stage1Layer")],
)
def test_a_second_list_of_a_class_is_told_by_what_holds_it(owner: str, name: str) -> None:
    assert free_name("Layer", {"Layer": "0.layers"}, owner, is_in_turn=False) == name
