"""What stands in lists of lists goes by its place and the end of its path, and not by all of the path."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from longhand.schedule.names.module_names import short_names
from longhand.schedule.names.shared.layer_results import LayerResults
from longhand.schedule.names.value_origins import words_in_module
from longhand.schedule.names.weight_names import name_weights
from longhand.schedule.names.words import GradientWord


def _words(*paths: str) -> dict[str, str]:
    return name_weights(paths, paths, lambda word: True)


def test_a_weight_of_a_stage_has_the_stage_and_its_layer() -> None:
    """Segformer's were segformer_stages_0_blocks_0_attention_q_proj_weight."""
    found = _words(
        "segformer.stages.0.blocks.0.attention.q_proj.weight",
        "segformer.stages.1.blocks.0.attention.q_proj.weight",
    )
    assert [*found.values()] == ["stage_0_q_proj_weight", "stage_1_q_proj_weight"]


def test_more_is_said_where_that_does_not_tell() -> None:
    found = _words(
        "stages.0.blocks.0.norm.weight",
        "stages.0.blocks.1.norm.weight",
        "stages.1.blocks.0.norm.weight",
        "stages.1.blocks.1.norm.weight",
        "stages.0.blocks.0.a.fc.weight",
        "stages.0.blocks.0.b.fc.weight",
        "stages.1.blocks.0.a.fc.weight",
    )
    assert found["stages.0.blocks.1.norm.weight"] == "stage_0_block_1_norm_weight"
    assert found["stages.0.blocks.0.a.fc.weight"] == "stage_0_a_fc_weight"
    assert len({*found.values()}) == len(found)


def test_of_lists_in_lists_every_place_is_said_before_all_of_the_path() -> None:
    inner = ("layers.0.0.fn.to_kv", "layers.0.1.fn.to_kv", "layers.1.0.fn.to_kv")
    found = _words(*(f"encoder.layers.{outer}.{one}.weight" for outer in ("0.1", "0.2") for one in inner))
    assert found["encoder.layers.0.2.layers.0.1.fn.to_kv.weight"] == "layer_0_2_layer_0_1_to_kv_weight"


def test_another_word_of_a_value_comes_before_all_of_its_path() -> None:
    path = "backbone.encoder.stages.1.blocks.0.aggregation.1"
    found = [*words_in_module(path, ["hidden_state", "activation"])]
    told, whole = "stage_1_block_0_aggregation_1_activation", f"{path.replace('.', '_')}_hidden_state"
    assert found.index(told) < found.index(whole)


def test_of_two_lists_of_a_name_it_is_said_whose_it_is() -> None:
    paths = [f"{side}.layers.{layer}.mlp.fc.weight" for side in ("encoder", "decoder") for layer in (0, 1)]
    assert _words(*paths)["decoder.layers.1.mlp.fc.weight"] == "decoder_layer_1_fc_weight"


def test_a_value_has_the_place_and_the_module_that_makes_it() -> None:
    found = next(words_in_module("segformer.stages.0.blocks.0.mlp", ["hidden_states"]))
    assert found == "stage_0_mlp_hidden_states"
    assert next(words_in_module("segformer.stages.0.blocks.0", [GradientWord("total")])) == "d_stage_0_total"
    assert next(words_in_module("decode_head", ["activation"])) == "decode_head_activation"


def test_a_users_word_that_begins_as_that_of_a_gradient_is_none() -> None:
    """``d_model`` is a model's width: beside its module it was ``d_attn_model``, as if it were a gradient."""
    assert next(words_in_module("attn", ["d_model"])) == "attn_d_model"
    assert [*short_names("encoder.attn", ["d_model"], "", {})] == ["attn_d_model"]
    assert [*short_names("encoder.attn", [GradientWord("model")], "", {})] == ["d_attn_model"]


def test_whether_a_word_is_a_gradients_is_no_matter_of_its_letters() -> None:
    root = Path(__file__).resolve().parents[2]
    paths = [path for room in ("schedule", "emit") for path in sorted((root / room).rglob("*.py"))]
    calls = [
        (path.name, ast.unparse(node))
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    assert len(calls) > 5000
    assert not [call for call in calls if call[1].endswith(("('d_')", "('d_', '')"))]


def test_the_plural_of_a_place_is_no_other_place() -> None:
    """A stream was layers_0_hidden_states beside another that was layer_0_hidden_states."""
    assert [*words_in_module("layers.0", ["hidden_states"])] == ["layer_0_hidden_states"]
    of_stage = [*words_in_module("stages.0.blocks.1.mlp", ["x"])]
    assert of_stage[-1] == "stages_0_blocks_1_mlp_x" or len({*of_stage}) == len(of_stage)


@pytest.mark.parametrize(
    ("owner", "word"), [("blocks", "block_2_x"), ("net.stages.1", "stage_1_2_x"), ("0", "layer_0_2_x")]
)
def test_what_one_of_several_layers_returns_has_its_place_in_lists_of_lists(owner: str, word: str) -> None:
    """A word cannot begin with a place: ``_1_2_x``."""
    repeat = SimpleNamespace(outputs=(("a",), ("b",)))
    loop: Any = SimpleNamespace(
        owner=owner, positions=(2, 3), repeat=repeat, outputs=("x",), inputs=(), carried=(), own=(), key="key"
    )
    call: Any = SimpleNamespace(loop=loop, number=0)
    results = LayerResults(lambda _loop, _around: {"x": "x"}, {"a", "b"})
    assert results.of_call(call, {}) == {"a": (word, "x")}
