"""A program as text, for people: LONGHAND_DUMP writes it between the captured graph and the plan."""

from __future__ import annotations

from typing import Any

from longhand.capture.graph import Literal
from longhand.lower.body import (
    AxisSize,
    Constant,
    Index,
    IndexExpression,
    Load,
    Pointwise,
    Reduce,
    Scalar,
    Size,
    Store,
    Value,
)
from longhand.lower.ir import Buffer, Contraction, Extern, Nest, Program, Step, View


def print_program(program: Program) -> str:
    """Buffers, then steps, then results."""
    lines = [f"# {program.graph.source}", ""]
    lines += [_buffer(buffer) for buffer in program.buffers.values()]
    for step in program.steps:
        lines += ["", *_step(step)]
    lines += ["", f"return {', '.join(_argument(result) for result in program.results)}"]
    return "\n".join(lines) + "\n"


def _step(step: Step) -> list[str]:
    match step:
        case Nest():
            return print_nest(step)
        case Extern():
            return _extern(step)
        case Contraction():
            parts = [line for part in step.steps for line in _step(part)]
            return [*parts, "# which is", *(f"#   {line}" for line in print_nest(step.loops))]


def print_nest(nest: Nest) -> list[str]:
    """A nest, one value a line: its number or name, what it is, where it comes from."""
    lines = [f"for {', '.join(f'{axis.name} in {axis.size}' for axis in nest.axes) or '()'}:"]
    words: list[str] = []
    for position, value in enumerate(nest.body):
        word = value.name or f"v{position}"
        words.append(f"{word}.{position}" if word in words else word)
        text = _value(value, words)
        left = "" if isinstance(value, Store) else f"{words[-1]}: {_dtype(value.dtype)} = "
        lines.append(f"    {left}{text}" + (f"    # {value.origin}" if value.origin else ""))
    return lines


def _value(value: Value, words: list[str]) -> str:
    match value:
        case Load():
            condition = "" if value.mask is None else f" if {words[value.mask]} else {value.other}"
            return f"{value.buffer}[{_index(value.index, words)}]{condition}"
        case Store():
            condition = "" if value.mask is None else f" if {words[value.mask]}"
            sign = "+=" if value.adds else "="
            return f"{value.buffer}[{_index(value.index, words)}] {sign} {words[value.value]}{condition}"
        case Constant():
            return repr(value.value)
        case Scalar():
            return f"scalar({value.value})"
        case IndexExpression():
            return f"({_index(value.index, words)})"
        case AxisSize():
            return f"count({', '.join(value.axes)})"
        case Pointwise():
            narrow = "" if value.narrow is None else f", {_dtype(value.narrow)}"
            return f"{value.op.value}({', '.join(words[arg] for arg in value.args)}{narrow})"
        case Reduce():
            return f"{value.op.value}({words[value.arg]} over {', '.join(value.axes)})"


def _index(index: Index, words: list[str]) -> str:
    terms = [_term(axis, step) for axis, step in index.axes]
    terms += [_term(words[position], step) for position, step in index.values]
    if index.offset != 0 or not terms:
        terms.append(str(index.offset))
    return " + ".join(terms)


def _term(word: str, step: Size) -> str:
    return word if step == 1 else f"{word} * {step}" if isinstance(step, int) else f"{word} * ({step})"


def _buffer(buffer: Buffer) -> str:
    layout = f"strides {buffer.stride}" if buffer.layout_is_known else "any layout"
    return f"{buffer.name}: {_dtype(buffer.dtype)}{list(buffer.shape)} {layout}, {buffer.kind.value}"


def _extern(step: Extern) -> list[str]:
    args = [_argument(arg) for arg in step.args] + [f"{name}={_argument(arg)}" for name, arg in step.kwargs]
    made = ", ".join(name or "_" for name in step.outputs)
    lines = [f"# {step.reason}"] if step.reason else []
    if step.memory_format is not None:
        lines.append(f"# brought to {step.memory_format}")
    return [
        *lines,
        f"{made} = {step.target}({', '.join(args)})" if made else f"{step.target}({', '.join(args)})",
    ]


def _argument(value: Any) -> str:
    if isinstance(value, View):
        calls = "".join(
            f".{call.target._schema.name.removeprefix('aten::')}({', '.join(map(str, call.args))})"
            for call in value.calls
        )
        return value.buffer + calls
    if isinstance(value, tuple):
        return f"({', '.join(_argument(item) for item in value)})"
    return repr(value.value) if isinstance(value, Literal) else str(value)


def _dtype(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
