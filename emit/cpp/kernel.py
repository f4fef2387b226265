"""A kernel plan becomes the text of one C++ file: ``extern "C"`` function, OpenMP over rows, SIMD over columns."""

from __future__ import annotations

import dataclasses
import textwrap

import torch

from longhand.emit.cpp.body import BodyPrinter
from longhand.emit.cpp.columns import ColumnsPrinter, ColumnsText
from longhand.emit.cpp.format import LINE_LENGTH
from longhand.emit.cpp.headers import own_headers, standard_headers
from longhand.emit.cpp.loops import ColumnLoop, Loop, loop_of, product_of_sizes
from longhand.emit.cpp.rows import PassPrinter, PassText, RowsText, rows_text
from longhand.emit.cpp.rows_and_columns import RowsAndColumnsText, rows_and_columns_text
from longhand.emit.cpp.splits import SplitText, split_text
from longhand.emit.cpp.templates import render_template
from longhand.emit.cpp.types import SIZE_TYPE, cpp_type
from longhand.emit.names.pointer_shapes import shape_comment
from longhand.emit.names.unit_names import KernelNames
from longhand.emit.text.quoting import cpp_comment
from longhand.lower.ir import Store
from longhand.schedule.plan import Access, KernelPlan, Pass, Pointer, Style, Tunable

_COMMENT_WIDTH = LINE_LENGTH - len("// ")
GRAIN = Tunable("GRAIN", 32768, "elements: with fewer, starting the threads costs more than it saves")


@dataclasses.dataclass(frozen=True)
class Parameter:
    """``const float *x,  // (n_rows, n_cols)``"""

    declaration: str
    comment: str = ""


StyleText = RowsText | SplitText | ColumnsText | RowsAndColumnsText


@dataclasses.dataclass(frozen=True)
class KernelText:
    """What templates/cpp/function.cpp.jinja prints.

    Attributes:
        name: The function.
        remark: The comment above it: how threads divide the work, what sums are kept in.
        parameters: One a line.
        template: The style's template.
        rows: The loops over rows, outermost first.
        cols: The loops over columns.
        condition: When the work is large enough for threads.
        body: What the style's template needs.
    """

    name: str
    remark: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    template: str
    rows: tuple[Loop, ...]
    cols: tuple[Loop, ...]
    condition: str
    body: StyleText


def print_cpp_kernel(plan: KernelPlan, names: KernelNames) -> str:
    """The text of kernels/<name>.cpp, not yet through clang-format.

    Args:
        plan: What to print; of the styles for the CPU.
        names: The words to use.
    """
    printer = BodyPrinter(plan, names)
    function = render_template("function.cpp.jinja", kernel=_kernel_text(plan, names, printer))
    return render_template(
        "kernel.cpp.jinja",
        comment=_comment(names),
        constants=printer.constants,
        headers=own_headers(function),
        standard_headers=standard_headers(
            function + " ".join(constant.type for constant in printer.constants)
        ),
        tunables=tuple(tunable for tunable in _tunables(plan) if tunable.name in function),
        function=function,
    )


