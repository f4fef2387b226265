"""C++ kernels printed from plans built by hand: the text, and what it computes when built and called."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from longhand.emit.cpp.format import format_cpp
from longhand.emit.cpp.headers import CppSource
from longhand.emit.cpp.kernel import print_cpp_headers, print_cpp_kernel
from longhand.lower.ir import (
    AxisSize,
    Constant,
    Index,
    Load,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Scalar,
    Store,
)
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.kernels.schedules.elementwise import ELEMENTWISE
from longhand.schedule.kernels.schedules.rows_looped import ROWS_LOOPED
from longhand.schedule.names.unit_names import AxisNames, KernelNames, Quote
from longhand.schedule.numerics.numerics import Numerics
from longhand.schedule.plan import (
    Access,
    Address,
    AxisRole,
    KernelPlan,
    Pass,
    PlanAxis,
    Pointer,
    ScalarParameter,
    SizeOf,
    Stage,
)
from tests.emit.cpp_kernels import plain_names
from tests.schedule.nests import CPU, NestMaker

TEMPLATES = Path(__file__).parents[2] / "templates"
F32 = torch.float32
ALONG_COLS = Address((("c", ()),))
OVER_ALL = Address((("r", (SizeOf("c"),)), ("c", ())))


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, CppSource], ModuleType]]:
    """Writes a kernel and its headers as a unit would and returns the unit's runtime."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def make(name: str, text: CppSource) -> ModuleType:
        kernels = tmp_path / "kernels"
        kernels.mkdir(exist_ok=True)
        (kernels / f"{name}.cpp").write_text(format_cpp(text))
        for header, header_text in print_cpp_headers([text]).items():
            (kernels / header).write_text(format_cpp(header_text))
        runtime = tmp_path / "runtime.py"
        parts = [
            TEMPLATES / "runtime" / part
            for part in ("shapes.py.jinja", "cpp.py.jinja", "build_cache.py.jinja", "pool.py.jinja")
        ]
        runtime.write_text("\n".join(part.read_text() for part in parts))
        spec = importlib.util.spec_from_file_location("runtime_of_test", runtime)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "runtime_of_test", module)
        spec.loader.exec_module(module)
        return module

    yield make


def add_layer_norm() -> tuple[KernelPlan, KernelNames]:
    """The golden kernel: h = layer_norm(x + attn) * weight + bias."""
    body = (
        Load("x", Index(), F32),
        Load("attn", Index(), F32),
        Pointwise(PointwiseOp.ADD, (0, 1), F32),
        Reduce(ReduceOp.SUM, 2, ("c",), F32),
        AxisSize(("c",), F32),
        Pointwise(PointwiseOp.DIV, (3, 4), F32),
        Pointwise(PointwiseOp.SUB, (2, 5), F32),
        Pointwise(PointwiseOp.MUL, (6, 6), F32),
        Reduce(ReduceOp.SUM, 7, ("c",), F32),
        Pointwise(PointwiseOp.DIV, (8, 4), F32),
        Scalar(1e-5, F32),
        Pointwise(PointwiseOp.ADD, (9, 10), F32),
        Pointwise(PointwiseOp.RSQRT, (11,), F32),
        Pointwise(PointwiseOp.MUL, (6, 12), F32),
        Load("weight", Index(), F32),
        Pointwise(PointwiseOp.MUL, (13, 14), F32),
        Load("bias", Index(), F32),
        Pointwise(PointwiseOp.ADD, (15, 16), F32),
        Store("h", Index(), 17),
    )
    plan = KernelPlan(
        key="",
        schedule=ROWS_LOOPED,
        axes=(PlanAxis("r", AxisRole.ROW), PlanAxis("c", AxisRole.COL)),
        body=body,
        addresses={0: OVER_ALL, 1: OVER_ALL, 14: ALONG_COLS, 16: ALONG_COLS, 18: OVER_ALL},
        pointers=(
            Pointer("x", F32, Access.READ, ("r", "c")),
            Pointer("attn", F32, Access.READ, ("r", "c")),
            Pointer("weight", F32, Access.READ, ("c",)),
            Pointer("bias", F32, Access.READ, ("c",)),
            Pointer("h", F32, Access.WRITE, ("r", "c")),
        ),
        scalars=(ScalarParameter(10, F32, "eps"),),
        numerics=Numerics(sums_in_double=frozenset({3, 8})),
        passes=(
            Pass((0, 1, 2), reductions=(3,), stages=(Stage(2, 18),), then=(5,)),
            Pass((6, 7), from_stage=(2,), reductions=(8,), then=(9, 11, 12)),
            Pass((6, 13, 14, 15, 16, 17), from_stage=(2,), stores=(18,)),
        ),
    )
    names = KernelNames(
        kernel="add_layer_norm",
        title="the residual sum, normalized.",
        quotes=(Quote("Block.forward", "h = self.ln_2(x + attn)"),),
        pointers={"x": "x", "attn": "attn", "weight": "weight", "bias": "bias", "h": "h"},
        axes={"r": AxisNames("row", "n_rows"), "c": AxisNames("col", "n_cols")},
        ints={},
        scalars={10: "eps"},
        values={2: "residual", 3: "sum", 5: "mean", 6: "centered", 8: "sum_of_squares", 12: "rstd"},
    )
    return plan, names


