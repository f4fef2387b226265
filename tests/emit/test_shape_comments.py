"""A kernel that is called by hand holds its tensors to the comments on its parameters."""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import triton
from torch import nn

import longhand
from longhand.emit.unit.templates import write_runtime
from longhand.tune.own_calls import as_the_unit_calls
from tests.emit.cpp_kernels import runtime_in

SCALE = """// scale: out = x * weight, row by row.
#include <cstdint>

extern "C" void scale(
    const float *x,  // (n_rows, n_cols) in memory
    const float *weight,  // the first (n_cols,)
    const float *factor,  // one element
    float *out,  // (n_rows, n_cols); may be x
    const float *mine,  // whatever I like, (n_rows,) or not
    long n_rows,
    long n_cols) {
  for (long i = 0; i < n_rows * n_cols; ++i) out[i] = x[i] * weight[i % n_cols] * factor[0];
}
"""


@pytest.fixture(params=[True, False], ids=["c_api", "ctypes"])
def scale(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """A kernel, called with and without Python.h."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "scale.cpp").write_text(SCALE)
    runtime = runtime_in(tmp_path)
    if not request.param:
        monkeypatch.setattr(runtime, "_has_binding", lambda: False)
    return runtime.load_kernel("scale.cpp")


def given(**others: torch.Tensor) -> dict[str, torch.Tensor]:
    """Tensors for 3 rows of 5."""
    tensors = {
        "x": torch.rand(3, 5),
        "weight": torch.rand(5),
        "factor": torch.ones(()),
        "out": torch.zeros(3, 5),
    }
    return tensors | {"mine": torch.zeros(2)} | others


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"x": torch.rand(1, 3, 5), "out": torch.zeros(15)},
        {"x": torch.rand(5, 3).t(), "mine": torch.rand(4, 4).t()},
        {"weight": torch.rand(7)},
        {"factor": torch.ones(1, 1)},
    ],
)
def test_what_the_comments_say_is_taken(scale, others):
    tensors = given(**others)
    scale(*tensors.values(), n_rows=3, n_cols=5)
    memory = tensors["x"].t().reshape(3, 5) if tensors["x"].stride() == (1, 3) else tensors["x"].reshape(3, 5)
    torch.testing.assert_close(tensors["out"].view(3, 5), memory * tensors["weight"][:5])


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"x": torch.rand(3, 4)}, "x: expected (n_rows, n_cols) in memory, 15 elements, got shape (3, 4)"),
        (
            {"x": torch.rand(5).expand(3, 5)},
            "x: expected a contiguous tensor, got shape (3, 5) with strides (0, 1)",
        ),
        (
            {"x": torch.rand(3, 10)[:, ::2]},
            "x: expected a contiguous tensor, got shape (3, 5) with strides (10, 2)",
        ),
        ({"weight": torch.rand(4)}, "weight: expected the first (n_cols,), 5 elements, got shape (4,)"),
        (
            {"weight": torch.rand(14)[::2]},
            "weight: expected a contiguous tensor, got shape (7,) with strides (2,)",
        ),
        ({"factor": torch.ones(3)}, "factor: expected one element, 1 elements, got shape (3,)"),
        (
            {"out": torch.rand(5, 3).t()},
            "out: expected a contiguous tensor, got shape (3, 5) with strides (1, 3)",
        ),
        ({"out": torch.rand(0, 5)}, "out: expected (n_rows, n_cols), 15 elements, got shape (0, 5)"),
    ],
)
def test_anything_else_is_refused_with_what_came(scale, others, said):
    tensors = given(**others)
    before = tensors["out"].clone()
    with pytest.raises(ValueError, match=re.escape(f"scale: {said}")):
        scale(*tensors.values(), n_rows=3, n_cols=5)
    assert torch.equal(tensors["out"], before)


# ---- Triton ----


@pytest.fixture(scope="module")
def runtime() -> types.ModuleType:
    module = types.ModuleType("unit.runtime")
    module.__package__ = "unit"
    exec(compile(write_runtime(["fast_launch"]), "runtime.py", "exec", dont_inherit=True), vars(module))
    return module


def scale_kernel(
    x_ptr,  # bf16 (n_rows, n_cols) in memory
    weight_ptr,  # float32, the first (n_cols,)
    partial_ptr,  # float32, a result of each chunk
    out_ptr,  # bf16 (n_rows, n_cols); may be x_ptr
    n_rows,
    n_cols,
):
    """Its comments are read, and nothing else."""


class Interpreted:
    """What Triton's interpreter makes of a kernel, but for running it."""

    fn = staticmethod(scale_kernel)
    launched = 0

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return self.count

    def count(self, *args: object) -> None:
        self.launched += 1


def arguments(**others: torch.Tensor) -> list[object]:
    """Tensors for 3 rows of 5, and these numbers."""
    tensors = {
        "x_ptr": torch.rand(3, 5).bfloat16(),
        "weight_ptr": torch.rand(5),
        "partial_ptr": torch.rand(2),
    }
    tensors["out_ptr"] = torch.zeros(3, 5, dtype=torch.bfloat16)
    return [*(tensors | others).values(), 3, 5]


@pytest.mark.parametrize(
    ("others", "error", "said"),
    [
        ({"x_ptr": torch.rand(15)}, TypeError, "x_ptr: expected bf16, got torch.float32"),
        ({"x_ptr": 5}, TypeError, "x_ptr: expected a tensor, got int"),
        (
            {"partial_ptr": torch.rand(2).double()},
            TypeError,
            "partial_ptr: expected float32, got torch.float64",
        ),
        (
            {"weight_ptr": torch.rand(5, device="meta")},
            ValueError,
            "weight_ptr: expected a tensor on cpu, got meta",
        ),
        (
            {"weight_ptr": torch.rand(4)},
            ValueError,
            "weight_ptr: expected the first (n_cols,), 5 elements, got shape (4,)",
        ),
        (
            {"out_ptr": torch.zeros(5, 3, dtype=torch.bfloat16).t()},
            ValueError,
            "out_ptr: expected a contiguous tensor, got shape (3, 5) with strides (1, 3)",
        ),
    ],
)
def test_a_triton_kernel_refuses_what_its_comments_do_not_say(runtime, others, error, said):
    kernel = Interpreted()
    with pytest.raises(error, match=re.escape(f"scale_kernel: {said}")):
        runtime.fast_launch(kernel)[(1,)](*arguments(**others))
    assert not kernel.launched


def test_a_triton_kernel_takes_what_its_comments_say(runtime):
    kernel = Interpreted()
    launcher = runtime.fast_launch(kernel)
    launcher[(1,)](*arguments())
    launcher[(1,)](*arguments(x_ptr=torch.rand(5, 3).bfloat16().t(), weight_ptr=torch.rand(7)))
    assert kernel.launched == 2


def function_of(package: str, text: str, **names: object) -> Callable[..., None]:
    """A function of a module that stands in a package."""
    module = {"__package__": package, **names}
    exec(text, module)
    return module["call"]


@pytest.mark.skipif(
    not triton.__version__.startswith(("3.6.", "3.7.", "3.8.", "3.9.")), reason="Triton launches by itself"
)
def test_every_call_is_checked_but_for_the_units_own(runtime, monkeypatch):
    fast = runtime.FastLaunch(triton.runtime.jit.JITFunction(scale_kernel))
    monkeypatch.setattr(fast, "compile", lambda *_: None)  # its own check is that of a first call
    host = function_of("unit.kernels", "def call(*args): kernel[(1,)](*args)", kernel=fast)
    from_model = function_of("unit", "def call(*args): host(*args)", host=host)
    by_hand = function_of("mine", "def call(*args): host(*args)", host=host)
    wrong = arguments(out_ptr=torch.zeros(3, 6, dtype=torch.bfloat16))
    from_model(*wrong)
    with pytest.raises(
        ValueError, match=r"out_ptr: expected \(n_rows, n_cols\), 15 elements, got shape \(3, 6\)"
    ):
        by_hand(*wrong)
    by_hand(*arguments())


@pytest.mark.skipif(
    not triton.__version__.startswith(("3.6.", "3.7.", "3.8.", "3.9.")), reason="Triton launches by itself"
)
def test_a_kernel_is_timed_as_its_unit_calls_it(runtime, monkeypatch):
    fast = runtime.FastLaunch(triton.runtime.jit.JITFunction(scale_kernel))
    monkeypatch.setattr(fast, "compile", lambda *_: None)
    host = function_of("unit.kernels", "def call(*args): kernel[(1,)](*args)", kernel=fast)
    host.__module__ = "unit.kernels.scale"
    wrong = arguments(out_ptr=torch.zeros(3, 6, dtype=torch.bfloat16))
    as_the_unit_calls(host)(*wrong)  # where it is checked, it raises
    with pytest.raises(ValueError, match="15 elements"):
        host(*wrong)
    assert as_the_unit_calls(torch.add) is torch.add


class Joined(nn.Module):
    """Tensors of two widths are joined, and the result is joined again: two limits of one axis."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        inner = torch.cat([torch.sigmoid(a), torch.tanh(b)], dim=1)
        return torch.cat([torch.relu(inner - 0.5), c], dim=1)


@pytest.mark.usefixtures("trial_runs")
def test_a_tensor_that_ends_at_the_nearer_of_two_limits(tmp_path):
    """Nobody knows which of two limits is the nearer, so no comment names one; the trial calls the kernel."""
    a, b, c = (torch.rand(1, n, 8, 9) for n in (3, 5, 6))
    longhand.generate(Joined(), (a, b, c), out=tmp_path / "unit", device="cuda", arch="sm_90")
    (kernel,) = (tmp_path / "unit" / "kernels").glob("[a-z]*.py")
    assert re.search(r"\n    a_ptr,  # float32, at most \(n_rows, n_cols\)\n", kernel.read_text())


def whole_rows(x: torch.Tensor) -> torch.Tensor:
    return x[:, 3:].sin().sum(-1)


def gated(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x[:, :5]) * x[:, 5:10]


def first_tokens(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x[:, :2])


def one_row(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) + table[7]


@pytest.mark.parametrize(
    ("function", "args", "wanted"),
    [
        (whole_rows, (torch.rand(4, 40),), "(n_rows, n_cols), rows x_stride apart"),
        (gated, (torch.rand(4, 40),), "2 parts, (n_rows, n_cols) each, rows x_stride apart"),
        (first_tokens, (torch.rand(4, 7, 12),), "(n_rows, n_cols), rows x_stride apart"),
        (one_row, (torch.rand(4, 12), torch.rand(9, 12)), "(n_cols,), from table_offset on"),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_part_of_a_larger_tensor_is_said_to_be_where_it_is(emit, device, function, args, wanted):
    """The tensor is larger than that, and no part of what is as large as that."""
    text = "\n".join(str(t) for path, t in emit(function, args, device=device).items() if "kernels/" in path)
    assert re.search(rf"(float32, | // *){re.escape(wanted)}\n", text), text
