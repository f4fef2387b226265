"""Which parts of long derivatives do the same, and what such a part is given of the record of the forward pass.

Of equal parts one function is written. What one of them reads as ``saved.x`` may be another's ``saved.layer_0_x``: of
the first layer, say, which stands outside the loop. Where fields are called otherwise, the function is given the
tensors one by one. A part that drops fields itself is given them so only if its caller may hold them until it returns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.schedule.functions.alike_releases import own_steps
from longhand.schedule.functions.alike_steps import SiteSteps, alike_steps
from longhand.schedule.functions.derivative_memory import MemoryOfSteps
from longhand.schedule.functions.long_functions import LongFunction, ModuleDerivative
from longhand.schedule.functions.part_records import holder_of
from longhand.schedule.layers.saved_layers import SAVED
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.plan import PlanStep

_MOST_OF_EQUAL = 6  # tensors of the record that one for several modules is given one by one

Parts = tuple[ModuleDerivative, ...]


@dataclasses.dataclass(frozen=True)
class _Member:
    """A part that does what others do.

    Attributes:
        of: Whose it is.
        fields: What the record calls what it reads of it.
        may_wait: Whether its caller may hold what it drops of the record until it returns.
    """

    of: int
    fields: tuple[str, ...]
    may_wait: bool


_Members = list[_Member]


def with_alike(
    functions: Sequence[LongFunction], divided: Sequence[Parts], memory: Sequence[MemoryOfSteps]
) -> list[Parts]:
    """The parts of functions, with what each is given where others do the same.

    Args:
        functions: All of a backward pass.
        divided: The parts of each.
        memory: Of the steps of each.
    """
    members: dict[tuple[object, ...], _Members] = {}
    for number, (function, parts, held) in enumerate(zip(functions, divided, memory, strict=True)):
        for part in (inside for one in parts for inside in one.all_parts):
            fields = tuple(function.variables[name].rpartition(".")[2] for name in _fields(part, function))
            may_wait = held.may_hold(part.emptied, part.start, part.stop)
            members.setdefault(part.does, []).append(_Member(number, fields, may_wait))
    return [
        tuple(_told(part, number, members, function, held) for part in parts)
        for number, (function, parts, held) in enumerate(zip(functions, divided, memory, strict=True))
    ]


def are_one(parts: Sequence[tuple[ModuleDerivative, LongFunction]], words: BufferNamer) -> bool:
    """Whether two parts do the same to what they are given, and return the same.

    Args:
        parts: Both, each with the function that it is of.
        words: The captured graph's.
    """
    sites, keys = [steps_of_part(*one) for one in parts], [_keys_of(*one) for one in parts]
    alike = alike_steps(sites, words, parts[0][1].variables)
    if alike is None or alike.numbers or keys[0] != keys[1]:
        return False
    in_other = {column[0]: column[1] for column in alike.made}
    given = zip(sites, zip(*alike.inputs, strict=True), strict=True) if alike.inputs else ()
    are_in_order = all([*names] == [name for name in site.given if name in names] for site, names in given)
    one, other = (site.results for site in sites)
    return are_in_order and [in_other.get(name) for name in one] == [*other]


def steps_of_part(part: ModuleDerivative, function: LongFunction) -> SiteSteps:
    """What a part does, takes and returns: what variables hold comes before what the record does."""
    plain = [step for step in function.steps[part.start : part.stop] if isinstance(step, PlanStep)]
    head = f"{part.root}."
    paths = {name: path for name in part.given if (path := function.weights.get(name, "")).startswith(head)}
    weights = {name: path.removeprefix(head) for name, path in paths.items()}
    given = sorted((name for name in part.given if name not in weights), key=function.fields.__contains__)
    return SiteSteps(own_steps(plain, {})[0], {}, tuple(given), weights, (*part.results, *part.gradients))


def _keys_of(part: ModuleDerivative, function: LongFunction) -> list[list[str]]:
    """For each result of a part the paths of the weights in its module whose gradient it is."""
    own = f"{function.path}." if function.path else ""
    paths = [function.gradients.get(name, ()) for name in part.gradients]
    of_weights = [[f"{own}{path}".removeprefix(f"{part.root}.") for path in some] for some in paths]
    return [*([] for _ in part.results), *of_weights]


def _told(
    part: ModuleDerivative,
    number: int,
    members: Mapping[tuple[object, ...], _Members],
    function: LongFunction,
    memory: MemoryOfSteps,
    is_told: bool = False,
) -> ModuleDerivative:
    """A part with what it is given of the record one by one: where others do the same, with other fields."""
    alike = members[part.does]
    n_within = sum(one.of == number for one in alike)
    fields = _fields(part, function)
    is_among_others = n_within < len(alike)
    differs = n_within > 1 or len({one.fields for one in alike}) > 1
    may_be = len(fields) <= _MOST_OF_EQUAL and memory.may_hold(part.emptied, part.start, part.stop)
    # Of blocks of one function alone each is given its own record (part_records.py), if it has one, and may drop of it.
    has_record = any(
        holder_of(function.variables[name]) not in ("", SAVED) for name in _fields(part, function)
    )
    has_own = n_within > 1 and has_record and not is_among_others
    is_told = is_told or (differs and may_be and not (has_own and part.emptied))
    if is_told and part.emptied:
        memory.hold(part.emptied, part.start, part.stop)
    return dataclasses.replace(
        part,
        parts=tuple(_told(one, number, members, function, memory, is_told) for one in part.parts),
        is_of_several=n_within > 1,
        is_among_others=is_among_others,
        told=fields if is_told else (),
        released=(*part.released, *part.emptied) if is_told else part.released,
        emptied=() if is_told else part.emptied,
        waits=all(one.may_wait for one in alike),
    )


def _fields(part: ModuleDerivative, function: LongFunction) -> tuple[str, ...]:
    return tuple(name for name in part.given if name in function.saved)
