"""Memory in a function that stands for several modules is dropped where it is in any of them."""

from __future__ import annotations

from longhand.schedule.functions.alike_releases import (
    places_without_releases,
    released_behind,
    united_releases,
)
from longhand.schedule.plan import PlanStep, Release, Reuse


def _made(name: str) -> PlanStep:
    return Reuse(name, "x", in_place=False)


def _steps(site: str, *dropped: tuple[int, str]) -> list[PlanStep]:
    """Three buffers are made; some are dropped after one of these steps."""
    found: list[PlanStep] = []
    for place, name in enumerate("abc"):
        found.append(_made(f"{site}_{name}"))
        found += [Release((f"{site}_{one}",)) for at, one in dropped if at == place]
    return found


SITES = ("first", "second")
NUMBERS = [{f"{site}_{name}": place for place, name in enumerate("abc")} for site in SITES]


def test_where_one_module_drops_it_both_do() -> None:
    given = [_steps("first", (2, "b")), _steps("second", (1, "a"))]
    first, second = united_releases(given, NUMBERS, frozenset())
    assert first == _steps("first", (1, "a"), (2, "b"))
    assert second == _steps("second", (1, "a"), (2, "b"))
    assert places_without_releases(first) == [0, 1, 3]


def test_the_first_of_two_places_counts() -> None:
    given = [_steps("first", (2, "a")), _steps("second", (1, "a"))]
    assert united_releases(given, NUMBERS, frozenset())[0] == _steps("first", (1, "a"))


def test_what_is_dropped_together_is_one_release_in_one_order() -> None:
    given = [_steps("first", (1, "b")), _steps("second", (1, "a"))]
    assert united_releases(given, NUMBERS, frozenset())[1][2] == Release(("second_a", "second_b"))


def test_what_another_function_drops_stays_there() -> None:
    given = [_steps("first"), _steps("second", (1, "a"))]
    assert united_releases(given, NUMBERS, frozenset({1})) == given


def test_what_a_caller_drops_of_what_it_gives_is_dropped_behind_the_call() -> None:
    steps = [_made("a"), _made("b"), Release(("a",)), _made("c"), Release(("b",)), _made("d")]
    moved, places = released_behind(steps, [(1, 5, ("a",))])
    assert moved == [_made("a"), _made("b"), _made("c"), Release(("b", "a")), _made("d")]
    assert places == [(1, 2)]
    assert released_behind(steps, []) == (steps, [])