def _comment(names: KernelNames) -> tuple[str, ...]:
    """The lines at the top of the file: what it computes, the user's statements, notes."""
    lines = textwrap.wrap(cpp_comment(f"{names.kernel}: {names.title}"), _COMMENT_WIDTH)
    quotes = [
        line
        for quote in names.quotes
        for line in textwrap.wrap(
            "    " + cpp_comment(f"{quote.qualname}    {quote.statement}"),
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
    if is_set or not plan.axes or plan.style is Style.FOREACH:
        return plan.tunables
    return (*plan.tunables, GRAIN)


def _kernel_text(plan: KernelPlan, names: KernelNames, printer: BodyPrinter) -> KernelText:
    rows = tuple(loop_of(axis, printer) for axis in plan.rows)
    cols = tuple(loop_of(axis, printer) for axis in plan.cols)
    template, remark, body = _styled(plan, printer, rows, cols)
    return KernelText(
        name=names.kernel,
        remark=tuple(textwrap.wrap(" ".join(_with_sums(remark, plan, body)), _COMMENT_WIDTH)),
        parameters=_parameters(plan, names),
        template=template,
        rows=rows,
        cols=cols,
        condition=f"{product_of_sizes((*rows, *cols)).text} >= {GRAIN.name}",
        body=body,
    )


def _styled(
    plan: KernelPlan, printer: BodyPrinter, rows: tuple[Loop, ...], cols: tuple[Loop, ...]
) -> tuple[str, tuple[str, ...], StyleText]:
    """The template of a style, the words about how threads divide the work, and what the template prints."""
    if plan.style is Style.COLUMNS:
        columns = ColumnsPrinter(printer).text()
        if plan.partials:
            return "columns_split.cpp.jinja", ("One thread per chunk of rows and block of columns.",), columns
        return "columns.cpp.jinja", ("One thread per block of columns; it walks down the rows.",), columns
    passes = PassPrinter(_passes(plan), printer)
    if plan.style is Style.FOREACH:
        remark = (
            "Threads share out chunks of all tensors." if cols else "One thread: each tensor is one element."
        )
        return "foreach.cpp.jinja", (remark,), _lists_text(passes, printer)
    if plan.style is Style.ROWS_SPLIT:
        return "split.cpp.jinja", ("One thread per chunk of a row.",), split_text(passes, rows)
    if plan.style is Style.ROWS_AND_COLUMNS:
        remark = _rows_remark(plan, printer.names, "One thread per chunk of rows")
        return "rows_and_columns.cpp.jinja", (remark,), rows_and_columns_text(passes, rows)
    text = rows_text(passes, bool(rows))
    if plan.style is Style.TRANSPOSED:
        return "tiles.cpp.jinja", ("One thread per tile.",), text
    if plan.style is Style.ELEMENTWISE and not rows:
        remark = (
            "Threads divide the elements; each works through SIMD lanes." if cols else "A single element."
        )
        return "flat.cpp.jinja", (remark,), text
    remark = "One thread per block of rows" if rows else "One thread: there is a single row."
    return "rows.cpp.jinja", (_rows_remark(plan, printer.names, remark) if rows else remark,), text


def _with_sums(remark: tuple[str, ...], plan: KernelPlan, body: StyleText) -> tuple[str, ...]:
    """The words about threads, and where sums of floats are kept in double."""
    if any(pointer.dtype is torch.float64 for pointer in plan.pointers):
        return remark
    loops: tuple[ColumnLoop, ...] = body.loops if isinstance(body, SplitText) else ()
    row = body.row if isinstance(body, RowsAndColumnsText) else body
    if isinstance(row, RowsText):
        loops = tuple(loop for one_pass in row.passes for loop in one_pass.loops)
    in_double = any(accumulator.type == "double" for loop in loops for accumulator in loop.accumulators)
    chunks = () if isinstance(body, RowsText) else body.partials
    chunks_in_double = any(partial.combined_type == "double" for partial in chunks)
    if in_double and not isinstance(body, RowsAndColumnsText):
        return (*remark, "Sums in double.")
    found: tuple[str, ...] = ("Sums of rows in double.",) if in_double else ()
    found += ("The chunks' sums are added up in double.",) if chunks_in_double else ()
    return (*remark, *found)


def _lists_text(passes: PassPrinter, printer: BodyPrinter) -> RowsText:
    """One group's tensors, what is known of them ahead of the loop over elements, and that loop."""
    tensors = []
    for pointer in printer.plan.pointers:
        if pointer.many:
            const = "const " if pointer.access is Access.READ else ""
            word, words = printer.names.pointers[pointer.name], printer.names.lists[pointer.name]
            tensors.append(f"{const}{cpp_type(pointer.dtype)} *{word} = {words}[tensor];")
    text = PassText(passes.column_loops(0), passes.outer_lines(0))
    return RowsText((), tuple(tensors), passes.outer_lines(-1), (), (text,))


def _rows_remark(plan: KernelPlan, names: KernelNames, who: str) -> str:
    """Who does what, and where values wait between the loops over a row."""
    if len(plan.passes) > 1:
        waiting: dict[str, list[str]] = {}  # by the result whose memory they are in
        for stage in (stage for one_pass in plan.passes for stage in one_pass.stages):
            store = plan.body[stage.store] if stage.store is not None else None
            if isinstance(store, Store) and store.value != stage.position and stage.position in names.values:
                waiting.setdefault(names.pointers[store.buffer], []).append(names.values[stage.position])
        kept = [f"{', then '.join(values)} in {word}" for word, values in waiting.items()]
        where = f" ({'; '.join(kept)})" if kept else ""
        return f"{who}; a row stays in cache between the loops{where}."
    return f"{who}."


def _passes(plan: KernelPlan) -> tuple[Pass, ...]:
    """The plan's passes; a kernel without reductions is one pass that stores."""
    if plan.passes:
        return plan.passes
    stores = tuple(position for position, value in enumerate(plan.body) if isinstance(value, Store))
    return (Pass(tuple(range(len(plan.body))), stores=stores),)


def _parameters(plan: KernelPlan, names: KernelNames) -> tuple[Parameter, ...]:
    pointers = [_pointer_parameter(pointer, plan, names) for pointer in plan.pointers if not pointer.scratch]
    sizes = [Parameter(f"{SIZE_TYPE} {names.axes[axis.name].size}") for axis in plan.axes]
    ints = [Parameter(f"{SIZE_TYPE} {names.ints[parameter.name]}") for parameter in plan.ints]
    scalars = [Parameter(f"{_scalar_type(s.dtype)} {names.scalars[s.position]}") for s in plan.scalars]
    if plan.style is Style.FOREACH:
        sizes = [
            Parameter(f"const int64_t *{names.axes[axis.name].size}", "of each tensor") for axis in plan.axes
        ]
        sizes.append(Parameter(f"{SIZE_TYPE} n_tensors"))
    return (*pointers, *sizes, *ints, *scalars)


def _scalar_type(dtype: torch.dtype) -> str:
    """A whole number is passed as sizes are."""
    return SIZE_TYPE if dtype is torch.int64 else cpp_type(dtype)


def _pointer_parameter(pointer: Pointer, plan: KernelPlan, names: KernelNames) -> Parameter:
    const = "const " if pointer.access is Access.READ else ""
    declaration = f"{const}{cpp_type(pointer.dtype)} *{names.pointers[pointer.name]}"
    if pointer.many:
        declaration = f"{const}{cpp_type(pointer.dtype)} *const *{names.lists[pointer.name]}"
    comment = shape_comment(plan, names, pointer)
    if comment is None:
        comment = "read at computed places" if pointer.access is Access.READ else "written at computed places"
    if pointer.many:
        comment = f"n_tensors x {comment}"
    if pointer.access is Access.READ_WRITE:
        comment += "; updated in place"
    others = [names.pointers[other] for other in pointer.may_alias]
    if others and pointer.access is not Access.READ:
        comment += f"; may be {' or '.join(others)}"
    return Parameter(declaration, comment)
