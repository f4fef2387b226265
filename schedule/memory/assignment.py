"""Whose memory is whose: fresh buffers, kernels that write over what they read, and what is dropped when.

A kernel may write its result over a tensor that it reads if nothing needs that tensor afterwards, both have the same
number of elements of one dtype, and each element is read for the last time where (and before) it is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.lower.ir import Buffer, BufferKind, Extern
from longhand.schedule.kernels.kernel_plan import Access, KernelPlan, Pointer
from longhand.schedule.memory.alias_legality import may_alias
from longhand.schedule.memory.lifetimes import Lifetimes, find_lifetimes
from longhand.schedule.plan import (
    Allocate,
    Group,
    Launch,
    PlanStep,
    Release,
    Repeat,
    Reuse,
    UnitStep,
    touched,
)
from longhand.schedule.sizes import Hints, guess, product, same
from longhand.schedule.targets import TargetFacts

TOLERATED_PEAK = 1.03  # of what memory peaks at if everything is released at once
WORTH_RELEASING = 2 << 20  # bytes of the peak; a `del` for less is noise


def place_buffers(
    steps: Sequence[Launch | Extern],
    kernels: Mapping[str, KernelPlan],
    buffers: Mapping[str, Buffer],
    kept: frozenset[str],
    target_facts: TargetFacts,
) -> tuple[list[PlanStep], dict[str, KernelPlan]]:
    """The steps with an Allocate or a Reuse before the first launch that writes a buffer.

    Args:
        steps: Of the whole unit, in their order.
        kernels: By key.
        buffers: All of them.
        kept: Never overwritten: the caller sees them.
        target_facts: It decides what kernels may do in place.

    Returns:
        The steps, and the kernels with `may_alias` filled in.
    """
    lifetimes = find_lifetimes(steps)
    placed: list[PlanStep] = []
    made: set[str] = set()
    taken: set[str] = set()
    aliases: dict[str, set[tuple[str, str]]] = {}
    for number, step in enumerate(steps):
        if isinstance(step, Launch):
            plan = kernels[step.kernel]
            fresh: list[str] = []
            for pointer, name in _all_arguments(plan, step):
                is_new = name not in made and buffers[name].kind is BufferKind.INTERMEDIATE
                if pointer.access is Access.READ or not is_new:
                    continue
                made.add(name)
                source = _reusable(
                    step, plan, pointer.name, number, buffers, name, lifetimes, kept | taken, target_facts
                )
                if source is None:
                    made_first = fresh if target_facts.makes_alike else ()
                    twins = [other for other in made_first if buffers[other].dtype == buffers[name].dtype]
                    beside = (*_read_beside(step, plan, buffers, name), *twins)
                    fresh.append(name)
                    like = tuple(other for other in beside if _lie_alike(buffers[other], buffers[name]))
                    placed.append(Allocate(name, name in kept, beside, like))
                    continue
                taken.add(source[1])
                placed.append(Reuse(name, source[1], in_place=True))
                aliases.setdefault(step.kernel, set()).add((source[0], pointer.name))
        placed.append(step)
    return placed, {key: _with_aliases(plan, aliases.get(key, set())) for key, plan in kernels.items()}


def _read_beside(
    launch: Launch, plan: KernelPlan, buffers: Mapping[str, Buffer], name: str
) -> tuple[str, ...]:
    """What a launch reads of a buffer's dtype."""
    passed = [pointer for pointer in plan.pointers if not pointer.scratch]
    read = {
        given
        for pointer, given in zip(passed, launch.buffers, strict=True)
        if pointer.access is not Access.WRITE
    }
    others = dict.fromkeys(other for other in launch.buffers if other in read and other != name)
    return tuple(other for other in others if buffers[other].dtype == buffers[name].dtype)


def _lie_alike(one: Buffer, other: Buffer) -> bool:
    """Whether a tensor made like the first has the second's shape and layout, symbols included."""
    lies = [(tuple(map(str, buffer.shape)), tuple(map(str, buffer.stride))) for buffer in (one, other)]
    return one.layout_is_known and lies[0] == lies[1]


