"""Compiles a unit's kernels before the unit is kept: which of them must become PyTorch calls, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from longhand.emit.unit.on_disk import BASE
from longhand.emit.unit.torch_kernels import InTorch
from longhand.options import Device, Target
from longhand.proof import triton_compiler
from longhand.proof.cpp_builder import BuilderUnavailable, build_kernels
from longhand.proof.launches import kernel_calls, kernel_names
from longhand.proof.triton_compiler import CompilerUnavailable
from longhand.schedule.plan import UnitPlan
from longhand.telling.logs import Subject, logger

_LONGEST = 400  # characters of what a compiler says that are kept


def make_ready(target: Target) -> None:
    """Starts what will be needed: it gets ready while the model is captured."""
    if target.device is Device.CUDA:
        try:
            triton_compiler.start()
        except CompilerUnavailable as error:
            logger(Subject.KERNELS).info("no kernel is compiled ahead: %s", error)


def faulty_kernels(
    plans: Sequence[UnitPlan],
    files: Mapping[str, str | bytes],
    out: Path,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, InTorch]:
    """By key, the kernels that do not compile for the unit's target. The others are compiled then.

    What was compiled lies where the unit's first call looks for it: in Triton's cache, or in the unit's own.

    Args:
        plans: Of the call, and in training of its backward pass.
        files: The unit.
        out: Where it will stand.
        tell: Is told of each kernel that is done, by name.
    """
    texts = {
        path: content
        for path, content in files.items()
        if isinstance(content, str) and not path.startswith(f"{BASE}/")
    }
    names = kernel_names(files)
    target = plans[0].options.target
    try:
        if target.device is Device.CUDA:
            calls = kernel_calls(plans, names)
            calls = {name: each for name, each in calls.items() if _is_triton(texts, name)}
            assert target.arch is not None
            faults = triton_compiler.compile_kernels(texts, out, target.arch, calls, tell) if calls else {}
        else:
            is_any = any(path.endswith(".cpp") for path in texts)
            faults = build_kernels(texts, tell) if is_any else {}
    except (CompilerUnavailable, BuilderUnavailable) as error:
        logger(Subject.KERNELS).info("no kernel was compiled ahead: %s", error)
        return {}
    keys = {name: key for key, name in names.items()}
    cause = f"does not compile for {target.arch or 'this processor'}"
    return {keys[name]: InTorch(cause, words[:_LONGEST]) for name, words in sorted(faults.items())}


def _is_triton(texts: Mapping[str, str], name: str) -> bool:
    return "triton.jit" in texts[f"kernels/{name}.py"]