def bias_gelu(dtype: torch.dtype) -> tuple[KernelPlan, KernelNames]:
    """Exact gelu of x + bias over one axis, stored in `dtype`."""
    body = (
        Load("x", Index(), F32),
        Load("bias", Index(), F32),
        Pointwise(PointwiseOp.ADD, (0, 1), F32),
        Constant(0.5**0.5, F32),
        Pointwise(PointwiseOp.MUL, (2, 3), F32),
        Pointwise(PointwiseOp.ERF, (4,), F32),
        Constant(1, F32),
        Pointwise(PointwiseOp.ADD, (5, 6), F32),
        Pointwise(PointwiseOp.MUL, (2, 7), F32),
        Constant(0.5, F32),
        Pointwise(PointwiseOp.MUL, (8, 9), F32),
        Store("out", Index(), 10),
    )
    pointers = (
        Pointer("x", dtype, Access.READ, ("c",)),
        Pointer("bias", F32, Access.READ, ("c",)),
        Pointer("out", dtype, Access.WRITE, ("c",), may_alias=("x",)),
    )
    addresses = {0: ALONG_COLS, 1: ALONG_COLS, 11: ALONG_COLS}
    plan = KernelPlan("", ELEMENTWISE, (PlanAxis("c", AxisRole.COL),), body, addresses, pointers)
    words = {"x": "x", "bias": "bias", "out": "out"}
    axes = {"c": AxisNames("i", "n")}
    return plan, KernelNames("bias_gelu", "gelu(x + bias).", (), words, axes, {}, {}, {2: "y"})


@pytest.mark.parametrize("n_rows, n_cols", [(1, 1), (7, 33), (300, 257), (0, 5)])
def test_layer_norm_matches_eager(
    unit: Callable[[str, CppSource], ModuleType], n_rows: int, n_cols: int
) -> None:
    runtime = unit("add_layer_norm", print_cpp_kernel(*add_layer_norm()))
    x, attn = torch.randn(n_rows, n_cols), torch.randn(n_rows, n_cols)
    weight, bias, h = torch.randn(n_cols), torch.randn(n_cols), torch.empty(n_rows, n_cols)
    runtime.load_kernel("add_layer_norm.cpp")(x, attn, weight, bias, h, n_rows, n_cols, 1e-5)
    exact = torch.nn.functional.layer_norm(
        (x + attn).double(), (n_cols,), weight.double(), bias.double(), 1e-5
    )
    torch.testing.assert_close(h.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("n", [0, 1, 1000, 40001])
def test_elementwise_matches_eager(
    unit: Callable[[str, CppSource], ModuleType], dtype: torch.dtype, n: int
) -> None:
    runtime = unit("bias_gelu", print_cpp_kernel(*bias_gelu(dtype)))
    x, bias = torch.randn(n).to(dtype), torch.randn(n)
    out = torch.full((n,), torch.nan, dtype=dtype)
    runtime.load_kernel("bias_gelu.cpp")(x, bias, out, n)
    exact = torch.nn.functional.gelu(x.double() + bias.double())
    torch.testing.assert_close(out.double(), exact, rtol=torch.finfo(dtype).eps, atol=1e-6)


def test_numbers_that_are_equal_here_stay_two():
    """Another launch of the same kernel may give them different values."""
    make = NestMaker(i=100)
    x = make.load("x", "i")
    make.store("out", "i", x * make.scalar(0.5, "scale") + make.scalar(0.5, "shift"))
    plan, launch = plan_kernel(make.nest(), make.buffers, CPU)
    assert len(launch.scalars) == 2
    text = print_cpp_kernel(plan, plain_names(plan, "scale_shift"))
    assert re.search(r"\* scale \+ shift;", text)
