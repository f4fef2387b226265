"""What one of two equal derivatives drops of the record, the other drops there, too, if nobody reads it later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from longhand.lower.ir import Extern, View
from longhand.schedule.functions.alike_fields import DroppedFields
from longhand.schedule.functions.call_records import SharedCall
from longhand.schedule.functions.long_functions import LongFunction, ModuleDerivative
from longhand.schedule.functions.part_records import fields_of_part
from longhand.schedule.names.reached import Reached
from longhand.schedule.plan import PlanStep, Release, Reuse

WORDS: Any = SimpleNamespace()  # asked about views that have names, of which there are none here
SAVED = frozenset(f"{field}{of}" for of in "ab" for field in ("x", "z"))


def mm(left: str, right: str, output: str) -> Extern:
    views = tuple(View(name, (4, 4), (4, 1)) for name in (left, right))
    return Extern(torch.ops.aten.mm.default, views, (), (output,))


def part_of(
    of: str, start: int, stop: int, given: Sequence[str], emptied: Sequence[str] = ()
) -> ModuleDerivative:
    made = frozenset([f"y{of}", f"out{of}"])
    return ModuleDerivative(
        of, of, "", "", "Block", start, stop, (*given, f"x{of}", f"z{of}"), (f"out{of}",), (), ("mm", "mm"), made,
        False, (), tuple(emptied),
    )  # fmt: skip


def dropped(
    first: Sequence[PlanStep],
    second: Sequence[PlanStep],
    behind: Sequence[PlanStep] = (),
    kept: frozenset[str] = frozenset(),
    calls: Mapping[int, SharedCall] | None = None,
    variables: Mapping[str, str] | None = None,
) -> list[tuple[str, ...]]:
    """What a function of two parts, and something behind, drops after each of its calls."""
    steps = [*first, *second, *behind]
    function = LongFunction(steps, variables or {}, "", kept, {}, SAVED, {}, drops_fields=True)
    parts = [
        part_of("a", 0, len(first), ("d",)),
        part_of("b", len(first), len(first) + len(second), ("outa",)),
    ]
    found: list[tuple[str, ...]] = []
    for step in DroppedFields(function, WORDS, calls or {}).with_parts(parts).steps:
        if isinstance(step, Release):
            found[-1] += step.buffers
        else:
            found.append(())
    return found


A = (mm("d", "xa", "ya"), mm("ya", "za", "outa"))
B = (mm("outa", "xb", "yb"), mm("yb", "zb", "outb"))
A_DROPS = (A[0], Release(("xa",)), A[1])


def test_it_goes_where_it_goes_in_the_other() -> None:
    assert dropped(A_DROPS, B) == [("xa",), (), ("xb",), ()]
    assert dropped(A, (B[0], Release(("xb",)), B[1])) == [("xa",), (), ("xb",), ()]


def test_the_first_place_counts_and_it_goes_once() -> None:
    assert dropped(A_DROPS, (*B, Release(("zb", "xb")))) == [("xa",), ("za",), ("xb",), ("zb",)]
    later = (mm("outb", "d", "e"), Release(("xb", "outb")))
    assert dropped(A_DROPS, B, later) == [("xa",), (), ("xb",), (), ("outb",)]


def test_what_goes_in_one_place_goes_in_one_order() -> None:
    assert dropped((*A, Release(("ya", "za"))), (*B, Release(("yb",)))) == [
        (),
        ("za", "ya"),
        (),
        ("zb", "yb"),
    ]


def test_it_stays_where_somebody_needs_it_later() -> None:
    assert dropped(A_DROPS, B, (mm("outb", "xb", "e"),)) == [("xa",), (), (), (), ()]
    assert dropped(A_DROPS, B, (Reuse("e", "xb", in_place=False),)) == [("xa",), (), (), (), ()]
    assert dropped(A_DROPS, B, kept=frozenset(["xb"])) == [("xa",), (), (), ()]


def test_it_stays_where_the_records_call_it_otherwise() -> None:
    """A function for both is given it by itself then, and its callers drop it."""
    words = {"xa": "saved.a.x", "xb": "saved.b.x"}
    assert dropped(A_DROPS, B, variables=words) == [("xa",), (), ("xb",), ()]
    assert dropped(A_DROPS, B, variables={**words, "xb": "saved.b.x_out"}) == [("xa",), (), (), ()]


def test_it_stays_inside_of_a_call() -> None:
    call = SharedCall(2, "block", "", ("outa",), (), ("outb",), (), frozenset(["yb", "outb"]))
    assert dropped(A_DROPS, B, calls={id(B[0]): call}) == [("xa",), (), (), ()]


def test_a_part_drops_inside_what_another_cannot_leave_to_its_caller() -> None:
    variables = {name: Reached.field_of("saved.block", name) for name in ("xa", "za")}
    memory: Any = SimpleNamespace(may_hold=lambda *some: True, hold=lambda *some: None)
    part = part_of("a", 0, 3, ("d",), emptied=("xa",))
    told = fields_of_part(part, ["xa", "za"], variables, memory)
    assert (told.emptied, told.released) == ((), ("xa",))
    told = fields_of_part(part.__class__(**{**vars(part), "waits": False}), ["xa", "za"], variables, memory)
    assert (told.emptied, told.released) == (("xa",), ())
