"""Steps of several modules: the same function where they do the same, and never where they do not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from longhand.lower.ir import Extern, View
from longhand.schedule.functions.alike_releases import own_steps
from longhand.schedule.functions.alike_steps import AlikeSteps, SiteSteps, alike_steps
from longhand.schedule.functions.call_records import SharedCall
from longhand.schedule.plan import Allocate, Launch, PlanStep, Release, Reuse

aten = torch.ops.aten
WORDS: Any = SimpleNamespace()  # asked about views that have names, of which there are none here


def call(target: Any, args: tuple[Any, ...], output: str, **kwargs: Any) -> Extern:
    """A call of a library; texts are buffers."""

    def given(value: Any) -> Any:
        return View(value, (4, 4), (4, 1)) if isinstance(value, str) else value

    words = tuple(sorted((word, given(value)) for word, value in kwargs.items()))
    return Extern(target, tuple(map(given, args)), words, (output,))


def linear(x: str, weight: str, output: str) -> Extern:
    return call(aten.linear.default, (x, weight), output)


def site(
    *steps: PlanStep, given: tuple[str, ...] = ("x",), result: str = "", **calls: SharedCall
) -> SiteSteps:
    """A module's steps; a weight is called MODULE.PATH."""
    named = {name for step in steps if isinstance(step, Extern) for name in (v.buffer for v in step.views())}
    weights = {name: name.partition(".")[2] for name in named if "." in name}
    last = steps[-1]
    result = result or (last.outputs[0] if isinstance(last, Extern) else "")
    return SiteSteps(steps, {int(place[1:]): one for place, one in calls.items()}, given, weights, (result,))


def alike(*sites: SiteSteps) -> AlikeSteps | None:
    return alike_steps(sites, WORDS, {"y": "y", "z": "z"})


def one(*sites: SiteSteps) -> AlikeSteps:
    found = alike(*sites)
    assert found is not None
    return found


def test_other_names_are_the_same_function() -> None:
    found = one(
        site(linear("x", "a.q.weight", "q"), call(aten.mul.Tensor, ("q", 2), "y")),
        site(linear("h", "b.q.weight", "r"), call(aten.mul.Tensor, ("r", 2), "z"), given=("h",)),
    )
    assert found.inputs == (("x", "h"),) and found.made == (("q", "r"), ("y", "z")) and not found.numbers
    assert found.sites[1].twins == {"h": "x", "b.q.weight": "a.q.weight", "r": "q", "z": "y"}


def test_one_tensor_in_two_places_is_two_parameters_where_another_call_gives_two() -> None:
    def attention(module: str, x: str, memory: str, given: tuple[str, ...]) -> SiteSteps:
        query, key = linear(x, f"{module}.q.weight", "q"), linear(memory, f"{module}.k.weight", "k")
        return site(query, key, call(aten.mm.default, ("q", "k"), "y"), given=given)

    found = one(attention("a", "x", "x", ("x",)), attention("b", "x", "memory", ("x", "memory")))
    first, second = found.inputs
    assert first == ("x", "x") and second[1] == "memory"
    assert found.sites[0].aliases == {second[0]: "x"} and not found.sites[1].aliases
    step = found.sites[0].steps[1]
    assert isinstance(step, Extern) and next(step.views()).buffer == second[0]


def test_numbers_with_a_keyword_are_parameters_also_where_one_is_left_out() -> None:
    found = one(
        site(call(aten.conv1d.default, ("x", "a.weight"), "y")),
        site(call(aten.conv1d.default, ("x", "b.weight", None, [2]), "y")),
    )
    assert found.numbers == (("stride", (1, 2)),)
    for of_site in found.sites:
        (step,) = of_site.steps
        assert isinstance(step, Extern) and str(step.args[3]) == "[stride]"


def test_the_same_keyword_twice_is_two_parameters_where_the_numbers_differ() -> None:
    def pair(first: int, second: int) -> SiteSteps:
        inner = call(aten.conv1d.default, ("x", "a.one.weight", None, [first]), "y")
        return site(inner, call(aten.conv1d.default, ("y", "a.two.weight", None, [second]), "z"))

    assert one(pair(1, 1), pair(2, 2)).numbers == (("stride", (1, 2)),)
    assert one(pair(1, 2), pair(2, 1)).numbers == (("stride", (1, 2)), ("z_stride", (2, 1)))


def test_causal_attention_and_other_is_one_function() -> None:
    def attention(**kwargs: bool) -> SiteSteps:
        return site(call(aten.scaled_dot_product_attention.default, ("x", "x", "x"), "y", **kwargs))

    assert one(attention(is_causal=True), attention()).numbers == (("is_causal", (True, False)),)


