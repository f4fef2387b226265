"""A kernel plan becomes the text of a Triton kernel file.

The shape of the file stands in templates/triton/: `kernel.py.jinja` is the frame, and each kernel schedule has a
template with the body of its functions and of the host function that launches them. What is computed, and under which
names, comes from block.py (statements) and the schedule's module in schedules/ (functions). Template and module are
found by the schedule's name. Statements carry the names that they use, and templates keep them together: so a kernel
has the parameters, and its file the imports, that they ask for and no others.
"""

from __future__ import annotations

import dataclasses
import importlib
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import jinja2
from jinja2.compiler import Frame
from jinja2.nativetypes import NativeCodeGenerator

from longhand.emit.text.expression import Text, compose, joined, literal_text, outside, scale_text, word
from longhand.emit.text.kernel_head import head_lines, is_whole_shape, shape_comment
from longhand.emit.text.places import lines_above, places_comment
from longhand.emit.text.quoting import python_docstring
from longhand.emit.text.reference import Reference
from longhand.emit.triton import schedules
from longhand.emit.triton.functions import (
    N_SPLITS,
    Binding,
    FunctionRole,
    FunctionText,
    KernelText,
    constexpr_sizes,
    lists,
    needed,
    table_arguments,
    table_parameters,
)
from longhand.emit.triton.operators import DEVICE_FUNCTIONS, calls_libdevice
from longhand.emit.triton.scope import FileScope, dtype_word, is_narrow
from longhand.lower.ir import Constant, Pointwise, Reduce, ReduceOp, Store
from longhand.schedule.named_plan import KernelNames, as_printed, least_of, pointer_word, why_so
from longhand.schedule.names.words import listed
from longhand.schedule.plan import Access, KernelPlan, KernelSchedule, Pointer, Tunable

_WIDTH = 110
_INDENT = 4  # of a docstring

_OF_RUNTIME = frozenset({"ceil_div", "next_power_of_2", "tensor_table"})


