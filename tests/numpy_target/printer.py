"""A kernel plan as loops over elements of NumPy arrays, one value a line."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping

import torch

from longhand.emit.text.reference import Reference
from longhand.lower.ir import (
    AxisSize,
    Constant,
    IndexExpression,
    Load,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Scalar,
    Store,
)
from longhand.schedule.names.unit_names import KernelNames
from longhand.schedule.plan import (
    Access,
    KernelPlan,
    ParameterRef,
    PlanAxis,
    ScalarRef,
    SizeOf,
    scalar_at,
)

_FUNCTIONS = {
    PointwiseOp.SUB: "subtract",
    PointwiseOp.MUL: "multiply",
    PointwiseOp.DIV: "divide",
    PointwiseOp.NEG: "negative",
    PointwiseOp.LT: "less",
    PointwiseOp.GE: "greater_equal",
}
_SAME_NAME = {
    PointwiseOp[name] for name in ["ADD", "EXP", "TANH", "LOG", "SQRT", "ABS", "MAXIMUM", "MINIMUM", "WHERE"]
}
_REDUCTIONS = {
    ReduceOp.SUM: ("0", "add"),
    ReduceOp.MAX: ("-np.inf", "maximum"),
    ReduceOp.MIN: ("np.inf", "minimum"),
}
_FILE = '''"""{names.kernel}: {names.title}"""

import numpy as np
import torch
import torch.nn.functional as F


def memory(tensor):
    """What a tensor lies in, from its first element on."""
    bare = tensor.detach()
    n_elements = bare.untyped_storage().nbytes() // bare.element_size() - bare.storage_offset()
    return bare.as_strided((n_elements,), (1,)).numpy()


def {names.kernel}({parameters}):
    """Fills {filled}, an element at a time."""
{body}


{reference}
'''


class NumpyLoops:
    """The language."""

    def files(self, kernel: KernelPlan, names: KernelNames, reference: Reference) -> dict[str, str]:
        """One file a kernel."""
        printer = _Printer(kernel, names)
        tensors = [names.pointers[pointer.name] for pointer in kernel.pointers]
        numbers = [names.axes[axis.name].size for axis in kernel.axes]
        numbers += [names.ints[parameter.name] for parameter in kernel.ints]
        numbers += [names.scalars[scalar.position] for scalar in kernel.scalars]
        written = [names.pointers[p.name] for p in kernel.pointers if p.access is not Access.READ]
        body = [f"{tensor}_memory = memory({tensor})" for tensor in tensors] + printer.statements()
        text = _FILE.format(
            names=names,
            parameters=", ".join([*tensors, *numbers]),
            filled=" and ".join(written),
            body=textwrap.indent("\n".join(body), "    "),
            reference=reference.source.strip(),
        )
        if "F." not in reference.source:
            text = text.replace("import torch.nn.functional as F\n", "")
        if "torch." not in reference.source:
            text = text.replace("import torch\n", "")
        return {f"kernels/{names.kernel}.py": text}

    def shared(self, files: Mapping[str, str]) -> dict[str, str]:
        """Nothing."""
        return {}


class _Printer:
    def __init__(self, plan: KernelPlan, names: KernelNames) -> None:
        self.plan, self.names = plan, names
        if plan.partials or plan.schedule.is_over_lists:
            raise NotImplementedError(f"NumPy loops of the schedule {plan.schedule.name}")
        if any(pointer.dtype is torch.bfloat16 for pointer in plan.pointers):
            raise NotImplementedError("NumPy has no bfloat16")

    def statements(self) -> list[str]:
        plan = self.plan
        if not plan.schedule.has_passes:
            return self._nested(plan.axes, [self._line(position) for position in range(len(plan.body))])
        looped, kept = (plan.rows, plan.cols) if plan.schedule.is_down_columns else (plan.cols, plan.rows)
        lines = [self._line(position) for position in plan.before]
        for one in plan.passes:
            assert not one.from_stage and not one.sums
            reduced = []
            for entry in one.reductions:
                assert isinstance(entry, int)
                reduce = plan.body[entry]
                assert isinstance(reduce, Reduce)
                if reduce.op not in _REDUCTIONS:
                    raise NotImplementedError(f"{reduce.op} in NumPy loops")
                start, function = _REDUCTIONS[reduce.op]
                lines.append(f"value_{entry} = {self._number(start, reduce.dtype)}")
                reduced.append(f"value_{entry} = np.{function}(value_{entry}, {self._value(reduce.arg)})")
            inside = [self._line(position) for position in sorted({*one.compute, *one.stores})]
            lines += self._nested(looped, [*inside, *reduced])
            lines += [self._line(position) for position in one.then]
        return self._nested(kept, lines)

    def _nested(self, axes: Iterable[PlanAxis], lines: list[str]) -> list[str]:
        for axis in reversed(list(axes)):
            words = self.names.axes[axis.name]
            lines = [f"for {words.index} in range({words.size}):", *(f"    {line}" for line in lines)]
        return [line for line in lines if line.strip()]

    def _line(self, position: int) -> str:
        value, names = self.plan.body[position], self.names
        match value:
            case Load():
                text = f"{names.pointers[value.buffer]}_memory[{self._place(position)}]"
                text = self._number(text, value.dtype)
                if value.mask is not None:
                    text = (
                        f"{text} if {self._value(value.mask)} else {self._number(value.other, value.dtype)}"
                    )
            case IndexExpression():
                text = self._number(self._place(position), value.dtype)
            case Pointwise(op=PointwiseOp.CAST):
                text = self._number(self._value(value.args[0]), value.dtype)
            case Pointwise(op=PointwiseOp.RSQRT):
                text = f"1 / np.sqrt({self._value(value.args[0])})"
            case Pointwise():
                if value.op not in _FUNCTIONS and value.op not in _SAME_NAME:
                    raise NotImplementedError(f"{value.op} in NumPy loops")
                given = ", ".join(self._value(argument) for argument in value.args)
                text = f"np.{_FUNCTIONS.get(value.op, value.op.value)}({given})"
            case Store():
                stored = f"{names.pointers[value.buffer]}_memory[{self._place(position)}] = "
                under = f"if {self._value(value.mask)}: " if value.mask is not None else ""
                return f"{under}{stored}{self._value(value.value)}"
            case _:
                return ""
        return f"value_{position} = {text}"

    def _value(self, position: int) -> str:
        value = self.plan.body[position]
        match value:
            case Constant():
                return self._number(repr(value.value).replace("inf", "np.inf"), value.dtype)
            case Scalar():
                return self._number(self.names.scalars[scalar_at(self.plan, position)], value.dtype)
            case AxisSize():
                sizes = [self.names.axes[axis].size for axis in value.axes]
                return self._number(" * ".join(sizes), value.dtype)
        return f"value_{position}"

    @staticmethod
    def _number(text: object, dtype: torch.dtype) -> str:
        return f"np.{str(dtype).removeprefix('torch.').replace('bool', 'bool_')}({text})"

    def _place(self, position: int) -> str:
        address = self.plan.addresses[position]
        terms = [[self.names.axes[axis].index, *map(self._factor, product)] for axis, product in address.axes]
        terms += [
            [f"int({self._value(value)})", *map(self._factor, product)] for value, product in address.values
        ]
        terms += [[*map(self._factor, product)] or ["1"] for product in address.offset]
        return " + ".join(" * ".join(term) for term in terms) or "0"

    def _factor(self, factor: object) -> str:
        match factor:
            case SizeOf(axis):
                return self.names.axes[axis].size
            case ParameterRef(name):
                return self.names.ints[name]
            case ScalarRef(position):
                return self.names.scalars[scalar_at(self.plan, position)]
        return f"({factor})"
