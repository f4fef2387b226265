"""What a function that serves places calls values that its callers call by where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from longhand.capture.graph import GradientPart, Provenance
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.shared.words_inside import Place, WordsInside
from longhand.schedule.names.words import GradientWord


class _Words:
    """The words of a graph that has these values: the module of each, and its words, best first."""

    held = frozenset(("weight",))

    def __init__(self, values: Mapping[str, tuple[str, Sequence[str]]]) -> None:
        self._values = values

    def candidates(self, buffer: str) -> Sequence[str]:
        return self._values[buffer][1]

    def fillers(self, buffer: str) -> frozenset[str]:
        return frozenset(word for word in self.candidates(buffer) if word.startswith("new_"))

    def variables(self, buffer: str, layer: str = "") -> Sequence[str]:
        return self.candidates(buffer)

    def module_of(self, buffer: str) -> str:
        return self._values[buffer][0]

    def provenance(self, buffer: str) -> Provenance:
        part = GradientPart.SUMMAND if buffer.endswith("_from_fc") else GradientPart.WHOLE
        return Provenance(part=part)


_D_X = GradientWord("x")
_WORDS = cast(
    BufferNamer,
    _Words(
        {
            "given": ("mid.resnets.1", ["output_tensor", "new_output_tensor"]),
            "also_given": ("up.resnets.1", ["output_tensor"]),
            "x": ("mid.resnets.1.conv", ["x", "attended"]),
            "other": ("up.upsampler.conv.0", ["x"]),
            "gradient": ("mid.resnets.1", [_D_X]),
            "d_x_from_fc": ("mid.resnets.1", [_D_X]),
            "weight": ("mid.resnets.1", ["weight"]),
        }
    ),
)
_PLACES = [Place("up.upsampler", {}), Place("down.upsampler", {"given": "also_given"})]


def _inside(
    variables: Sequence[tuple[str, str]], given: Sequence[str] = (), results: Sequence[str] = ()
) -> dict[str, str]:
    return WordsInside(_WORDS, _PLACES, given, results).shorter(variables, {"taken"})


def test_a_value_has_its_own_word_and_no_callers_place() -> None:
    assert _inside([("given", "mid_resnets_1_output_tensor")]) == {
        "mid_resnets_1_output_tensor": "output_tensor"
    }
    assert _inside([("x", "second_x")]) == {"second_x": "x"}
    assert _inside([("weight", "mid_resnets_1_weight"), ("given", "output_tensor")]) == {}


def test_where_that_is_taken_it_is_what_it_is_to_the_function() -> None:
    told = [("other", "x"), ("x", "mid_resnets_1_x")]
    assert _inside(told) == {"mid_resnets_1_x": "attended"}  # another word of its own
    assert _inside(told, given=["x"]) == {"mid_resnets_1_x": "input"}
    assert _inside(told, results=["x"]) == {"mid_resnets_1_x": "out"}
    with_own = [("other", "output_tensor"), ("given", "mid_resnets_1_output_tensor")]
    assert _inside(with_own, given=["given"]) == {"mid_resnets_1_output_tensor": "x"}


def test_of_gradients_what_is_given_is_of_what_the_module_made() -> None:
    told = [("other", _D_X), ("gradient", GradientWord("resnet_1_x"))]
    assert _inside(told, given=["gradient"]) == {"d_resnet_1_x": "d_out"}
    assert _inside(told, results=["gradient"]) == {"d_resnet_1_x": "d_input"}
    part = [("other", _D_X), ("d_x_from_fc", GradientWord("resnet_1_x"))]
    assert _inside(part, given=["d_x_from_fc"]) == {}  # of one part of it the role would not be true


@pytest.mark.parametrize("path", ["up.upsampler", "up.upsampler.conv"])
def test_the_part_of_the_module_may_be_said(path: str) -> None:
    inside = WordsInside(_WORDS, [Place(path, {})], (), ())
    assert inside.shorter([("other", "conv_0_x" if path == "up.upsampler" else "0_x")], ()) == {}
    assert WordsInside(_WORDS, [Place("up.other", {})], (), ()).shorter([("other", "conv_0_x")], ()) == {
        "conv_0_x": "x"
    }


def test_in_a_function_for_one_place_only_counts_tell_a_place() -> None:
    alone = WordsInside(_WORDS, [Place("up.upsampler", {})], ("given",), ())
    assert alone.shorter([("given", "mid_output_tensor")], ()) == {}
    assert alone.shorter([("given", "resnet_1_output_tensor")], ()) == {
        "resnet_1_output_tensor": "output_tensor"
    }
