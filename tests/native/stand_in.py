"""A unit's runtime.py with blas.c and launch.c on the CPU: cublasLt, the driver and tensors are a stand-in's."""

from __future__ import annotations

import atexit
import ctypes
import dataclasses
import functools
import importlib.util
import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from longhand.emit.unit.templates import write_runtime_files

LIMIT = 1 << 22  # of the workspace, without a bias


@dataclasses.dataclass
class StandIn:
    """What stands in, and the functions that a unit calls.

    Attributes:
        library: The stand-in's own functions and counters.
        runtime: The unit's.
        functions: ``linear``, ``mm``, ``bmm`` and ``addmm``.
        launch: The way into launch.c.
        blas: The way into blas.c.
        known: What it was told.
        by_aten: The functions that ATen was called for.
        answers: What the settings answer, by name.
    """

    library: ctypes.PyDLL
    runtime: ModuleType
    functions: Any = None
    launch: Any = None
    blas: Any = None
    known: tuple[Any, ...] = ()
    by_aten: list[str] = dataclasses.field(default_factory=list)
    answers: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __getitem__(self, counter: str) -> int:
        return ctypes.c_int64.in_dll(self.library, counter).value

    def __setitem__(self, counter: str, value: int) -> None:
        ctypes.c_int64.in_dll(self.library, counter).value = value


class OnGpu(torch.Tensor):
    """A tensor that counts as one on a GPU."""


def on_gpu(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory."""
    return tensor.as_subclass(OnGpu)


@functools.cache
def _built() -> tuple[Path, ...]:
    """blas.c, launch.c and the stand-in, compiled once in a process."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    runtime = write_unit(folder)
    source, include = Path(__file__).with_name("stand_in.c"), f"-I{sysconfig.get_path('include')}"
    warnings = ["-Wall", "-Wextra", "-Wno-misleading-indentation"]
    compiler = shlex.split(os.environ.get("CC", "gcc"))
    words = [
        *compiler,
        "-std=gnu11",
        "-O1",
        *warnings,
        "-fPIC",
        "-shared",
        include,
        f"-I{folder}",
        str(source),
    ]
    subprocess.run([*words, "-o", str(folder / "stand_in.so")], check=True)
    runtime.NATIVE_FLAGS += ["-Wall", "-Wextra", "-Werror"]
    launch = runtime.build_native(folder, ("launch.c", "tensors.h"))
    return runtime.build_native(folder, runtime.BLAS_FILES), launch, folder / "stand_in.so"


def write_unit(folder: Path) -> ModuleType:
    """runtime.py of a unit with products, and the C files beside it."""
    for name, text in write_runtime_files(["blas", "fast_launch"]).items():
        (folder / name).write_text(text)
    spec = importlib.util.spec_from_file_location("runtime_of_products", folder / "runtime.py")
    assert spec is not None and spec.loader is not None
    runtime = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runtime)
    return runtime


def stand_in(folder: Path) -> StandIn:
    """A stand-in with counters of its own, and blas.c without plans: a copy of a library is another one."""
    runtime = write_unit(folder)
    blas, launch, library = (folder / path.name for path in _built())
    for path in _built():
        shutil.copy(path, folder)
    made = StandIn(ctypes.PyDLL(str(library)), runtime)
    exchange = made.library.pretended_exchange
    exchange.restype, exchange.argtypes = ctypes.py_object, [ctypes.py_object]
    OnGpu.__dlpack_c_exchange_api__ = exchange(torch.Tensor)  # type: ignore[attr-defined]
    made.answers = {
        "modes": 0,
        "deterministic": False,
        "carveout": None,
        "grad": False,
        "precision": "none",
        "bfloat16": (True, True),
        "float16": True,
        "device": 0,
    }

    def answering(name: str) -> Callable[..., Any]:
        return lambda *_: made.answers[name]

    def of_aten(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            made.by_aten.append(name)
            return function(*args)

        return call

    def empty(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        n_bytes = 256 + dtype.itemsize * max(torch.Size(sizes).numel(), 1)
        memory = torch.full((n_bytes,), 0xAB, dtype=torch.uint8)
        start = -memory.data_ptr() % 256
        whole = memory[start : start + n_bytes - 256].view(dtype)
        return on_gpu(whole.as_strided(sizes, strides))

    made.known = (
        OnGpu,
        torch.nn.Parameter,
        tuple(
            of_aten(name, function)
            for name, function in {
                "linear": torch.nn.functional.linear,
                "mm": torch.mm,
                "bmm": torch.bmm,
                "addmm": torch.addmm,
            }.items()
        ),
        empty,
        (answering("modes"), answering("deterministic"), answering("carveout")),
        answering("grad"),
        answering("precision"),
        ("cuda", "matmul"),
        (answering("bfloat16"), answering("float16")),
        answering("device"),
        (LIMIT, LIMIT),
        torch.uint8,
        str(library),
        str(library),
    )
    made.blas = ctypes.PyDLL(str(blas)).longhand_blas
    made.launch = ctypes.PyDLL(str(launch)).longhand_launch
    for way_in in (made.blas, made.launch):
        way_in.restype, way_in.argtypes = ctypes.py_object, [ctypes.py_object]
    made.functions = types.SimpleNamespace(
        **dict(zip(("linear", "mm", "bmm", "addmm"), made.blas(made.known), strict=True))
    )
    _warm_up(made)
    return made


def _warm_up(made: StandIn) -> None:
    """This thread's first product on each device, which is ATen's."""
    matrix = on_gpu(torch.ones(16, 16))
    for device in (1, 0):
        made["pretended_device"] = made.answers["device"] = device
        made.functions.mm(matrix, matrix)
    made.by_aten.clear()
