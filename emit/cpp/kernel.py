"""A kernel plan becomes the text of one C++ file: ``extern "C"`` function, OpenMP over rows, SIMD over columns.

And the headers that such files include: those that their statements need, so that nothing unused is written.
"""

from __future__ import annotations

import dataclasses
import importlib
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, cast

import jinja2
import torch

from longhand.emit.cpp import schedules
from longhand.emit.cpp.body import BodyPrinter
from longhand.emit.cpp.format import LINE_LENGTH
from longhand.emit.cpp.headers import CppSource, own_headers, standard_headers, vector_functions
from longhand.emit.cpp.loops import CppLoop, loop_of, product_of_sizes
from longhand.emit.cpp.operators import ROUNDED_TO, TORCH_FUNCTIONS, WRITTEN_OUT
from longhand.emit.cpp.schedule_text import SchedulePrinter
from longhand.emit.cpp.types import SIZE_TYPE, cpp_type
from longhand.emit.text.kernel_head import head_lines, shape_comment
from longhand.emit.text.places import lines_above, places_comment
from longhand.emit.text.quoting import cpp_comment
from longhand.schedule.named_plan import KernelNames, in_plain_loops
from longhand.schedule.plan import Access, KernelPlan, KernelSchedule, Pointer, Tunable

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("longhand.templates", "cpp"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,
)


def render_template(name: str, **values: Any) -> str:
    """A template of templates/cpp, filled."""
    return _ENVIRONMENT.get_template(name).render(**values)


def print_cpp_headers(kernels: Iterable[CppSource]) -> Mapping[str, str]:
    """The text of every header that a unit's kernels include, by file name, not yet through clang-format.

    Args:
        kernels: All the C++ kernels of the unit.
    """
    needs = frozenset[str]().union(*(kernel.needs for kernel in kernels))
    return {
        name: render_template(
            f"{name}.jinja",
            vector_functions=vector_functions(needs),
            written_out=needs & set(WRITTEN_OUT.values()),
            functions=needs & TORCH_FUNCTIONS,
            rounds=f"{ROUNDED_TO}{name.removesuffix('.h')}" in needs,
        )
        for name in own_headers(needs)
    }


_COMMENT_WIDTH = LINE_LENGTH - len("// ")
_INDENT = 4  # of a parameter
GRAIN = Tunable("GRAIN", 32768, "elements: with fewer, starting the threads costs more than it saves")


@dataclasses.dataclass(frozen=True)
class CppParameter:
    """``const float *x,  // (n_rows, n_cols)``, and the lines of a comment above it."""

    declaration: str
    comment: str = ""
    above: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class CppFunctionText:
    """What templates/cpp/function.cpp.jinja prints.

    Attributes:
        name: The function.
        remark: The comment above it: how threads divide the work, what sums are kept in.
        parameters: One a line.
        template: The schedule's template.
        rows: The loops over rows, outermost first.
        cols: The loops over columns.
        condition: When the work is large enough for threads.
        body: What that template needs.
    """

    name: str
    remark: tuple[str, ...]
    parameters: tuple[CppParameter, ...]
    template: str
    rows: tuple[CppLoop, ...]
    cols: tuple[CppLoop, ...]
    condition: str
    body: object


def print_cpp_kernel(plan: KernelPlan, names: KernelNames) -> CppSource:
    """The text of kernels/<name>.cpp, not yet through clang-format.

    Args:
        plan: What to print; of the schedules for the CPU.
        names: The words to use.
    """
    printer = BodyPrinter(*in_plain_loops(plan, names))
    function = render_template("function.cpp.jinja", kernel=_kernel_text(plan, names, printer))
    needs = frozenset(printer.needs)
    text = render_template(
        "kernel.cpp.jinja",
        comment=_comment(names),
        constants=printer.constants,
        headers=own_headers(needs),
        standard_headers=standard_headers(needs | {constant.type for constant in printer.constants}),
        tunables=tuple(tunable for tunable in _tunables(plan) if tunable.name in function),
        function=function,
    )
    return CppSource(text, needs)


def _comment(names: KernelNames) -> tuple[str, ...]:
    """The lines at the top of the file: what it computes, the user's statements, notes."""
    lines = head_lines(names.kernel, names.title, _COMMENT_WIDTH, cpp_comment)
    quotes = [
        line
        for quote in names.quotes
        for line in textwrap.wrap(
            "    " + cpp_comment(f"{quote.qualname}    {quote.shown}"),
            _COMMENT_WIDTH,
            subsequent_indent=" " * 8,
            drop_whitespace=True,
            break_long_words=False,
        )
    ]
    notes = [line for note in names.notes for line in textwrap.wrap(cpp_comment(note), _COMMENT_WIDTH)]
    return tuple(
        line
        for block in (lines, quotes, notes)
        if block
        for line in ((*block,) if block is lines else ("", *block))
    )


