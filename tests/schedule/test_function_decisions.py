"""What is decided of functions before they are printed: calls that are loops, rounds of layers, classes of stages."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import cast

import pytest
import torch

from longhand.capture.graph import InputKind, Provenance
from longhand.lower.ir import Axis, Index, Load, Nest, Store
from longhand.schedule.bodies import loads, sizes_of
from longhand.schedule.functions.call_loops import CallOfMany, find_call_loops
from longhand.schedule.layers.stage_classes import StageLayers, class_of_stages, stages_alike
from longhand.schedule.layers.turns import TurnCall, find_rounds
from longhand.schedule.layers.written_functions import as_one, inherited
from longhand.schedule.modules.held import Branch, HeldTensor
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.layer_names import _is_whole_gradient
from longhand.schedule.names.shared.place_words import without_place
from longhand.schedule.names.words import GradientWord
from longhand.schedule.once import listed_once, once


def call(position: int, given: str = "x", made: str = "x", stride: int = 1) -> CallOfMany:
    return CallOfMany("conv", "convs", position, (given,), (("stride", stride),), (made,))


def loops(*calls: CallOfMany | None, n_held: int = 9, taken: tuple[str, ...] = ()):
    return find_call_loops(calls, lambda _: n_held, taken)


def test_calls_in_a_row_are_a_loop() -> None:
    (loop,) = loops(call(0), call(1), call(2)).values()
    assert [one.position for one in loop.calls] == [0, 1, 2] and not loop.is_whole and not loop.differing
    assert loops(None, call(1), call(2), call(3)).keys() == {1}
    assert not loops(call(0), call(1))
    assert loops(call(0), call(1), n_held=2)[0].is_whole


def test_numbers_that_differ_are_told_beside_the_loop() -> None:
    (loop,) = loops(call(0), call(1, stride=2), call(2)).values()
    assert loop.differing == {"stride": (1, 2, 1)}
    assert not loops(call(0), call(1, stride=2), call(2), taken=("stride",))


def test_what_ends_a_loop_of_calls() -> None:
    assert not loops(call(0), None, call(1), call(2))
    assert not loops(call(0), call(2), call(4))
    assert not loops(call(0), call(1, given="y"), call(2))


def test_what_is_read_later_is_no_call_of_a_loop() -> None:
    """The loop would leave the last one's result in its variable."""
    read_later = dataclasses.replace(call(0), is_handed_on=False)
    last = call(1, made="last")
    assert loops(call(0), last, n_held=2) and not loops(read_later, last, n_held=2)
    assert loops(call(0), dataclasses.replace(last, is_handed_on=False), n_held=2)


def test_the_ends_of_a_loop_may_be_called_otherwise() -> None:
    (loop,) = loops(call(0), call(1), call(2, made="y"), call(3)).values()
    assert len(loop.calls) == 3  # the last one hands on what it makes under another name
    (loop,) = loops(call(0, given="image"), call(1), call(2), n_held=3).values()
    assert loop.is_whole and loop.calls[0].tensors == ("image",)


def turns(says: str, start: int = 0, step: int = 1) -> list[TurnCall]:
    return [TurnCall(start + step * number, (word,)) for number, word in enumerate(says)]


def test_rounds() -> None:
    (rounds,) = find_rounds(turns("ababab"))
    assert (rounds.period, rounds.positions, rounds.lowest, rounds.is_reversed) == (2, range(6), 0, False)
    (rounds,) = find_rounds(turns("abab", start=3, step=-1))
    assert (rounds.period, rounds.positions, rounds.lowest, rounds.is_reversed) == (2, range(4), 2, True)
    found = find_rounds(turns("xababc"))
    assert [(one.start, one.n_calls, one.is_loop) for one in found] == [
        (0, 1, False),
        (1, 4, True),
        (5, 1, False),
    ]
    assert not any(one.is_loop for one in find_rounds(turns("aaa", step=2)))


def stage(owner: str, width: int, bias: bool = True) -> StageLayers:
    held = {"weight": HeldTensor(InputKind.PARAMETER, (width, 4 * width), torch.float32)}
    if bias:
        held["bias"] = HeldTensor(InputKind.PARAMETER, (width,), torch.float32)
    return StageLayers(owner, Branch(branches={"up": Branch(held)}), ("forward",), ())


def test_stages_are_one_class_up_to_sizes() -> None:
    stages = {"A": stage("a", 8), "B": stage("b", 16), "C": stage("c", 8, bias=False), "D": stage("d", 32)}
    assert stages_alike(stages) == [["A", "B", "D"]]
    stages["B"] = dataclasses.replace(stages["B"], work=("x = x * 2",))
    assert stages_alike(stages) == [["A", "D"]]
    assert not stages_alike({**stages, "D": dataclasses.replace(stages["D"], methods=("f",))})


@dataclasses.dataclass(frozen=True)
class Written:
    """A function as a printer hands it over."""

    name: str
    work: object
    bound: object = ()
    parameters: tuple[str, ...] = ()
    stated: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    needed: tuple[str, ...] = ()
    pads: bool = False


