"""A unit's runtime.py and one kernel, on disk, for the tests on a GPU."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from longhand.emit.unit.templates import write_runtime_files
from longhand.schedule.kernels.kernel import plan_kernel
from tests.emit.triton_units import printed
from tests.schedule import nests
from tests.schedule.nests import CUDA


def make_unit(folder: Path) -> ModuleType:
    """A package of runtime.py and kernels/softmax.py; returns runtime. The kernels are in sys.modules then."""
    make = nests.softmax_with_bias(64, 128)
    plan, _ = plan_kernel(make.nest(), make.buffers, CUDA)
    name = folder.name
    (folder / "kernels").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "kernels" / "__init__.py").write_text("")
    names = ["CudaGraph", "ceil_div", "fast_launch", "libdevice", "next_power_of_2"]
    for path, text in write_runtime_files(names).items():
        (folder / path).write_text(text)
    (folder / "kernels" / "softmax.py").write_text(printed("softmax", plan))
    sys.path.insert(0, str(folder.parent))
    try:
        importlib.import_module(f"{name}.kernels.softmax")
        return importlib.import_module(f"{name}.runtime")
    finally:
        sys.path.pop(0)
