"""The proof that a function does for each module what the plan does there: its sizes, with that module's in place.

What modules share is found by walking their steps side by side, and what tells a number there is chosen. Before
anything is written all of it is computed once more, forwards: the sizes that a module's tensors have, and what its call
is given, stand for the symbols, and every number of every launch, view, call and tensor must be the one of its plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy

from longhand.lower.ir import Buffer, Extern, Size, View
from longhand.schedule.functions.alike_numbers import KEYWORDS, is_of_single_channels
from longhand.schedule.functions.alike_releases import places_without_releases
from longhand.schedule.functions.alike_steps import AlikeSteps, SiteSteps
from longhand.schedule.functions.sizes.size_sums import value_of
from longhand.schedule.layers.outside import references
from longhand.schedule.plan import Allocate, Launch, PlanStep, Reuse

_Pair = tuple[Any, Any]  # what the function says, and what the plan says


def are_proven(shared: AlikeSteps, alike: AlikeSteps, buffers: Mapping[str, Buffer]) -> bool:
    """Whether steps with symbols are each module's own.

    Args:
        shared: The steps with symbols, which are printed as the first module's.
        alike: The steps with each module's own sizes.
        buffers: The plan's, by name.
    """
    written = shared.sites[0]
    weights = [{path: name for name, path in site.weights.items()} for site in alike.sites]
    held = [tuple(of.get(path, "") for of in weights) for path in weights[0]]
    columns = [*alike.inputs, *alike.made, *held]
    told = {
        str(size)
        for column in (*alike.inputs, *held)
        for size in (written.buffers[column[0]].shape if column[0] in written.buffers else ())
    }
    given = {word for word, _ in shared.numbers}
    handed_on = _only_handed_on(written.steps)
    if any(one.is_told and one.word not in told | given for one in shared.symbols if len(set(one.sizes)) > 1):
        return False
    for place, own in enumerate(alike.sites):
        at: dict[str, Size] = {word: values[place] for word, values in shared.numbers}
        at |= {one.word: one.sizes[place] for one in shared.symbols}
        pairs: list[_Pair] = [*_of_steps(written.steps, own.steps), *_of_calls(written, own)]
        for column in columns:
            if (symbolic := written.buffers.get(column[0])) is not None:
                buffer = buffers[own.aliases.get(column[place], column[place])]
                if column[0] in handed_on:
                    pairs += zip(symbolic.shape, buffer.shape, strict=True)
                else:
                    pairs += _of_buffers(symbolic, buffer, is_made=column in alike.made)
        if not all(_is_same(said, size, at) for said, size in pairs):
            return False
    return True


def _only_handed_on(steps: Sequence[PlanStep]) -> frozenset[str]:
    """What calls of libraries make and nothing here reads: how it lies is between the library and the caller."""
    calls = [step for step in steps if isinstance(step, Launch | Extern)]
    named = Counter(name for step in calls for name in {*references(step)})
    made = {name for step in calls if isinstance(step, Extern) for name in step.outputs if name}
    kept = {step.of for step in steps if isinstance(step, Reuse)}
    kept |= {name for step in steps if isinstance(step, Allocate) for name in step.beside}
    return frozenset(name for name in made - kept if named[name] == 1)


def _of_buffers(symbolic: Buffer, own: Buffer, *, is_made: bool) -> Iterator[_Pair]:
    """Shapes, and the distances that anything lies at. Of what is given a size that nobody says may be another one."""
    shapes = [*zip(symbolic.shape, own.shape, strict=True)]
    strides = zip(symbolic.stride, own.stride, own.shape, strict=True)
    pairs = [*shapes, *((said, stride) for said, stride, size in strides if size != 1)]
    return (pair for pair in pairs if is_made or not isinstance(pair[0], int))


def are_given_the_same(written: SiteSteps, own: SiteSteps) -> bool:
    """Whether a function that was written for one module gives its calls what another module's steps do.

    Args:
        written: The steps that are printed.
        own: The other module's, which calls the function with the same numbers.
    """
    pairs = [*_of_calls(written, own)]
    for one, other in _paired(written.steps, own.steps):
        if isinstance(one, Extern) and isinstance(other, Extern):
            pairs += [pair for word, pair in _of_arguments(one, other).items() if word in KEYWORDS]
    return all(_is_same(said, number, {}) for said, number in pairs)


def _paired(written: Sequence[PlanStep], own: Sequence[PlanStep]) -> Iterator[tuple[PlanStep, PlanStep]]:
    at = zip(places_without_releases(written), places_without_releases(own), strict=True)
    return ((written[one], own[other]) for one, other in at)


def _of_steps(written: Sequence[PlanStep], own: Sequence[PlanStep]) -> Iterator[_Pair]:
    for one, other in _paired(written, own):
        if isinstance(one, Launch) and isinstance(other, Launch):
            yield (one.sizes, one.ints, one.scalars), (other.sizes, other.ints, other.scalars)
        if isinstance(one, Extern) and isinstance(other, Extern):
            yield from _of_arguments(one, other).values()


def _of_arguments(one: Extern, other: Extern) -> dict[str, _Pair]:
    """All that two calls are given, by the words of their schema."""
    schema = one.target._schema.arguments
    names = [argument.name for argument in schema]
    said, own = ({**dict(zip(names, step.args, strict=False)), **dict(step.kwargs)} for step in (one, other))
    pairs = {
        argument.name: (
            said.get(argument.name, argument.default_value),
            own.get(argument.name, argument.default_value),
        )
        for argument in schema
    }
    if is_of_single_channels(one) and is_of_single_channels(other):
        del pairs["groups"]  # the weight tells these
    return pairs


def _of_calls(written: SiteSteps, own: SiteSteps) -> Iterator[_Pair]:
    """The numbers that other functions are given in there."""
    for one, other in zip(written.calls.values(), own.calls.values(), strict=True):
        yield one.name, other.name
        for (word, said), (_, number) in zip(one.numbers, other.numbers, strict=True):
            if word not in one.channels:  # a tensor that is given tells these
                yield said, number


def _is_same(said: Any, own: Any, at: Mapping[str, Size]) -> bool:
    """Whether what a function says is the plan's own with a module's sizes in place."""
    if isinstance(said, View) and isinstance(own, View):
        chains = tuple(call.args for call in said.calls), tuple(call.args for call in own.calls)
        return _is_same(*chains, at)
    if isinstance(said, tuple | list) and isinstance(own, tuple | list):
        return len(said) == len(own) and all(
            _is_same(one, other, at) for one, other in zip(said, own, strict=True)
        )
    if isinstance(said, sympy.Basic):
        value, plain = (
            value_of(one, at) if isinstance(one, int | sympy.Basic) else one for one in (said, own)
        )
        return repr(said) == repr(own) if value is None else value == plain
    return bool(repr(said) == repr(own))
