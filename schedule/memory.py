"""Whose memory is whose: fresh buffers, kernels that write over what they read, and what is dropped when.

A kernel may write its result over a tensor that it reads if nothing needs that tensor afterwards, both have the same
number of elements of one dtype, and each element is read for the last time where (and before) it is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.lower.ir import Buffer, BufferKind, Extern
from longhand.schedule.dependencies import views
from longhand.schedule.plan import (
    Access,
    Allocate,
    KernelPlan,
    Launch,
    PlanStep,
    Pointer,
    Release,
    Repeat,
    Reuse,
    UnitStep,
)
from longhand.schedule.sharing import may_share
from longhand.schedule.sizes import Hints, guess, product, same

WORTH_RELEASING = 1 << 18  # bytes
RELEASED_PART = 8  # at least this part of the largest buffer


@dataclasses.dataclass(frozen=True)
class Lifetimes:
    """When buffers are used for the last time.

    Attributes:
        last_use: By buffer, the position of the last step that touches it or a view of it.
        shared: Buffers whose memory an extern may have handed on as (part of) its result, and those results.
    """

    last_use: Mapping[str, int]
    shared: frozenset[str]


def place_buffers(
    steps: Sequence[Launch | Extern],
    kernels: Mapping[str, KernelPlan],
    buffers: Mapping[str, Buffer],
    kept: frozenset[str],
) -> tuple[list[PlanStep], dict[str, KernelPlan]]:
    """The steps with an Allocate or a Reuse before the first launch that writes a buffer.

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
            for pointer, name in _arguments(plan, step):
                is_new = name not in made and buffers[name].kind is BufferKind.INTERMEDIATE
                if pointer.access is Access.READ or not is_new:
                    continue
                made.add(name)
                source = _reusable(step, plan, pointer.name, number, buffers, name, lifetimes, kept | taken)
                if source is None:
                    placed.append(Allocate(name, is_result=name in kept))
                    continue
                taken.add(source[1])
                placed.append(Reuse(name, source[1], in_place=True))
                aliases.setdefault(step.kernel, set()).add((source[0], pointer.name))
        placed.append(step)
    return placed, {key: _with_aliases(plan, aliases.get(key, set())) for key, plan in kernels.items()}


def find_lifetimes(steps: Sequence[Launch | Extern]) -> Lifetimes:
    """Last uses; a result that may be a view of an argument keeps the argument alive."""
    last_use: dict[str, int] = {}
    roots: dict[str, set[str]] = {}
    shared: set[str] = set()
    for number, step in enumerate(steps):
        for name in touched(step):
            for root in {name} | roots.get(name, set()):
                last_use[root] = number
        if isinstance(step, Extern) and _may_return_view(step):
            sources = {view.buffer for view in views(step)}
            inherited = sources.union(*(roots.get(source, set()) for source in sources))
            for output in step.outputs:
                roots[output] = inherited
            shared |= inherited | set(step.outputs)
    return Lifetimes(last_use, frozenset(shared))


def touched(step: PlanStep) -> tuple[str, ...]:
    """The buffers that a step names."""
    match step:
        case Launch():
            return step.buffers
        case Extern():
            names = (*(view.buffer for view in views(step)), *step.outputs, *step.mutates)
            return tuple(name for name in names if name)
        case Allocate():
            return (step.buffer,)
        case Reuse():
            return (step.of, step.buffer)
        case Release():
            return step.buffers
    raise AssertionError(step)


def release_buffers(
    steps: Sequence[UnitStep], buffers: Mapping[str, Buffer], kept: frozenset[str], hints: Hints
) -> list[UnitStep]:
    """The steps with a Release after the last use of each buffer that is large among those made here.

    Args:
        steps: Of the whole unit, or of one run of a Repeat.
        buffers: All of them.
        kept: Never released.
        hints: For sizes.
    """
    last: dict[str, int] = {}
    made: set[str] = set()
    before: dict[str, str] = {}
    for number, step in enumerate(steps):
        last.update(dict.fromkeys(_names(step), number))
        made.update(_made(step))
        if isinstance(step, Reuse):
            before[step.buffer] = step.of
    size = {name: guess(product(buffers[name].shape), hints) * buffers[name].dtype.itemsize for name in made}
    limit = max(WORTH_RELEASING, max(size.values(), default=0) // RELEASED_PART)
    dying: dict[int, list[str]] = {}
    for name, number in last.items():
        step = steps[number]
        ended_inside = isinstance(step, Repeat) and name in _made(step)
        if name not in size or name in kept or ended_inside:
            continue
        if size[name] >= limit and name not in before.values():
            # The memory goes only when all of its names do.
            while name in made and name not in kept:
                dying.setdefault(number, []).append(name)
                name = before.get(name, "")
    found: list[UnitStep] = []
    for number, step in enumerate(steps):
        found.append(step)
        # After the last step everything goes by itself.
        if number in dying and number + 1 < len(steps):
            found.append(Release(tuple(dying[number])))
    return found


def release_run(
    run: Sequence[PlanStep], buffers: Mapping[str, Buffer], kept: frozenset[str], hints: Hints
) -> tuple[PlanStep, ...]:
    """`release_buffers` for one run of a Repeat; what it takes from outside is left to whoever made it."""
    return tuple(step for step in release_buffers(run, buffers, kept, hints) if not isinstance(step, Repeat))


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


def _arguments(plan: KernelPlan, launch: Launch) -> list[tuple[Pointer, str]]:
    """(pointer, buffer) for each pointer that the caller passes."""
    pointers = [pointer for pointer in plan.pointers if not pointer.scratch]
    return list(zip(pointers, launch.buffers, strict=True))


def _reusable(
    launch: Launch,
    plan: KernelPlan,
    pointer: str,
    number: int,
    buffers: Mapping[str, Buffer],
    name: str,
    lifetimes: Lifetimes,
    untouchable: frozenset[str],
) -> tuple[str, str] | None:
    """The pointer and the buffer of a tensor that the launch may overwrite with buffer `name` (its `pointer`)."""
    target = buffers[name]
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
            and same(product(candidate.shape), product(target.shape))
            and _is_contiguous(candidate)
            and may_share(plan, other.name, pointer)
        ):
            return other.name, source
    return None


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


def _may_return_view(step: Extern) -> bool:
    """Whether the op's schema allows its result to share memory with an argument."""
    return any(returned.alias_info is not None for returned in step.target._schema.returns)


def _is_contiguous(buffer: Buffer) -> bool:
    expected = 1
    for size, stride in zip(reversed(buffer.shape), reversed(buffer.stride), strict=True):
        if size != 1 and not same(stride, expected):
            return False
        expected = product((expected, size))
    return True