def test_one_function_is_for_modules_whose_work_is_the_same() -> None:
    one, wider, other = Written("f", 1), Written("f", 1, bound=("dim", 8)), Written("f", 2)
    assert as_one([one, wider]) == [one, wider]
    assert as_one([one, other]) is None
    assert as_one([dataclasses.replace(one, needed=("s0",))]) is None
    assert as_one([one, dataclasses.replace(one, pads=True)]) is None

    def write() -> Iterator[Written]:
        yield from (one, other)
        pytest.fail("a third one was written though the second differs")

    assert as_one(write()) is None


def test_a_class_inherits_what_is_the_same_for_the_same_sizes() -> None:
    base = [Written("forward", 1), Written("after", 2, bound=("dim", 8))]
    assert inherited([Written("forward", 1), Written("after", 2)], base) == {"forward"}
    assert not inherited([Written("before", 1)], base)


def test_a_size_that_no_tensor_tells_is_an_attribute() -> None:
    stages = [stage("a", 8), stage("b", 16)]
    found = class_of_stages(stages, [[{"heads": 2, "dim": 8, "eps": 1}, {"heads": 4, "dim": 16, "eps": 1}]])
    assert found.told == ({"heads": "heads", "dim": "dim"},)
    assert (
        len(found.parameters) == len(found.arguments["a.0"])
        and found.arguments["a.0"] != found.arguments["b.0"]
    )
    assert set(found.attributes) == {"heads", "dim"}


def test_a_word_for_two_sizes_in_two_functions_is_two_attributes() -> None:
    of_lists = [
        [{"length": 16}, {"length": 8}],
        [{"length": 12}, {"length": 6}],
        [{"length": 16}, {"length": 8}],
    ]
    found = class_of_stages([stage("a", 8), stage("b", 16)], of_lists)
    attributes = [of["length"] for of in found.told]
    assert attributes[0] == attributes[2] != attributes[1]
    assert found.attributes[attributes[0]] != found.attributes[attributes[1]]


def test_answers_are_found_once() -> None:
    asked = []

    class Told:
        @once
        def twice(self, number: int) -> int:
            asked.append(number)
            return 2 * number

        @listed_once
        def words(self, number: int, is_long: bool = False):
            asked.append((number, is_long))
            yield from range(number)

    one, other = Told(), Told()
    assert [one.twice(2), one.twice(2), other.twice(2)] == [4, 4, 4] and asked == [2, 2]
    asked.clear()
    assert next(one.words(3)) == 0 and list(one.words(3)) == [0, 1, 2] and list(one.words(3, is_long=True))
    assert asked == [(3, False), (3, True)]


def test_what_is_kept_of_a_nest_is_its_own() -> None:
    load = Load("x", Index(0, (("i", 1),)), torch.float32)
    nest = Nest((Axis("i", 4),), (load, Store("y", load.index, 0)))
    assert loads(nest) is loads(nest) and loads(nest) == ((0, load),)
    longer = dataclasses.replace(nest, axes=(Axis("i", 8),))
    assert sizes_of(nest) == {"i": 4} and sizes_of(longer) == {"i": 8}
    assert nest == dataclasses.replace(nest) and hash(nest) == hash(dataclasses.replace(nest))


def test_a_function_of_several_modules_says_nowhere_where_the_first_one_is() -> None:
    names = ("block_0_attn_x", "blocks_0_attn_weights", "attn_tensor", "block_0_attn_weights", "dense", "x")
    assert without_place(names, "blocks.0.attn", {"x", "dense"}) == {
        "block_0_attn_x": "attn_x",  # there is another x
        "blocks_0_attn_weights": "weights",
        "attn_tensor": "tensor",
        "block_0_attn_weights": "attn_weights",
    }
    assert without_place(("layer4_1_out", "layer4_0_out"), "layer4.1", set()) == {"layer4_1_out": "out"}
    assert without_place(("layer4_act", "net_layer4_0_x"), "net.layer4.1", set()) == {"layer4_act": "act"}


def test_nor_where_the_module_around_the_first_one_is() -> None:
    names = ("layer_0_gate_proj", "layers_0_up", "layer_gate", "layer_0_x")
    assert without_place(names, "layers.0.mlp", {"x"}) == {
        "layer_0_gate_proj": "gate_proj",
        "layers_0_up": "up",
        "layer_0_x": "mlp_x",  # there is another x
    }


def test_only_a_gradient_is_called_the_gradient_of_the_output() -> None:
    class Words:
        def candidates(self, buffer: str) -> Iterator[str]:
            yield GradientWord("hidden") if buffer == "gradient" else "hidden"

        def provenance(self, buffer: str) -> Provenance:
            return Provenance()

    words = cast(BufferNamer, Words())
    assert _is_whole_gradient("gradient", words) and not _is_whole_gradient("activation", words)