def release_buffers(
    steps: Sequence[UnitStep],
    buffers: Mapping[str, Buffer],
    kept: frozenset[str],
    hints: Hints,
    handed_over: frozenset[str] = frozenset(),
) -> list[UnitStep]:
    """The steps with as few Releases as bring the peak of memory close to what it could be.

    Args:
        steps: Of the whole unit, or of one run of a Repeat.
        buffers: All of them.
        kept: Never released.
        hints: For sizes.
        handed_over: Inputs that nobody else holds: what the forward pass saved, in a backward pass.
    """
    spans = _spans(steps, buffers, kept, hints, handed_over)
    ends = {span.end for span in spans if not span.stays}
    inside = [peak_inside(step, buffers, kept, hints) for step in steps]
    may_go = frozenset(n for n, span in enumerate(spans) if not span.stays)
    lowest = _peak(spans, inside, may_go)[0]
    released: frozenset[int] = frozenset()
    while True:
        peak, place = _peak(spans, inside, released)
        if peak <= lowest * TOLERATED_PEAK or peak - lowest < WORTH_RELEASING:
            break
        idle = [n for n in may_go - released if spans[n].end < place]
        released |= {max(idle, key=lambda n: (spans[n].size, -n))}
    # What dies beside one of them goes with it: `del q` alone would ask why k stays.
    at = {spans[n].end for n in released}
    beside = {n for n in may_go if spans[n].end in at and spans[n].size >= WORTH_RELEASING}
    dying: dict[int, list[str]] = {}
    for number in sorted(released | beside):
        dying.setdefault(spans[number].end, []).extend(spans[number].names)
    with_releases: list[UnitStep] = []
    for number, step in enumerate(steps):
        with_releases.append(step)
        if number in ends and number in dying:
            with_releases.append(Release(tuple(dying[number])))
    return with_releases


@dataclasses.dataclass(frozen=True)
class _Span:
    """One piece of memory: its names in turn, its bytes, the steps that make it and that use it last.

    What `stays` is handed on: it takes its part of the peak, and is never released.
    """

    names: tuple[str, ...]
    size: int
    start: int
    end: int
    stays: bool = False


def _spans(
    steps: Sequence[UnitStep],
    buffers: Mapping[str, Buffer],
    kept: frozenset[str],
    hints: Hints,
    handed_over: frozenset[str] = frozenset(),
) -> list[_Span]:
    """The memory that the steps make or are handed, in order of making; what is in `kept` stays."""
    # What the runs of a Repeat read is dropped run by run, with the list that holds it.
    in_repeats = {name for step in steps if isinstance(step, Repeat) for name in _names(step)}
    given = [name for name in buffers if name in handed_over - in_repeats]
    owner = {name: place for place, name in enumerate(given)}
    spans = [_Span((name,), _bytes_of(buffers[name], hints), 0, 0) for name in given]
    for number, step in enumerate(steps):
        if isinstance(step, Reuse) and step.of in owner:
            owner[step.buffer] = owner[step.of]
            span = spans[owner[step.of]]
            spans[owner[step.of]] = dataclasses.replace(span, names=(*span.names, step.buffer))
        elif not isinstance(step, Reuse):
            for name in _made(step):
                owner[name] = len(spans)
                spans.append(_Span((name,), _bytes_of(buffers[name], hints), number, number))
        for name in _names(step):
            if name in owner:
                spans[owner[name]] = dataclasses.replace(spans[owner[name]], end=number)
    ended_inside = {
        n for n, span in enumerate(spans) if isinstance(steps[span.end], Repeat) and span.start == span.end
    }
    return [
        dataclasses.replace(span, stays=not kept.isdisjoint(span.names))
        for n, span in enumerate(spans)
        if n not in ended_inside
    ]


def _bytes_of(buffer: Buffer, hints: Hints) -> int:
    return guess(product(buffer.shape), hints) * buffer.dtype.itemsize


def peak_inside(step: UnitStep, buffers: Mapping[str, Buffer], kept: frozenset[str], hints: Hints) -> int:
    """Bytes that a Repeat's run needs besides what it takes and hands on; 0 for plain steps."""
    if not isinstance(step, Repeat):
        return 0
    if step.kinds:
        kinds = map(step.of_kind, dict.fromkeys(step.kinds))
        return max(peak_inside(kind, buffers, kept, hints) for kind in kinds)
    run, outputs = step.runs[0], step.outputs[0]
    spans = [span for span in _spans(run, buffers, kept | frozenset(outputs), hints) if not span.stays]
    gone = frozenset(n for n, span in enumerate(spans) if _is_released(span, run))
    return _peak(spans, [0] * len(run), gone)[0]


def _is_released(span: _Span, steps: Sequence[UnitStep]) -> bool:
    return isinstance(steps[span.end], Release)


