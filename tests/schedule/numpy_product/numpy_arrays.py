"""A language, as a toy: NumPy over whole arrays. It prints contractions alone; importing this registers it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from longhand.emit.text.reference import Reference
from longhand.lower.ir import (
    Constant,
    IndexExpression,
    Load,
    Pointwise,
    PointwiseOp,
    Reduce,
    Scalar,
    Store,
    Value,
)
from longhand.options import Device
from longhand.schedule.names.unit_names import KernelNames
from longhand.schedule.plan import KernelPlan, ParameterRef, SizeOf, scalar_at
from longhand.schedule.targets import TargetFacts
from longhand.targets import register

_FUNCTIONS = {
    PointwiseOp.ADD: "add",
    PointwiseOp.MUL: "multiply",
    PointwiseOp.TANH: "tanh",
    PointwiseOp.MAXIMUM: "maximum",
    PointwiseOp.GE: "greater_equal",
    PointwiseOp.LT: "less",
    PointwiseOp.LOGICAL_AND: "logical_and",
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
    """Sums of products, and what is made of them, all at once."""
{body}


{reference}
'''


class NumpyArrays:
    """The language."""

    def files(self, kernel: KernelPlan, names: KernelNames, reference: Reference) -> dict[str, str]:
        """One file a kernel."""
        if kernel.schedule.name != "numpy_product":
            raise NotImplementedError(f"{kernel.schedule.name} in NumPy arrays")
        text = _FILE.format(
            names=names,
            parameters=", ".join(
                [
                    *(names.pointers[pointer.name] for pointer in kernel.pointers),
                    *(names.axes[axis.name].size for axis in kernel.axes),
                    *(names.ints[parameter.name] for parameter in kernel.ints),
                    *(names.scalars[scalar.position] for scalar in kernel.scalars),
                ]
            ),
            body=textwrap.indent("\n".join(_statements(kernel, names)), "    "),
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


def _statements(plan: KernelPlan, names: KernelNames) -> list[str]:
    lines = []
    for place, axis in enumerate(plan.axes):
        words = names.axes[axis.name]
        shape = ", ".join("-1" if other == place else "1" for other in range(len(plan.axes)))
        lines.append(f"{words.index} = np.arange({words.size}).reshape({shape})")
    return lines + [_line(plan, names, position, value) for position, value in enumerate(plan.body)]


def _line(plan: KernelPlan, names: KernelNames, position: int, value: Value) -> str:
    match value:
        case Load(mask=None):
            text = f"memory({names.pointers[value.buffer]})[{_place(plan, names, position)}]"
        case Load():
            kept = f"np.where(value_{value.mask}, {_place(plan, names, position)}, 0)"
            text = f"memory({names.pointers[value.buffer]})[{kept}] * value_{value.mask}"
        case Constant():
            text = repr(value.value)
        case Scalar():
            text = names.scalars[scalar_at(plan, position)]
        case IndexExpression():
            text = _place(plan, names, position)
        case Pointwise():
            text = f"np.{_FUNCTIONS[value.op]}({', '.join(f'value_{one}' for one in value.args)})"
        case Reduce():
            place = [axis.name for axis in plan.axes]
            over = tuple(place.index(axis) for axis in value.axes)
            text = f"np.sum(value_{value.arg}, axis={over}, keepdims=True)"
        case Store():
            where = f"memory({names.pointers[value.buffer]})[{_place(plan, names, position)}]"
            return f"{where} = value_{value.value}"
        case _:
            raise NotImplementedError(f"{type(value).__name__} in NumPy arrays")
    return f"value_{position} = {text}"


def _place(plan: KernelPlan, names: KernelNames, position: int) -> str:
    def factor(one: object) -> str:
        match one:
            case SizeOf(axis):
                return names.axes[axis].size
            case ParameterRef(name):
                return names.ints[name]
        return f"({one})"

    address = plan.addresses[position]
    terms = [[names.axes[axis].index, *map(factor, product)] for axis, product in address.axes]
    terms += [[*map(factor, product)] or ["1"] for product in address.offset]
    return " + ".join(" * ".join(term) for term in terms) or "0"


register(TargetFacts("numpy", Device.CPU, "py"), NumpyArrays())
