"""A kernel that cannot be one: its file holds the PyTorch calls of its reference, and model.py calls it all the same.

One bad kernel costs one kernel. What is wrong with it (it does not compile, or computes something else) is a bug in
longhand; the unit is right, and its other kernels are kernels.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Mapping
from types import MappingProxyType

from longhand.emit.module.check_py import CheckedKernel, checked_kernel
from longhand.emit.text.kernel_head import FACE_WIDTH, head_lines
from longhand.emit.text.quoting import python_docstring
from longhand.emit.text.reference import Reference
from longhand.emit.unit.sources import in_project
from longhand.emit.unit.templates import render_template
from longhand.schedule.named_plan import KernelNames, NamedPlan
from longhand.schedule.names.words import listed
from longhand.schedule.plan import Access, KernelPlan


@dataclasses.dataclass(frozen=True)
class InTorch:
    """Why a kernel is PyTorch calls.

    Attributes:
        cause: Goes on from "it ...": ``does not compile for sm_90``.
        detail: What the compiler said, or where it is wrong.
    """

    cause: str
    detail: str


NONE_IN_TORCH: Mapping[str, InTorch] = MappingProxyType({})


def print_torch_kernel(plan: KernelPlan, names: KernelNames, reference: Reference, why: InTorch) -> str:
    """The text of ``kernels/NAME.py``, not yet formatted."""
    checked = checked_kernel(plan, names, reference)
    filled = [
        names.lists.get(pointer.name) or names.pointers[pointer.name]
        for pointer in plan.pointers
        if pointer.access is not Access.READ and not pointer.scratch
    ]
    return render_template(
        "torch_kernel.py.jinja",
        title=head_lines(names.kernel, names.title, FACE_WIDTH, python_docstring),
        quotes=[line for quote in names.quotes for line in _quoted(quote.qualname, quote.shown)],
        cause=textwrap.wrap(
            f"In PyTorch calls, those of its reference: as a kernel it {why.cause}.", FACE_WIDTH
        ),
        kernel=checked,
        filled=listed(filled),
        call=_call(checked),
        runtime=["fill", *sorted(checked.needs)],
        uses_torch=reference.uses_torch,
        reference=reference,
    )


def in_torch_for_lock(plan: KernelPlan, one: NamedPlan, why: InTorch) -> Mapping[str, str]:
    """What the lock says of such a kernel: what is wrong, and which statement of the user's it does."""
    origins = [one.words.provenance(origin) for origin in plan.origins if origin in one.words.nodes]
    where = next((origin for origin in reversed(origins) if origin.statement), None)
    place = f"{in_project(where.file)}:{where.line}" if where is not None and where.file else ""
    return {
        "cause": why.cause,
        "detail": why.detail,
        "where": place,
        "statement": where.statement if where is not None else "",
    }


def _call(checked: CheckedKernel) -> str:
    """The statement that fills what the kernel fills."""
    given = ", ".join(text for _, text in checked.read)
    return f"fill(({', '.join(checked.written)},), reference({given}))"


def _quoted(qualname: str, statement: str) -> list[str]:
    return textwrap.wrap(
        f"    {qualname}    {statement}" if qualname else f"    {statement}",
        FACE_WIDTH,
        subsequent_indent=" " * 8,
        break_long_words=False,
    )
