"""Compiles what a kernel file's host function would launch to an sm_90 binary, without a GPU or a driver."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.utils._pytree as pytree
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
POINTERS = {
    torch.bool: "*i1",
    torch.int8: "*i8",
    torch.uint8: "*u8",
    torch.int16: "*i16",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.float64: "*fp64",
}


@dataclasses.dataclass(frozen=True)
class Usage:
    """What ptxas says about one kernel.

    Attributes:
        kernel: Its name.
        registers: For each thread.
        spill_bytes: Stores and loads of spilled registers, for each thread.
        shared_bytes: Shared memory for each program.
    """

    kernel: str
    registers: int
    spill_bytes: int
    shared_bytes: int


@dataclasses.dataclass
class Recorder:
    """Stands in a kernel's place and keeps how it is launched."""

    kernel: Any
    launches: list[tuple[Any, tuple[Any, ...], dict[str, Any]]]

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        assert all(isinstance(size, int) for size in grid)
        return lambda *args, **options: self.launches.append((self.kernel, args, options))


def compile_launches(
    module: ModuleType, host: str, tensors: Sequence[torch.Tensor | list[torch.Tensor]], *numbers: Any
) -> list[Usage]:
    """Calls a host function with tensors on the meta device, and compiles each kernel that it launches.

    Args:
        module: The kernel file, imported without TRITON_INTERPRET.
        host: The host function's name.
        tensors: Tensors and lists of them, with the right dtypes; nothing is read from them.
        numbers: Sizes, strides and scalars.
    """
    launches: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
    kernels = {name: value for name, value in vars(module).items() if name.endswith("_kernel")}
    assert kernels, f"{module.__name__} has no kernel"
    try:
        for name, kernel in kernels.items():
            setattr(module, name, Recorder(getattr(kernel, "kernel", None) or kernel, launches))
        moved = pytree.tree_map(lambda tensor: tensor.to("meta"), list(tensors))
        getattr(module, host)(*moved, *numbers)
    finally:
        for name, kernel in kernels.items():
            setattr(module, name, kernel)
    assert launches, f"{host} launched nothing"
    return [compile_launch(kernel, args, options) for kernel, args, options in launches]


def compile_launch(kernel: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Usage:
    """Compiles a @triton.jit function for the arguments of one launch, all pointers aligned."""
    values = dict(zip(kernel.arg_names, args, strict=False))
    values |= {name: options[name] for name in kernel.arg_names if name in options}
    rest = {name: value for name, value in options.items() if name not in values}
    signature, constants, attributes = {}, {}, {}
    for number, parameter in enumerate(kernel.params):
        value = values[parameter.name]
        if parameter.is_constexpr or (not isinstance(value, torch.Tensor) and value == 1):
            signature[parameter.name] = "constexpr"
            constants[parameter.name] = value
        elif isinstance(value, torch.Tensor):
            signature[parameter.name] = POINTERS[value.dtype]
            attributes[(number,)] = [["tt.divisibility", 16]]
        else:
            signature[parameter.name] = "i32" if -(2**31) <= value < 2**31 else "i64"
            if value % 16 == 0:
                attributes[(number,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, constants, attributes)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=rest)
    return _usage(kernel.__name__, compiled)


def _usage(name: str, compiled: Any) -> Usage:
    words = _assembled(compiled.asm["ptx"])
    registers = re.search(r"Used (\d+) registers", words)
    spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", words)
    assert registers is not None, words
    return Usage(name, int(registers[1]), sum(map(int, spills)), compiled.metadata.shared)


def _assembled(ptx: str) -> str:
    """What ptxas says; the newer one of the two that Triton brings is for PTX that the older does not know."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "kernel.ptx"
        text.write_text(ptx)
        for tool in ("ptxas", "ptxas-blackwell"):
            command = [str(TOOLS / tool), "-v", "-arch=sm_90a", str(text), "-o", str(Path(folder) / "cubin")]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0:
                return done.stderr
    raise AssertionError(done.stderr)
