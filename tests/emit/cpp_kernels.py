"""Prints, builds and runs the C++ kernel of a nest, for the tests."""

from __future__ import annotations

import importlib.util
import itertools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import torch

from longhand.emit.cpp.format import format_cpp
from longhand.emit.cpp.headers import CppSource
from longhand.emit.cpp.kernel import print_cpp_headers, print_cpp_kernel
from longhand.lower.ir import AxisSize, Constant, Pointwise, Reduce, Scalar, Store, arguments
from longhand.schedule.names.unit_names import AxisNames, KernelNames
from longhand.schedule.plan import KernelPlan, Launch

TEMPLATES = Path(__file__).parents[2] / "templates"
_NUMBERS = itertools.count()
_OTHERS = ("second", "third", "fourth", "fifth", *(f"further_{number}" for number in range(99)))


def runtime_in(folder: Path) -> ModuleType:
    """The C++ part of runtime.py as it stands in a unit's folder."""
    runtime = folder / "runtime.py"
    parts = [
        TEMPLATES / "runtime" / part
        for part in ("shapes.py.jinja", "cpp.py.jinja", "build_cache.py.jinja", "pool.py.jinja")
    ]
    runtime.write_text("\n".join(part.read_text() for part in parts))
    spec = importlib.util.spec_from_file_location(f"runtime_of_test_{next(_NUMBERS)}", runtime)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_kernels(folder: Path, texts: Mapping[str, CppSource]) -> None:
    """kernels/*.cpp and the headers that they include."""
    kernels = folder / "kernels"
    kernels.mkdir(exist_ok=True, parents=True)
    for name, text in texts.items():
        (kernels / f"{name}.cpp").write_text(format_cpp(text))
    for header, text in print_cpp_headers(texts.values()).items():
        (kernels / header).write_text(format_cpp(text, header))


def plain_names(plan: KernelPlan, kernel: str) -> KernelNames:
    """Words good enough to read: keys, axis names, `name` fields; what is used twice has a line."""
    uses = Counter(argument for value in plan.body for argument in arguments(value))
    pointers = {pointer.name: pointer.name for pointer in plan.pointers}
    taken = {*pointers.values(), *(axis.name for axis in plan.axes)}
    values: dict[int, str] = {}
    for position, value in enumerate(plan.body):
        if isinstance(value, Store | Constant | Scalar | AxisSize):
            continue
        if uses[position] > 1 or isinstance(value, Reduce):
            word = f"{value.op.value}_value" if isinstance(value, Pointwise | Reduce) else "element"
            word = next(w for w in (word, *(f"{other}_{word}" for other in _OTHERS)) if w not in taken)
            taken.add(word)
            values[position] = word
    return KernelNames(
        kernel=kernel,
        title="a test.",
        quotes=(),
        pointers=pointers,
        axes={axis.name: AxisNames(axis.name, f"n_{axis.name}") for axis in plan.axes},
        ints={parameter.name: parameter.name for parameter in plan.ints},
        scalars={scalar.position: scalar.name or f"scalar_{scalar.position}" for scalar in plan.scalars},
        values=values,
    )


def arguments_of(plan: KernelPlan, launch: Launch, memory: Mapping[str, torch.Tensor]) -> list[object]:
    """What model.py passes: tensors, sizes, ints, scalars."""
    tensors = [memory[name] for name in launch.buffers]
    return [*tensors, *map(int, launch.sizes), *map(int, launch.ints), *launch.scalars]


def run_cpp(
    plan: KernelPlan, launch: Launch, memory: Mapping[str, torch.Tensor], folder: Path
) -> dict[str, torch.Tensor]:
    """The kernel, built with all warnings as errors, on copies of `memory`."""
    text = print_cpp_kernel(plan, plain_names(plan, "kernel"))
    write_kernels(folder, {"kernel": text})
    runtime = runtime_in(folder)
    runtime.FLAGS += ["-Wall", "-Wextra", "-Werror"]
    result = {name: tensor.clone() for name, tensor in memory.items()}
    runtime.load_kernel("kernel.cpp")(*arguments_of(plan, launch, result))
    return result