class _KeepingTexts(NativeCodeGenerator):
    """Compiles templates so that texts which are put into one keep what they name and need."""

    def visit_Concat(self, node: jinja2.nodes.Concat, frame: Frame) -> None:
        """``one ~ other``, of which Jinja itself would make a str."""
        self.write("concat((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class _Environment(jinja2.Environment):
    """Templates whose macros make texts of texts. What they name themselves and is not theirs stands in braces, too."""

    code_generator_class = _KeepingTexts

    @staticmethod
    def concat(parts: Iterable[object]) -> Text:  # type: ignore[override]
        """The parts of a template in a row."""
        return joined(part if isinstance(part, Text) else str(part) for part in parts)


_ENVIRONMENT = _Environment(
    loader=jinja2.PackageLoader("longhand.templates", ""),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.globals |= {N_SPLITS.text: N_SPLITS, **{name: outside(name) for name in _OF_RUNTIME}}


@dataclasses.dataclass(frozen=True)
class KernelParameter:
    """One line of a kernel's parameter list.

    Attributes:
        word: Its name.
        comment: Behind it.
        above: Lines of a comment above it.
        argument: What the host function passes; empty: a variable of the same name.
        is_constant: Whether the kernel is compiled for its value.
    """

    word: str
    comment: str = ""
    above: tuple[str, ...] = ()
    argument: str = ""
    is_constant: bool = False

    @property
    def text(self) -> str:
        """As it stands in the list."""
        return f"{self.word}: tl.constexpr" if self.is_constant else self.word

    @property
    def given(self) -> Text:
        """What the host function passes."""
        return word(self.argument or self.word)


@dataclasses.dataclass(frozen=True)
class JitFunction:
    """One @triton.jit function as the template prints it."""

    name: str
    parameters: tuple[KernelParameter, ...]
    doc: str
    body: Text


@dataclasses.dataclass(frozen=True)
class File:
    """A kernel file as the template prints it."""

    kernel: str
    head: tuple[str, ...]
    is_large: bool
    needs_torch: bool
    needs_functional: bool
    runtime: tuple[str, ...]
    constants: tuple[str, ...]
    tunables: tuple[Tunable, ...]
    functions: tuple[str, ...]
    kernels: tuple[JitFunction, ...]
    arguments: tuple[str, ...]
    does: str
    host: str
    reference: str


def print_triton_kernel(plan: KernelPlan, names: KernelNames, reference: Reference) -> str:
    """The text of ``kernels/NAME.py``.

    Args:
        plan: The kernel.
        names: Its words.
        reference: What closes the file.
    """
    template = _ENVIRONMENT.get_template(f"triton/{plan.schedule.printer}.jinja").module
    printed, words = as_printed(plan, names)
    scope = FileScope(printed, words)
    text = _printer(plan.schedule)(printed, words, scope)
    kernels = tuple(_kernel(plan, names, function, template) for function in text.functions)
    host = _host(plan, names, text.functions, kernels, template)
    needs = host.needs.union(*(kernel.body.needs for kernel in kernels))
    file = File(
        kernel=names.kernel,
        head=_head(names),
        is_large=plan.widths.large,
        needs_torch=reference.uses_torch or any(pointer.scratch for pointer in plan.pointers),
        needs_functional=reference.uses_functional,
        runtime=_runtime_names(needs),
        constants=(*text.constants, *_constant_lines(printed, scope)),
        tunables=plan.tunables,
        functions=tuple(name for name in DEVICE_FUNCTIONS if name in needs),
        kernels=kernels,
        arguments=_arguments(plan, names),
        does=_does(plan, names),
        host=host.text,
        reference=reference.source,
    )
    whole = cast(Text, _ENVIRONMENT.get_template("triton/kernel.py.jinja").render(file=file))
    return "\n".join(line.rstrip(" \t") for line in whole.text.split("\n"))


def _printer(schedule: KernelSchedule) -> Callable[[KernelPlan, KernelNames, FileScope], KernelText]:
    """What makes the functions of a schedule's kernels: the module of that name."""
    module = importlib.import_module(f"{schedules.__name__}.{schedule.printer}")
    return cast(Callable[[KernelPlan, KernelNames, FileScope], KernelText], module.functions)


def _runtime_names(needs: frozenset[str]) -> tuple[str, ...]:
    """What the file imports from the unit's runtime.py, in order."""
    # libdevice comes from there too: Triton's interpreter has none.
    return tuple(sorted({"fast_launch", *(_OF_RUNTIME & needs), *["libdevice"] * calls_libdevice(needs)}))


def _constant_lines(plan: KernelPlan, scope: FileScope) -> tuple[str, ...]:
    """Whole numbers of the math, under names, and fractions that nobody would write out."""
    values = {constant.name: plan.body[position] for position, constant in scope.constants.items()}
    lines: list[str] = []
    for name, value in values.items():
        if isinstance(value, Constant):
            literal = scale_text(name, value.value) or literal_text(value.value)
            number = literal if value.dtype.is_floating_point else int(value.value)
            least = least_of(value)
            remark = f"  # of {str(least).removeprefix('torch.')}" if least is not None else ""
            lines.append(f"{name} = tl.constexpr({number}){remark}")
    return tuple(lines)


def _head(names: KernelNames) -> tuple[str, ...]:
    """The lines of the file's docstring: what it computes, the user's statements, notes."""
    title = head_lines(names.kernel, names.title, _WIDTH - len('"""'), python_docstring)
    quotes = [
        line
        for quote in names.quotes
        for line in textwrap.wrap(
            "    " + python_docstring(f"{quote.qualname}    {quote.shown}".lstrip()),
            _WIDTH,
            subsequent_indent=" " * 8,
            break_long_words=False,
        )
    ]
    notes = [line for note in names.notes for line in textwrap.wrap(python_docstring(note), _WIDTH)]
    return (*title, *([""] if quotes else []), *quotes, *([""] if notes else []), *notes)


def _kernel(plan: KernelPlan, names: KernelNames, function: FunctionText, template: Any) -> JitFunction:
    lines = [line for side in function.sides for line in side.kernel_lines]
    body = _with_sizes(lines, getattr(template, function.macro)(function.context))
    parameters = _parameters(plan, names, function, body.names)
    does = f"{function.does}{_precision(plan)}."
    why = why_so(plan) if function.role is not FunctionRole.COMBINE else ""
    if why:
        reason = textwrap.indent("\n".join(textwrap.wrap(why, _WIDTH - _INDENT)), " " * _INDENT)
        does = f"{does}\n\n{reason}\n{' ' * _INDENT}"
    word = "_".join(filter(None, (names.kernel, function.role.value, "kernel")))
    return JitFunction(word, parameters, does, body)


def _host(
    plan: KernelPlan,
    names: KernelNames,
    functions: tuple[FunctionText, ...],
    kernels: tuple[JitFunction, ...],
    template: Any,
) -> Text:
    calls = {
        "_".join(filter(None, ("call", function.role.value))): _launch_call(
            kernel, plan, names, has_warps=number == 0
        )
        for number, (function, kernel) in enumerate(zip(functions, kernels, strict=True))
    }
    lines = [line for side in functions[0].sides for line in side.size_lines]
    return _with_sizes(lines, template.host({**functions[0].context, **calls}))


def _with_sizes(lines: Sequence[Binding], text: Text) -> Text:
    """The text below those lines, of products of sizes, that it needs."""
    text = dataclasses.replace(text, text=text.text.strip("\n"))
    return joined([*needed(lines, [text]), text], "\n")


def _parameters(
    plan: KernelPlan, names: KernelNames, function: FunctionText, named: frozenset[str]
) -> tuple[KernelParameter, ...]:
    """Pointers, sizes and strides, scalars, constexprs: those that the body names."""
    parameters = [
        KernelParameter(pointer_word(names.lists[pointer.name]), _list_comment(pointer, names))
        for pointer in lists(plan)
    ]
    if plan.schedule.is_over_lists:
        parameters += [KernelParameter(name, comment) for name, comment in table_parameters(plan, names)]
    # What a function reads comes first; chunks' results are read by the function that combines them.
    is_combining = function.macro == "combine"
    pointers = (
        sorted(plan.pointers, key=lambda pointer: not pointer.scratch) if is_combining else plan.pointers
    )
    parameters += [
        KernelParameter(
            pointer_word(names.pointers[pointer.name]),
            *_pointer_comments(pointer, plan, names),
            names.pointers[pointer.name],
        )
        for pointer in pointers
        if not pointer.many and pointer_word(names.pointers[pointer.name]) in named
    ]
    constant = constexpr_sizes(plan, names)
    for axis in plan.axes:
        size = names.axes[axis.name].size
        if not plan.schedule.is_over_lists and size in named:
            parameters.append(KernelParameter(size, is_constant=size in constant))
    if N_SPLITS.text in named:
        parameters.append(KernelParameter(N_SPLITS.text))
    for argument in plan.ints:
        if names.ints[argument.name] in named:
            parameters.append(KernelParameter(names.ints[argument.name]))
    # A float is a constant of the compiled kernel: float32 where it meets float32, and free.
    for scalar in sorted(plan.scalars, key=lambda scalar: scalar.dtype.is_floating_point):
        word = names.scalars[scalar.position]
        if word not in named:
            continue
        is_constant = scalar.dtype.is_floating_point and not scalar.varies
        parameters.append(KernelParameter(word, is_constant=is_constant))
    parameters += [KernelParameter(name, comment, is_constant=True) for name, comment in function.constants]
    return tuple(parameters)


def _pointer_comments(pointer: Pointer, plan: KernelPlan, names: KernelNames) -> tuple[str, tuple[str, ...]]:
    """The comment behind a pointer, and the lines above it."""
    words = dtype_word(pointer.dtype)
    if pointer.scratch:
        return f"{words}, a result of each chunk", ()
    shape = shape_comment(plan, names, pointer)
    if shape is None:
        words += f", {places_comment(plan, names, pointer)}"
    else:
        words += f" {shape}" if is_whole_shape(plan, names, pointer) else f", {shape}"
    is_result = pointer.access is not Access.READ
    aliases = [pointer_word(names.pointers[alias]) for alias in pointer.may_alias if is_result]
    room = _WIDTH - _INDENT - len(f"{pointer_word(names.pointers[pointer.name])},  # ")
    told = f"{words}; may be {' or '.join(aliases)}" if aliases else words
    if len(told) <= room:
        return told, ()
    return words, lines_above(aliases, _WIDTH - _INDENT - len("# "))


def _list_comment(pointer: Pointer, names: KernelNames) -> str:
    """What the addresses of a list are those of."""
    sizes = ", ".join(names.axes[axis].size for axis in pointer.dims or ())
    return f"int64 (n_tensors,): addresses of {dtype_word(pointer.dtype)} {f'({sizes},)' if sizes else 'elements'}"


def _arguments(plan: KernelPlan, names: KernelNames) -> tuple[str, ...]:
    """The host function's parameters: tensors, then sizes, strides and scalars. Lists tell their own sizes."""
    tensors = [
        (names.lists if pointer.many else names.pointers)[pointer.name]
        for pointer in plan.pointers
        if not pointer.scratch
    ]
    sizes = [names.axes[axis.name].size for axis in plan.axes if not plan.schedule.is_over_lists]
    ints = [names.ints[argument.name] for argument in plan.ints]
    scalars = [names.scalars[scalar.position] for scalar in plan.scalars]
    return (*tensors, *sizes, *ints, *scalars)


def _does(plan: KernelPlan, names: KernelNames) -> str:
    words = {**names.pointers, **names.lists}
    filled = [words[p.name] for p in plan.pointers if p.access is Access.WRITE and not p.scratch]
    added = {value.buffer for value in plan.body if isinstance(value, Store) and value.adds}
    both = [p for p in plan.pointers if p.access is Access.READ_WRITE and not p.scratch]
    updated = [words[p.name] for p in both if p.name not in added]
    parts = [f"fill {listed(filled)}"] if filled else []
    parts += [f"update {listed(updated)} in place"] if updated else []
    parts += [f"add to {listed([words[p.name] for p in both if p.name in added])}"] if added else []
    sentence = " and ".join(parts)
    return "\n    ".join(textwrap.wrap(f"{sentence[:1].upper()}{sentence[1:]}.", _WIDTH - len('    """"""')))


def _precision(plan: KernelPlan) -> str:
    """``; sums in float32``: what sums of floats are kept in; where tensors are narrower, all arithmetic."""
    sums = [
        dtype_word(value.dtype)
        for value in plan.body
        if isinstance(value, Reduce) and value.op is ReduceOp.SUM and value.dtype.is_floating_point
    ]
    computes = any(
        isinstance(value, Pointwise | Reduce)
        and value.dtype.is_floating_point
        and position not in plan.numerics.copied
        for position, value in enumerate(plan.body)
    )
    if computes and any(is_narrow(pointer.dtype) for pointer in plan.pointers):
        return "; arithmetic in float32"
    return f"; sums in {listed(dict.fromkeys(sums))}" if sums else ""


def _launch_call(
    kernel: JitFunction, plan: KernelPlan, names: KernelNames, has_warps: bool
) -> Callable[[Text, Mapping[str, Text | str]], Text]:
    """Writes the statement that launches: run-time arguments in order, then what the host function chose by name."""
    tunables = {tunable.name for tunable in plan.tunables}

    def call(grid: Text, constants: Mapping[str, Text | str]) -> Text:
        words = [parameter.word for parameter in kernel.parameters]
        named = len(lists(plan)) + len(table_parameters(plan, names)) if plan.schedule.is_over_lists else 0
        arguments: list[Text | str] = [*table_arguments(plan)] if named else []
        arguments += [one.given for one in kernel.parameters[named:] if one.word not in constants]
        chosen = {*words, "num_warps"} if has_warps else words
        arguments += [
            compose("{}={}", constant, value) for constant, value in constants.items() if constant in chosen
        ]
        options = ("num_warps", "num_stages") if has_warps else ()
        arguments += [f"{option}={option.upper()}" for option in options if option.upper() in tunables]
        lines = joined(compose("    {},\n", argument) for argument in arguments)
        return compose("{}[{}](\n{})", kernel.name, grid, lines)

    return call
