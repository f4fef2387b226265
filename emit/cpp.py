"""A kernel plan becomes the text of one C++ file: ``extern "C"`` function, OpenMP over rows, SIMD over columns."""

from __future__ import annotations

import dataclasses

from longhand.emit.cpp_body import BodyPrinter
from longhand.emit.cpp_headers import own_headers, standard_headers
from longhand.emit.cpp_loops import ColumnLoop, Loop, PassPrinter, Scratch, loop_of
from longhand.emit.cpp_templates import render_template
from longhand.emit.cpp_types import SIZE_TYPE, cpp_type
from longhand.emit.names import KernelNames
from longhand.lower.ir import Store
from longhand.schedule.plan import Access, KernelPlan, Pass, Pointer, Style, Tunable

GRAIN = Tunable("GRAIN", 32768, "elements: with fewer, starting the threads costs more than it saves")


@dataclasses.dataclass(frozen=True)
class Parameter:
    """``const float *x,  // (n_rows, n_cols)``"""

    declaration: str
    comment: str = ""


@dataclasses.dataclass(frozen=True)
class PassText:
    """The loops of one pass and the lines after them."""

    loops: tuple[ColumnLoop, ...]
    then: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class KernelText:
    """What templates/cpp/function.cpp.jinja prints.

    Attributes:
        name: The function.
        remark: The comment above the function: how threads divide the work.
        parameters: One a line.
        template: The style's template.
        rows: The loops that threads divide, outermost first.
        cols: The loops over a row's elements.
        condition: When the work is large enough for threads.
        row_pointers: Declarations of base pointers.
        before: Lines ahead of all loops.
        before_row: Lines at the start of a row.
        scratch: Row-sized arrays of each thread.
        passes: The loops over columns.
    """

    name: str
    remark: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    template: str
    rows: tuple[Loop, ...]
    cols: tuple[Loop, ...]
    condition: str
    row_pointers: tuple[str, ...]
    before: tuple[str, ...]
    before_row: tuple[str, ...]
    scratch: tuple[Scratch, ...]
    passes: tuple[PassText, ...]


def print_cpp_kernel(plan: KernelPlan, names: KernelNames) -> str:
    """The text of kernels/<name>.cpp, not yet through clang-format.

    Args:
        plan: What to print; of the styles for the CPU.
        names: The words to use.
    """
    printer = BodyPrinter(plan, names)
    passes = PassPrinter(_passes(plan), printer)
    rows, cols = _loops(plan, printer)
    function = render_template(
        "function.cpp.jinja", kernel=_kernel_text(plan, names, printer, passes, rows, cols)
    )
    return render_template(
        "kernel.cpp.jinja",
        names=names,
        headers=own_headers(function),
        standard_headers=standard_headers(function),
        tunables=_tunables(plan),
        function=function,
    )


def _tunables(plan: KernelPlan) -> tuple[Tunable, ...]:
    if any(tunable.name == GRAIN.name for tunable in plan.tunables):
        return plan.tunables
    return (*plan.tunables, GRAIN)


def _kernel_text(
    plan: KernelPlan,
    names: KernelNames,
    printer: BodyPrinter,
    passes: PassPrinter,
    rows: tuple[Loop, ...],
    cols: tuple[Loop, ...],
) -> KernelText:
    texts = tuple(
        PassText(passes.column_loops(number), passes.fixed_lines(number))
        for number in range(len(passes.passes))
    )
    template, remark = _style(plan, rows, tuple(passes.scratch.values()))
    before = passes.fixed_lines(-1)
    return KernelText(
        name=names.kernel,
        remark=remark,
        parameters=_parameters(plan, names),
        template=template,
        rows=rows,
        cols=cols,
        condition=f"{' * '.join(loop.size for loop in (*rows, *cols))} >= {GRAIN.name}",
        row_pointers=tuple(printer.pointer_declaration(pointer) for pointer in printer.row_pointers),
        before=() if rows else before,
        before_row=before if rows else (),
        scratch=tuple(passes.scratch.values()),
        passes=texts,
    )


def _passes(plan: KernelPlan) -> tuple[Pass, ...]:
    """The plan's passes; a kernel without reductions is one pass that stores."""
    if plan.passes:
        return plan.passes
    stores = tuple(position for position, value in enumerate(plan.body) if isinstance(value, Store))
    return (Pass(tuple(range(len(plan.body))), stores=stores),)


def _loops(plan: KernelPlan, printer: BodyPrinter) -> tuple[tuple[Loop, ...], tuple[Loop, ...]]:
    rows = tuple(loop_of(axis, printer) for axis in plan.rows)
    cols = tuple(loop_of(axis, printer) for axis in plan.cols)
    if not rows and plan.style is Style.ELEMENTWISE:
        return cols[:-1], cols[-1:]
    return rows, cols


def _style(
    plan: KernelPlan, rows: tuple[Loop, ...], scratch: tuple[Scratch, ...]
) -> tuple[str, tuple[str, ...]]:
    """The template of a style and the words about how threads divide the work."""
    if not rows and plan.style is Style.ELEMENTWISE:
        return "flat.cpp.jinja", ("Threads divide the elements; each works through SIMD lanes.",)
    if not rows:
        return "rows.cpp.jinja", ("One thread: there is one row only.",)
    kept = any(stage.store is not None for one_pass in plan.passes for stage in one_pass.stages)
    if len(plan.passes) > 1 or kept or scratch:
        return "rows.cpp.jinja", ("One thread per block of rows; a row stays in cache between the loops.",)
    return "rows.cpp.jinja", ("One thread per block of rows.",)


def _parameters(plan: KernelPlan, names: KernelNames) -> tuple[Parameter, ...]:
    pointers = [_pointer_parameter(pointer, plan, names) for pointer in plan.pointers if not pointer.scratch]
    sizes = [Parameter(f"{SIZE_TYPE} {names.axes[axis.name].size}") for axis in plan.axes]
    ints = [Parameter(f"{SIZE_TYPE} {names.ints[parameter.name]}") for parameter in plan.ints]
    scalars = [Parameter(f"{cpp_type(s.dtype)} {names.scalars[s.position]}") for s in plan.scalars]
    return (*pointers, *sizes, *ints, *scalars)


def _pointer_parameter(pointer: Pointer, plan: KernelPlan, names: KernelNames) -> Parameter:
    const = "const " if pointer.access is Access.READ else ""
    declaration = f"{const}{cpp_type(pointer.dtype)} *{names.pointers[pointer.name]}"
    if pointer.dims is None:
        comment = "read at computed places" if pointer.access is Access.READ else "written at computed places"
    elif not pointer.dims:
        comment = "one element"
    else:
        sizes = [names.axes[dim].size for dim in pointer.dims]
        comment = f"({', '.join(sizes)})" if len(sizes) > 1 else f"({sizes[0]},)"
    if pointer.access is Access.READ_WRITE:
        comment += "; updated in place"
    others = [names.pointers[other] for other in pointer.may_alias]
    if others and pointer.access is not Access.READ:
        comment += f"; may be {' or '.join(others)}"
    return Parameter(declaration, comment)
