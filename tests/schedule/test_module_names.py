"""Values are told from others like them by their module, and by the numbers that differ."""

from __future__ import annotations

import pytest

from longhand.schedule.names.module_names import alike, names_of_places, short_names
from longhand.schedule.names.words import GradientWord

STAGES = alike(
    [
        "encoder.stages.0.layers.0.pwconv1",
        "encoder.stages.1.layers.0.pwconv1",
        "encoder.stages.1.layers.1.pwconv1",
        "encoder.stages.0.down.1",
        "encoder.stages.1.down.1",
        "features.1.conv.0.1",
        "features.1.conv.1.1",
        "features.2.conv.1.1",
        "attention.self",
    ]
)


def test_the_module_comes_first_then_the_numbers_that_differ() -> None:
    words = short_names("encoder.stages.1.layers.0.pwconv1", ["features", "pwconv1"], "", STAGES)
    assert list(words) == [
        "pwconv1_features",
        "pwconv1",
        "stage_1_layer_0_pwconv1_features",
        "stage_1_layer_0_pwconv1",
    ]


def test_a_number_that_all_have_is_left_out() -> None:
    assert list(short_names("encoder.stages.1.down.1", ["x"], "", STAGES)) == ["down_x", "stage_1_down_x"]


def test_numbers_of_lists_in_lists_stand_together() -> None:
    found = list(short_names("features.1.conv.0.1", ["mean"], "", STAGES))
    assert found == ["conv_mean", "feature_1_conv_0_mean"]


def test_a_gradient_keeps_its_d_in_front() -> None:
    assert list(short_names("attention.self", [GradientWord("query")], "", STAGES)) == ["d_attention_query"]


def test_inside_a_layers_function_the_layer_is_left_out() -> None:
    layer = "encoder.stages.1.layers.0."
    assert list(short_names(f"{layer}pwconv1", ["out"], layer, STAGES)) == ["pwconv1_out"]
    assert not list(short_names("", ["out"], "", STAGES))


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["layer2.1"], ["layer2_1"]),
        (["encoder.layers.3.attn"], ["layer_3_attn", "encoder_layer_3_attn"]),
        (["layer3", "layer2"], ["layer2_and_layer3"]),
        (["two.0", "one.0"], ["one_0_and_two_0"]),
        (["layers.3.0.q", "layers.1.0.q"], ["layer_1_and_3_0_q"]),
        (["block4", "block5", "block6"], ["block4_to_block6"]),
        (["layer2.1", "layer3.1", "layer4.1"], ["layer2_1_to_layer4_1"]),
        (["block4", "block6", "block7"], []),
        (["stages.0.norm", "stages.1.conv", "stages.2.norm"], []),
        (["1"], []),
    ],
)
def test_places_of_one_of_two_and_of_all_from_one_to_another(paths: list[str], names: list[str]) -> None:
    assert list(names_of_places(paths)) == names


def test_what_is_called_alike_in_two_places_is_said_once() -> None:
    assert next(names_of_places(["layers.3.blocks.0.mlp", "layers.2.blocks.0.mlp"])) == "block_0_mlp"
