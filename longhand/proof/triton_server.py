"""A process that compiles Triton kernels to a GPU's binary; it needs no GPU and no driver.

``python -P triton_server.py``: each line on stdin is a request, as triton_compiler.py writes it; for each kernel comes
one line back, as soon as it is done. Each kernel is compiled in a fork of this process, which has imported torch and
triton and nothing else: side by side, and whatever kills one tells of that kernel alone. It is compiled as its own
launch would do it, by Triton's own code with a driver that only names its target: what Triton keeps in its cache is
what the first launch looks for.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.machinery
import io
import json
import linecache
import os
import re
import resource
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler.errors import CompilationError

SECONDS = 300  # of processor time, for one kernel
LONGEST = 2000  # characters of a message
PACKAGE = "longhand_unit"
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
# Bytes of shared memory that one program may have.
SHARED_BYTES = {
    **dict.fromkeys((70, 72), 96 * 1024),
    75: 64 * 1024,
    **dict.fromkeys((80, 87), 163 * 1024),
    **dict.fromkeys((86, 89, 120, 121), 99 * 1024),
    **dict.fromkeys((90, 100, 101, 103), 227 * 1024),
}


class Driver:
    """Stands where Triton looks for a GPU, and names the one to compile for."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        """What to compile for."""
        return self.target

    def get_current_device(self) -> int:
        """Any will do."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """Nothing is launched on it."""
        return 0


def compile_instead(compiled: list[Any]) -> None:
    """Lets ``kernel[grid](...)`` compile what it would launch, and keep it.

    Kernels stay what they are: Triton copies the globals that a kernel uses, other kernels aside.
    """

    def compiling(kernel: Any, grid: tuple[int, ...]) -> Any:
        return lambda *args, **options: compiled.append(kernel.run(*args, grid=grid, warmup=True, **options))

    triton.JITFunction.__getitem__ = compiling


def main() -> None:
    """Answers requests until there are no more."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what a compiler prints is no answer
    make_ready()
    for line in sys.stdin:
        request = json.loads(line)
        know_tools(request["capability"])
        answer_all(request, answers)


def make_ready() -> None:
    """Does what Triton does at the first kernel of a process: the forks find it done.

    It hashes its own files, half a gigabyte, and imports a language that no unit uses: 0.4 s, for every kernel.
    """
    with contextlib.suppress(Exception):  # another version of Triton may have neither
        importlib.import_module("triton.experimental.gluon.nvidia.hopper")
    with contextlib.suppress(Exception):
        importlib.import_module("triton.runtime.cache").triton_key()


@functools.cache
def know_tools(capability: int) -> None:
    """Asks the assembler of an architecture for its version: Triton keeps the answer, and the forks find it."""
    with contextlib.suppress(Exception):  # the kernels will tell
        importlib.import_module("triton.compiler.compiler").make_backend(Driver(capability).target).hash()


def answer_all(request: dict[str, Any], answers: int) -> None:
    """Compiles every kernel of a request, several at a time."""
    waiting = list(request["calls"].items())
    running: dict[int, str] = {}
    while waiting or running:
        while waiting and len(running) < request["n_processes"]:
            kernel, calls = waiting.pop(0)
            process = os.fork()
            if process == 0:
                compile_in_fork(request, kernel, calls, answers)
            running[process] = kernel
        process, status = os.waitpid(-1, 0)
        kernel = running.pop(process)
        code = os.waitstatus_to_exitcode(status)
        if code != 0:
            what = (
                f"the compiler takes longer than {SECONDS} s"
                if code == -24
                else f"the compiler ended with {code}"
            )
            say(answers, {"kernel": kernel, "error": what, "usage": []})


def compile_in_fork(request: dict[str, Any], kernel: str, calls: list[Any], answers: int) -> None:
    """One kernel; the process ends with it."""
    code = 1
    try:
        _, most = resource.getrlimit(resource.RLIMIT_CPU)  # nobody may ask for more than they were given
        seconds = SECONDS if most == resource.RLIM_INFINITY else min(SECONDS, most)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        say(answers, compiled_kernel(request, kernel, calls))
        code = 0
    finally:
        os._exit(code)


