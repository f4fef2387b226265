"""Each primitive and each reduction, as C++ and as Triton write it, on odd values: it means what eager means.

The walk is that of tests/lower/test_ops.py. All of C++ is one file, compiled once; all of Triton is one process of its
interpreter. What is new to the enum is executed here without a line of its own.
"""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
import math
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path

import torch

from longhand.emit.cpp.kernel import print_cpp_kernel
from longhand.lower.ir import Pointwise, PointwiseOp, Reduce, ReduceOp
from longhand.lower.ops import PRIMITIVES
from longhand.options import Options
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.plan import KernelPlan, Launch
from tests.emit.cpp_kernels import arguments_of, plain_names, runtime_in, write_kernels
from tests.emit.test_cpp_operators import EXACT
from tests.emit.triton_units import Job, interpret, printed, write_unit
from tests.lower.test_ops import CASES, FLOATS, IN_TRITON, INTEGERS, Case, eager, odd_values
from tests.schedule.nests import CPU, CUDA, NestMaker

P = PointwiseOp
Op = PointwiseOp | ReduceOp
Memory = dict[str, torch.Tensor]
# Within so many units in the last place of what is exact: libmvec promises 4. All others give eager's own values.
MOST_ULPS = 6
NOT_ROUNDED = EXACT | {P.WHERE, P.CAST, ReduceOp.MAX, ReduceOp.MIN}
EITHER_ZERO = {P.FMAX, P.FMIN}  # of 0 and -0, as in C


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One kernel that stores what several ops make of the same values."""

    name: str
    ops: tuple[Op, ...]
    plan: KernelPlan
    launch: Launch
    memory: Memory  # what it is given, and room for its results
    exact: tuple[tuple[torch.Tensor, ...], ...]  # of each op: what it may give


def alone(op: PointwiseOp, given: list[torch.Tensor]) -> torch.Tensor:
    """What eager gives of each element by itself, which no vector instruction computes."""
    return torch.cat([eager(op)(*one) for one in zip(*(values.split(1) for values in given), strict=True)])


def exact(op: PointwiseOp, given: list[torch.Tensor], in_interpreter: bool) -> tuple[torch.Tensor, ...]:
    """What eager gives, and what is right: where the result is rounded, that of twice the digits.

    Eager's vectors and its single numbers may differ: which zero is the larger one, and what is left where a quotient
    is beyond the type.
    """
    own, by_itself = eager(op)(*given), alone(op, given)
    if op is P.FLOOR_DIV and given[0].is_floating_point() and in_interpreter:
        is_lost = torch.fmod(*given).isnan() & ~alone(P.FMOD, given).isnan()  # it calls torch's vectors
        return own, torch.where(is_lost, math.nan, by_itself)
    if given[-1].dtype is not torch.float32 or op in NOT_ROUNDED or PRIMITIVES[op].yields_bool:
        return own, by_itself
    return own, eager(op)(*(one.double() if one.is_floating_point() else one for one in given))


def pointwise_kernels(options: Options, walked: Iterable[Case]) -> list[Kernel]:
    """Ops that are given the same values share a kernel."""
    found = []

    def key(case: Case) -> tuple[str, ...]:
        return str(case[1]), *(str(one.tolist()) for one in case[2])

    for number, (_, group) in enumerate(itertools.groupby(sorted(walked, key=key), key)):
        some = list(group)
        _, dtype, given = some[0]
        make = NestMaker(i=len(given[0]))
        memory = {f"x{place}": one for place, one in enumerate(given)}
        args = tuple(int(make.load(name, "i", one.dtype)) for name, one in memory.items())
        for op, _, _ in some:
            made = torch.bool if PRIMITIVES[op].yields_bool else dtype
            make.store(f"{op.value}_out", "i", make.add(Pointwise(op, args, made)), made)
            memory[f"{op.value}_out"] = torch.empty(len(given[0]), dtype=made)
        plan, launch = plan_kernel(make.nest(), make.buffers, options)
        ops = tuple(op for op, _, _ in some)
        results = tuple(exact(op, given, options is CUDA) for op in ops)
        found.append(Kernel(f"ops_{number}", ops, plan, launch, memory, results))
    return found


def reduction_kernels(options: Options) -> list[Kernel]:
    """All reductions of a type over rows of odd values, as one kernel."""
    found = []
    for dtype in (*FLOATS, *INTEGERS, torch.bool):
        of_bools = dtype is torch.bool
        ops = [op for op in ReduceOp if (op in (ReduceOp.ANY, ReduceOp.ALL)) is of_bools]
        values = odd_values(dtype)
        values = torch.cat((values, values[:1]))  # a NaN is not the last, nor a maximum
        rows = torch.stack([values.roll(by) for by in range(len(values))])
        rows[len(rows) // 2 :] = rows[len(rows) // 2 :].nan_to_num(0.5, posinf=7, neginf=-7)
        make = NestMaker(row=len(rows), col=len(values))
        x = make.load("x", "row col", dtype)
        memory, results = {"x": rows}, []
        for op in ops:
            value = make.reduce(op, x, "col")
            reduce = make.body[value]
            assert isinstance(reduce, Reduce)
            make.store(f"{op.value}_out", "row", value, reduce.dtype)
            memory[f"{op.value}_out"] = torch.empty(len(rows), dtype=reduce.dtype)
            results.append((of_rows(op, rows).to(reduce.dtype),))
        plan, launch = plan_kernel(make.nest(), make.buffers, options)
        name = f"reductions_of_{str(dtype).removeprefix('torch.')}"
        found.append(Kernel(name, tuple(ops), plan, launch, memory, tuple(results)))
    return found


def of_rows(op: ReduceOp, rows: torch.Tensor) -> torch.Tensor:
    made = getattr(torch, {"max": "amax", "min": "amin"}.get(op.value, op.value))(rows, -1)
    assert isinstance(made, torch.Tensor)
    return made


def differences(kernel: Kernel, given: Memory) -> list[str]:
    """Which ops made something else, of what."""
    found = []
    for op, expected in zip(kernel.ops, kernel.exact, strict=True):
        got = given[f"{op.value}_out"]
        is_right = torch.zeros(len(got), dtype=torch.bool)
        for one in expected:
            is_right |= agrees(op, got, one)
        if not is_right.all():
            place = int((~is_right).nonzero()[0])
            of = [one[place].tolist() for name, one in kernel.memory.items() if not name.endswith("_out")]
            wanted = expected[0][place].item()
            found.append(f"{op.name} of {of} ({got.dtype}): {got[place].item()} instead of {wanted}")
    return found


def agrees(op: Op, got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    if not got.is_floating_point():
        return got == expected
    rounded = expected.to(got.dtype)
    is_of_sign = (got != 0) | (got.signbit() == rounded.signbit())
    same = (got == rounded) & (is_of_sign | torch.tensor(op in EITHER_ZERO))
    same |= got.isnan() & rounded.isnan()
    if op in NOT_ROUNDED:
        return same
    info = torch.finfo(got.dtype)
    step = expected.double().abs().clamp(min=info.tiny) * info.eps
    near = (got.double() - expected.double()).abs() <= MOST_ULPS * step
    return same | (near & (got.signbit() == rounded.signbit()))


def kernels_for(options: Options) -> list[Kernel]:
    is_gpu = options is CUDA
    walked = [case for case in CASES if not is_gpu or case[:2] in IN_TRITON]
    return [*pointwise_kernels(options, walked), *reduction_kernels(options)]


def rooms_of(kernel: Kernel) -> Memory:
    return {name: one.clone() for name, one in kernel.memory.items()}


def empties(kernel: Kernel) -> tuple[Memory, Launch]:
    """The same call with nothing in it."""
    memory = {name: one[:0].clone() for name, one in kernel.memory.items()}
    return memory, dataclasses.replace(kernel.launch, sizes=(0, *kernel.launch.sizes[1:]))


def test_each_op_in_cpp_on_odd_values(tmp_path: Path) -> None:
    kernels = kernels_for(CPU)
    write_kernels(
        tmp_path, {one.name: print_cpp_kernel(one.plan, plain_names(one.plan, one.name)) for one in kernels}
    )
    runtime, unit, built = runtime_in(tmp_path), tmp_path / "unit.cpp", tmp_path / "unit.so"
    headers = sorted(path.name for path in (tmp_path / "kernels").glob("*.h"))
    first = [f"<{name}>" for name in ("algorithm", "cmath", "cstdint", "limits", "vector")]
    lines = [f"#include {header}" for header in (*first, *(f'"{name}"' for name in headers))]
    lines += [f'namespace {one.name} {{\n#include "{one.name}.cpp"\n}}' for one in kernels]
    unit.write_text("\n".join(lines))
    flags = [*runtime.FLAGS, f"-I{tmp_path / 'kernels'}", str(unit), "-o", str(built), *runtime.LIBRARIES]
    subprocess.run([*shlex.split(runtime.COMPILER), *flags], check=True)
    library, wrong = ctypes.CDLL(str(built)), []
    for kernel in kernels:
        source = tmp_path / "kernels" / f"{kernel.name}.cpp"
        function = runtime._through_ctypes(library, *runtime.parse_signature(source))
        memory = rooms_of(kernel)
        function(*arguments_of(kernel.plan, kernel.launch, memory))
        wrong += differences(kernel, memory)
        function(*arguments_of(kernel.plan, *reversed(empties(kernel))))
    assert not wrong, "\n".join(wrong)


def test_each_op_in_triton_on_odd_values(tmp_path: Path) -> None:
    kernels, jobs = kernels_for(CUDA), []
    write_unit(tmp_path / "unit", {one.name: printed(one.name, one.plan) for one in kernels})
    for kernel in kernels:
        for memory, launch in ((rooms_of(kernel), kernel.launch), empties(kernel)):
            numbers = [*launch.sizes, *launch.ints, *launch.scalars]
            jobs.append(Job(kernel.name, [memory[name] for name in launch.buffers], numbers))
    results, wrong = interpret(tmp_path / "unit", jobs), []
    for kernel, made, nothing in zip(kernels, results[::2], results[1::2], strict=True):
        assert not isinstance(made, str), made
        assert not isinstance(nothing, str), nothing
        wrong += differences(kernel, dict(zip(kernel.launch.buffers, made, strict=True)))
    assert not wrong, "\n".join(wrong)


def test_what_is_computed_otherwise_is_named() -> None:
    kernel = next(
        one for one in kernels_for(CPU) if P.SIGN in one.ops and one.memory["x0"].dtype is torch.float32
    )
    memory = rooms_of(kernel)
    memory |= {f"{op.value}_out": made[0].clone() for op, made in zip(kernel.ops, kernel.exact, strict=True)}
    assert not differences(kernel, memory)
    memory["sign_out"][1] = 0.0  # of -0.0, whose sign stays
    memory["exp_out"] *= 1 + 2**-19
    found = [one.split(" (")[0] for one in differences(kernel, memory)]
    assert "SIGN of [1.0]" not in found and any(one.startswith("EXP of ") for one in found)