def _tunables(plan: KernelPlan) -> tuple[Tunable, ...]:
    is_set = any(tunable.name == GRAIN.name for tunable in plan.tunables)
    if is_set or not plan.axes or plan.schedule.is_over_lists:
        return plan.tunables
    return (*plan.tunables, GRAIN)


def _kernel_text(plan: KernelPlan, names: KernelNames, printer: BodyPrinter) -> CppFunctionText:
    rows = tuple(loop_of(axis, printer) for axis in printer.plan.rows)
    cols = tuple(loop_of(axis, printer) for axis in printer.plan.cols)
    text = _printer(plan.schedule)(printer.plan, printer, rows, cols)
    printer.needs |= text.needs
    return CppFunctionText(
        name=names.kernel,
        remark=tuple(textwrap.wrap(" ".join(text.remark), _COMMENT_WIDTH)),
        parameters=_parameters(plan, names, printer),
        template=text.template,
        rows=rows,
        cols=cols,
        condition=f"{product_of_sizes((*rows, *cols)).text} >= {GRAIN.name}",
        body=text.body,
    )


def _printer(schedule: KernelSchedule) -> SchedulePrinter:
    """What makes the body of a schedule's kernels: the module of that name."""
    module = importlib.import_module(f"{schedules.__name__}.{schedule.name}")
    return cast(SchedulePrinter, module.text)


def _parameters(plan: KernelPlan, names: KernelNames, printer: BodyPrinter) -> tuple[CppParameter, ...]:
    given = [pointer for pointer in plan.pointers if not pointer.scratch]
    widest = max((len(_declaration(pointer, names, printer)) for pointer in given), default=0)
    pointers = [_pointer_parameter(pointer, plan, names, printer, widest) for pointer in given]
    sizes = [CppParameter(f"{SIZE_TYPE} {names.axes[axis.name].size}") for axis in plan.axes]
    ints = [CppParameter(f"{SIZE_TYPE} {names.ints[parameter.name]}") for parameter in plan.ints]
    scalars = [
        CppParameter(f"{_scalar_type(s.dtype, printer)} {names.scalars[s.position]}") for s in plan.scalars
    ]
    if plan.schedule.is_over_lists:
        sizes = [
            CppParameter(
                f"const {printer.type_of(torch.int64)} *{names.axes[axis.name].size}", "of each tensor"
            )
            for axis in plan.axes
        ]
        sizes.append(CppParameter(f"{SIZE_TYPE} n_tensors"))
    return (*pointers, *sizes, *ints, *scalars)


def _scalar_type(dtype: torch.dtype, printer: BodyPrinter) -> str:
    """A whole number is passed as sizes are."""
    return SIZE_TYPE if dtype is torch.int64 else printer.type_of(dtype)


def _declaration(pointer: Pointer, names: KernelNames, printer: BodyPrinter) -> str:
    const = "const " if pointer.access is Access.READ else ""
    own = printer.type_of(pointer.dtype)  # it includes what declares that, for lists, too
    if pointer.many:
        return f"{const}{cpp_type(pointer.dtype)} *const *{names.lists[pointer.name]}"
    return f"{const}{own} *{names.pointers[pointer.name]}"


def _pointer_parameter(
    pointer: Pointer, plan: KernelPlan, names: KernelNames, printer: BodyPrinter, widest: int
) -> CppParameter:
    """A pointer and what is said of it, behind the `widest` declaration of the list."""
    comment = shape_comment(plan, names, pointer)
    if comment is None:
        comment = places_comment(plan, names, pointer)
    if pointer.many:
        comment = f"n_tensors x {comment}"
    if pointer.access is Access.READ_WRITE:
        comment += "; updated in place"
    is_result = pointer.access is not Access.READ
    others = [names.pointers[other] for other in pointer.may_alias if is_result]
    room = LINE_LENGTH - _INDENT - widest - len(",  // ")
    told = f"{comment}; may be {' or '.join(others)}" if others else comment
    if len(told) <= room:
        return CppParameter(_declaration(pointer, names, printer), told)
    above = lines_above(others, LINE_LENGTH - _INDENT - len("// "))
    return CppParameter(_declaration(pointer, names, printer), comment, above)