def _peak(spans: Sequence[_Span], inside: Sequence[int], released: frozenset[int]) -> tuple[int, int]:
    """(bytes, step) where most is alive at once, if only `released` go before the end."""
    length = len(inside)
    change = [0] * (length + 1)
    for number, span in enumerate(spans):
        change[span.start] += span.size
        if number in released:
            change[span.end + 1] -= span.size
    alive = highest = place = 0
    for step in range(length):
        alive += change[step]
        if alive + inside[step] > highest:
            highest, place = alive + inside[step], step
    return highest, place


def release_run(
    run: Sequence[PlanStep], buffers: Mapping[str, Buffer], kept: frozenset[str], hints: Hints
) -> tuple[PlanStep, ...]:
    """`release_buffers` for one run of a Repeat; what it takes from outside is left to whoever made it."""
    steps = release_buffers(run, buffers, kept, hints)
    return tuple(step for step in steps if not isinstance(step, Repeat))


def _names(step: UnitStep) -> tuple[str, ...]:
    """The buffers that a step names; of a Repeat those that are seen from outside."""
    if not isinstance(step, Repeat):
        return touched(step)
    inside = {name for run in step.runs for one in run for name in _made(one)}
    seen = dict.fromkeys(name for run in step.runs for one in run for name in touched(one))
    return (*(name for name in seen if name not in inside), *_made(step))


def _made(step: UnitStep) -> tuple[str, ...]:
    """The buffers that begin with a step."""
    match step:
        case Extern():
            return tuple(name for name in step.outputs if name)
        case Allocate() | Reuse():
            return (step.buffer,)
        case Repeat():
            return tuple(dict.fromkeys(name for run in step.outputs for name in run))
    return ()


def _arguments(plan: KernelPlan, launch: Launch | Group) -> list[tuple[Pointer, str]]:
    """(pointer, buffer) for each pointer that the caller passes."""
    pointers = [pointer for pointer in plan.pointers if not pointer.scratch]
    return list(zip(pointers, launch.buffers, strict=True))


def _all_arguments(plan: KernelPlan, launch: Launch) -> list[tuple[Pointer, str]]:
    """The arguments of every group."""
    return [argument for group in launch.groups for argument in _arguments(plan, group)]


def _reusable(
    launch: Launch,
    plan: KernelPlan,
    pointer: str,
    number: int,
    buffers: Mapping[str, Buffer],
    name: str,
    lifetimes: Lifetimes,
    untouchable: frozenset[str],
    target_facts: TargetFacts,
) -> tuple[str, str] | None:
    """The pointer and the buffer of a tensor that the launch may overwrite with buffer `name` (its `pointer`).

    Of several the one made last: it is in the cache, and what is older may be the caller's in the first of many layers.
    """
    target = buffers[name]
    newest: tuple[str, str] | None = None
    if launch.others:
        return None  # the memory of lists is the caller's, but for what few lists hand on to each other
    for other, source in _arguments(plan, launch):
        candidate = buffers[source]
        if (
            candidate.kind is BufferKind.INTERMEDIATE
            and source != name
            and source not in untouchable
            and source not in lifetimes.shared
            and lifetimes.last_use[source] == number
            and launch.buffers.count(source) == 1
            and candidate.dtype is target.dtype
            and candidate.layout_is_known
            and _holds_like(candidate, target)
            and may_alias(plan, other.name, pointer, target_facts, launch)
        ):
            is_later = newest is None or lifetimes.first_use[source] > lifetimes.first_use[newest[1]]
            newest = (other.name, source) if is_later else newest
    return newest


def _with_aliases(plan: KernelPlan, pairs: set[tuple[str, str]]) -> KernelPlan:
    """The plan with both pointers of each pair told about the other."""
    if not pairs:
        return plan
    pointers = tuple(
        dataclasses.replace(
            pointer,
            may_alias=tuple(
                sorted(
                    {a if b == pointer.name else b for a, b in pairs if pointer.name in (a, b)}
                    | set(pointer.may_alias)
                )
            ),
        )
        for pointer in plan.pointers
    )
    return dataclasses.replace(plan, pointers=pointers)


def _holds_like(one: Buffer, other: Buffer) -> bool:
    """Whether the memory of one buffer is seen as the other by nothing but another shape."""
    if len(one.shape) == len(other.shape) and all(
        same(a, b) for a, b in zip((*one.shape, *one.stride), (*other.shape, *other.stride), strict=True)
    ):
        return True
    return same(product(one.shape), product(other.shape)) and one.is_contiguous and other.is_contiguous
