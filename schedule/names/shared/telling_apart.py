"""What tells a kernel from others of the same math: in its plan, and in the users' words that all calls share."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from longhand.lower.ir import Load, Store
from longhand.schedule.names.schedule_names import words_of
from longhand.schedule.names.shared.callers import Callers
from longhand.schedule.names.words import identifier, snake_case, without_counter
from longhand.schedule.plan import Access, KernelPlan, Pointer

_DTYPES = {
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.int16: "int16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.bool: "bool",
}


def differences(plan: KernelPlan, other: KernelPlan) -> Iterator[str]:
    """What sets this kernel apart from the one that has the plain name."""
    if plan.schedule != other.schedule:
        yield words_of(plan).adjective or ("blocks" if plan.rows else "flat")
    stores, others = _n_stores(plan), _n_stores(other)
    if stores != others:
        yield "" if stores < others else "and_sum" if stores == others + 1 else "and_parts"
    read, written = _dtypes(plan, Access.READ), _dtypes(plan, Access.WRITE)
    if written != _dtypes(other, Access.WRITE):
        yield f"to_{written}"
    if read != _dtypes(other, Access.READ):
        yield f"of_{read}"
    if len(plan.pointers) < len(other.pointers):
        yield "short"
    if len(plan.rows) != len(other.rows) or len(plan.cols) != len(other.cols):
        yield {0: "flat", 1: "rows", 2: "batched"}.get(len(plan.rows), "nested")
    if plan.ints and not other.ints:
        yield "strided"
    if other.ints and not plan.ints:
        yield "packed"


def _n_stores(plan: KernelPlan) -> int:
    return sum(isinstance(value, Store) for value in plan.body)


def _dtypes(plan: KernelPlan, access: Access) -> str:
    dtypes = (
        _DTYPES.get(pointer.dtype, "")
        for pointer in plan.pointers
        if not pointer.scratch and (pointer.access is Access.READ) == (access is Access.READ)
    )
    return "_".join(dict.fromkeys(dtypes))


def qualifiers(plan: KernelPlan, callers: Callers) -> Iterator[str]:
    """What may tell this kernel from another of the same math, best first: of the users' words those of every call."""
    words, launch = callers.first.words, callers.first.launch
    places = [place for place, p in enumerate(passed(plan)) if p.access is not Access.READ]
    if all(isinstance(value, Load | Store) for value in plan.body) and words.weights:
        yield from (
            word for place in places for word in callers.candidates(place)[:1]
        )  # of a copy: what it is of
    if words_of(plan).is_best:
        yield words_of(plan).adjective
    for place in reversed(places):
        local = without_counter(identifier(words.provenance(launch.buffers[place]).local or ""))
        if len(local) > 1 and callers.have_local(local):  # that its result is called x sets no kernel apart
            yield local
    sources = [words.provenance(origin) for origin in reversed(launch.origins or plan.origins)]
    for source in sources:
        module = source.module.rpartition(".")[2]
        if module and not module.isdigit() and callers.have_module(module):
            yield identifier(module)
    yield from (
        snake_case(identifier(source.module_class))
        for source in sources
        if callers.have_module(source.module_class)
    )
    yield words_of(plan).adjective or ("strided" if plan.ints else "flat")
    if plan.ints:
        yield "strided"
    if len(places) > 1:
        yield {2: "pair", 3: "triple"}.get(len(places), "several")
    if any(isinstance(value, Load) and value.mask is not None for value in plan.body):
        yield "masked"
    if any(isinstance(value, Store) and value.mask is not None for value in plan.body):
        yield "partial"
    yield from _broadcasts(plan)


def passed(plan: KernelPlan) -> list[Pointer]:
    return [pointer for pointer in plan.pointers if not pointer.scratch]


def _broadcasts(plan: KernelPlan) -> Iterator[str]:
    """`by_row` or `by_col` where some tensor varies over only these."""
    rows = {axis.name for axis in plan.rows}
    cols = {axis.name for axis in plan.cols}
    for position, value in enumerate(plan.body):
        if isinstance(value, Load) and rows and cols:
            axes = {axis for axis, _ in plan.addresses[position].axes}
            if axes and axes <= rows:
                yield "by_row"
            elif axes and axes <= cols:
                yield "by_col"