def say(answers: int, answer: dict[str, Any]) -> None:
    """One line, in one write."""
    os.write(answers, json.dumps(answer).encode() + b"\n")


def compiled_kernel(request: dict[str, Any], kernel: str, calls: list[Any]) -> dict[str, Any]:
    """What came of a kernel: an error or nothing, and what each of its binaries uses."""
    binaries: list[Any] = []
    heard = io.StringIO()
    try:
        triton.runtime.driver.set_active(Driver(request["capability"]))
        with contextlib.redirect_stderr(heard):
            module = imported(request["files"], Path(request["root"]), kernel)
            compile_instead(binaries)
            for name, value in list(vars(module).items()):
                launched = getattr(value, "kernel", None)  # behind the unit's own launcher
                if isinstance(launched, triton.JITFunction):
                    setattr(module, name, launched)
            for call in calls:
                getattr(module, kernel)(*map(argument, call))
    except Exception as error:
        return {"kernel": kernel, "error": in_words(error), "usage": []}
    limit = SHARED_BYTES.get(request["capability"])
    for binary in binaries:
        if limit is not None and binary.metadata.shared > limit:
            words = f"needs {binary.metadata.shared} bytes of shared memory, and there are {limit}"
            return {"kernel": kernel, "error": words, "usage": []}
    usage = [used(binary) for binary in binaries] if request["is_told"] else []
    return {"kernel": kernel, "error": "", "usage": usage}


def imported(files: dict[str, str], root: Path, kernel: str) -> ModuleType:
    """The file of a kernel as a module, from its text; for Triton and its debuggers it stands where it will stand."""
    for name, path in ((PACKAGE, "__init__.py"), (f"{PACKAGE}.kernels", "kernels/__init__.py")):
        package = ModuleType(name)
        package.__path__ = []
        package.__file__ = str(root / path)
        sys.modules[name] = package
    for name, path in (("runtime", "runtime.py"), (f"kernels.{kernel}", f"kernels/{kernel}.py")):
        file, text = str(root / path), files[path]
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        module = ModuleType(f"{PACKAGE}.{name}")
        module.__file__ = file
        module.__package__ = f"{PACKAGE}.{name}".rpartition(".")[0]
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None, origin=file)
        sys.modules[module.__name__] = module
        exec(compile(text, file, "exec"), vars(module))
    return module


def argument(given: Any) -> Any:
    """An argument of the host function; tensors are on no device."""
    if isinstance(given, dict):
        return [argument(tensor) for tensor in given["list"]]
    if isinstance(given, list):
        dtype, shape, stride = given
        return torch.empty_strided(shape, stride, dtype=getattr(torch, dtype), device="meta")
    return given


def in_words(error: BaseException) -> str:
    """An error of the compiler, in one paragraph."""
    if isinstance(error, CompilationError):
        line = (error.src or "").splitlines()[error.node.lineno - 1 :][:1]
        words = error.error_message or str(error.__cause__ or "")
        return " ".join(f"`{''.join(line).strip()}`: {words}".split())[:LONGEST]
    words = " ".join(str(error).split()) or type(error).__name__
    if not str(error) or isinstance(error, (TypeError, KeyError, AttributeError, NameError, AssertionError)):
        where = traceback.extract_tb(error.__traceback__)[-1]
        words = f"{type(error).__name__}: {words} ({Path(where.filename).name}:{where.lineno})"
    return words[-LONGEST:]


def used(binary: Any) -> dict[str, Any]:
    """Registers and spilled bytes of each thread, shared memory of each program."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary.asm["cubin"])
        file.flush()
        command = [str(TOOLS / "cuobjdump"), "-res-usage", file.name]
        words = subprocess.run(command, capture_output=True, text=True).stdout
    numbers = {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", words)}
    spilled = numbers.get("STACK", 0) + numbers.get("LOCAL", 0)
    return {
        "name": binary.metadata.name,
        "registers": numbers.get("REG", 0),
        "spilled": spilled,
        "shared": binary.metadata.shared,
    }


if __name__ == "__main__":
    main()