def test_what_is_no_function_of_both() -> None:
    weights = "a.q.weight", "a.k.weight"
    first = site(linear("x", weights[0], "q"), linear("q", weights[1], "y"))
    assert alike(first, site(linear("x", weights[0], "q"))) is None
    # The second reads another local than the first, and one that is made where the other is given.
    assert alike(first, site(linear("x", weights[0], "q"), linear("x", weights[1], "y"))) is None
    twice = site(linear("x", weights[0], "q"), linear("q", weights[1], "r"), linear("q", weights[1], "y"))
    other = site(linear("x", weights[0], "q"), linear("q", weights[1], "r"), linear("r", weights[1], "y"))
    assert alike(twice, other) is None
    # The weights of another part, another call, and another result.
    assert alike(first, site(linear("x", "b.v.weight", "q"), linear("q", "b.k.weight", "y"))) is None
    second = site(linear("x", weights[0], "q"), call(aten.mm.default, ("q", weights[1]), "y"))
    assert alike(first, second) is None
    assert alike(first, site(*first.steps, result="q")) is None
    # A weight of the module's in one, and what is given in the other.
    assert alike(first, site(linear("x", weights[0], "q"), linear("q", "x", "y"))) is None


def test_padding_that_is_a_word_is_no_number() -> None:
    def padded(padding: str) -> SiteSteps:
        return site(
            Extern(aten.conv1d.padding, (View("x", (4,), (1,)), None, None, [1], padding), (), ("y",))
        )

    assert alike(padded("same"), padded("same")) is not None
    assert alike(padded("same"), padded("valid")) is None


def test_kernels_and_memory() -> None:
    def launch(kernel: str, x: str, made: str, size: int) -> tuple[PlanStep, ...]:
        return Allocate(made), Launch(kernel, (x, made), (size,)), Reuse("y", made, True)

    found = one(
        site(*launch("gelu", "x", "a", 8), result="y"),
        site(*launch("gelu", "h", "b", 4), given=("h",), result="y"),
    )
    assert found.made == (("a", "b"), ("y", "y"))
    assert (
        alike(site(*launch("gelu", "x", "a", 8), result="y"), site(*launch("tanh", "x", "a", 8), result="y"))
        is None
    )
    taken = (Reuse("a", "x", True), *launch("gelu", "x", "a", 8)[1:])
    assert alike(site(*launch("gelu", "x", "a", 8), result="y"), site(*taken, result="y")) is None


def test_new_tensors_are_made_like_what_all_modules_read() -> None:
    def made(x: str, like: tuple[str, ...]) -> SiteSteps:
        steps = Allocate("y", False, (x,), like), Launch("gelu", (x, "y"), (8,))
        return site(*steps, given=(x,), result="y")

    first = one(made("x", ("x",)), made("h", ("h",))).sites
    assert [of.steps[0] for of in first] == [
        Allocate("y", False, ("x",), ("x",)),
        Allocate("y", False, ("h",), ("h",)),
    ]
    # Here the second's argument has the result's shape by chance, or the first's has.
    assert [of.steps[0].like for of in one(made("x", ("x",)), made("h", ())).sites] == [(), ()]  # type: ignore[union-attr]


def test_when_memory_is_dropped_is_no_difference() -> None:
    steps = [linear("x", "a.q.weight", "q"), linear("q", "a.k.weight", "r"), linear("r", "a.v.weight", "y")]
    early = site(*steps[:2], Release(("q",)), steps[2])
    late = site(*steps, Release(("q", "r")), result="y")
    for of_site in one(early, late).sites:  # in both as soon as it is in one
        dropped = {
            place: step.buffers for place, step in enumerate(of_site.steps) if isinstance(step, Release)
        }
        assert dropped == {2: ("q",), 4: ("r",)}


def test_calls_inside_give_what_the_function_is_given() -> None:
    def outer(module: str, x: str, stride: int) -> SiteSteps:
        steps = (
            call(aten.conv1d.default, (x, f"{module}.conv.weight", None, [stride]), "q"),
            linear("q", f"{module}.w", "y"),
        )
        conv = SharedCall(
            1, "conv", f"{module}.conv", (x,), (("stride", stride),), ("q",), (), frozenset({"q"})
        )
        return site(*steps, given=(x,), _0=conv)

    found = one(outer("a", "x", 1), outer("b", "h", 2))
    assert found.numbers == (("stride", (1, 2)),)
    assert [str(of_site.calls[0].numbers) for of_site in found.sites] == ["(('stride', stride),)"] * 2
    assert alike(outer("a", "x", 1), site(*outer("b", "x", 1).steps)) is None


def test_own_steps_drop_nothing_that_is_given() -> None:
    steps = (
        linear("x", "a.q.weight", "q"),
        Release(("x",)),
        linear("q", "a.k.weight", "y"),
        Release(("q", "x")),
    )
    inner = SharedCall(2, "inner", "a.k", ("q",), (), ("y",), (), frozenset({"y"}))
    found, calls = own_steps(steps, {id(steps[2]): inner})
    assert found == (steps[0], steps[2], Release(("q",))) and calls == {1: inner}
