"""A primitive is an entry and a spelling: this one is written into two files of a copy of the product, and runs there.

docs/adding_an_op.md tells it as a story. The copy is a checkout of its own, in a process of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkout import checkout_with, use

# What is written, by file: after this line, that line.
ENTRY = {
    '    ERFC = "erfc"\n': '    LGAMMA = "lgamma"\n',
    "    Op.ERFC: Primitive(torch.erfc, cost=Cost.HEAVY),\n": (
        '    Op.LGAMMA: Primitive(torch.lgamma, noun="log_gamma", cost=Cost.HEAVY, keeps_nan=True),\n'
    ),
}
SPELLING = {
    '    Op.ERFC: Function(triton="libdevice.erfc", cpp="erfc"),\n': (
        '    Op.LGAMMA: Function(triton="libdevice.lgamma", cpp="std::lgamma"),\n'
    )
}
TOUCHED = {"lower/ops.py": ENTRY, "emit/text/function_names.py": SPELLING}

# The operator: a lowering is found by its decorator, wherever it stands.
USE = """
import sys
from pathlib import Path

import torch

import longhand
from longhand.lower.context import Context
from longhand.lower.lowerings.pointwise import apply
from longhand.lower.ops import PointwiseOp
from longhand.lower.registry import lowers
from longhand.lower.views import TensorView


@lowers(torch.ops.aten.lgamma.default)
def lgamma(ctx: Context, x: TensorView) -> TensorView:
    return ctx.pointwise([x], lambda value: apply(PointwiseOp.LGAMMA, value))


class Gamma(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.lgamma(x + 1) * 2


x = torch.tensor([0.0, -1.0, -0.5, 1.0, 3.7, 1e-30, 88.0, 3e38, torch.inf, -torch.inf, torch.nan]).repeat(3)
out = Path(sys.argv[1])
longhand.generate(Gamma(), (x,), out=out / "on_cpu")
longhand.generate(Gamma(), (x,), out=out / "on_cuda", device="cuda", arch="sm_90", run=False)
unit = longhand.load(out / "on_cpu")()
torch.testing.assert_close(unit(x), Gamma()(x), equal_nan=True)
"""


def test_an_entry_and_a_spelling_are_an_op(tmp_path: Path) -> None:
    assert len(TOUCHED) == 2
    checkout_with(TOUCHED, tmp_path / "checkout")
    done = use(tmp_path / "checkout", USE, tmp_path)
    assert done.returncode == 0, done.stderr
    (cpp,) = (tmp_path / "on_cpu" / "kernels").glob("*.cpp")
    assert "std::lgamma(" in cpp.read_text()
    faces = [*(tmp_path / "on_cuda" / "kernels").glob("*.py"), cpp.with_suffix(".py")]
    triton, reference = ("".join(path.read_text() for path in part) for part in (faces[:-1], faces[-1:]))
    assert "libdevice.lgamma(" in triton and "@triton.jit" in triton
    assert "torch.lgamma(" in reference


@pytest.mark.parametrize("left_out", TOUCHED)
def test_neither_file_is_enough(left_out: str, tmp_path: Path) -> None:
    checkout_with({path: added for path, added in TOUCHED.items() if path != left_out}, tmp_path / "checkout")
    done = use(tmp_path / "checkout", USE, tmp_path)
    if left_out == "lower/ops.py":
        assert done.returncode != 0 and "LGAMMA" in done.stderr
    else:  # a printer without a spelling costs the kernel, and says so
        assert not list((tmp_path / "on_cpu" / "kernels").glob("*.cpp")), done.stderr
