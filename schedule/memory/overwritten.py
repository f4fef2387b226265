"""Which of the tensors that a function is given it writes over: its caller reads in them what they were no longer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from longhand.lower.ir import Extern
from longhand.schedule.kernels.kernel_plan import Access, KernelPlan
from longhand.schedule.plan import Launch, Repeat, Reuse, UnitStep


def overwritten(
    steps: Iterable[UnitStep], given: Collection[str], kernels: Mapping[str, KernelPlan]
) -> list[str]:
    """Those of the given buffers whose memory steps write to, in the order in which they were given.

    Args:
        steps: What the function does, that which it calls included.
        given: What it is given.
        kernels: The plan's.
    """
    written = {name for step in steps for name in _written(step, kernels)}
    return [name for name in given if name in written]


def _written(step: UnitStep, kernels: Mapping[str, KernelPlan]) -> Iterator[str]:
    match step:
        case Reuse(of=of):
            yield of  # the new name is written to, and lies where the old one does
        case Extern(mutates=mutates):
            yield from mutates
        case Launch():
            passed = [one for one in kernels[step.kernel].pointers if not one.scratch]
            for group in step.groups:
                pairs = zip(passed, group.buffers, strict=True)
                yield from (name for one, name in pairs if one.access is not Access.READ)
        case Repeat(runs=runs):
            for run in runs:
                for inner in run:
                    yield from _written(inner, kernels)
