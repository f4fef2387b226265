"""A template for contractions is modules of its own and a line in the list: one is added to a copy of the product.

docs/adding_a_contraction_template.md tells it as a story; its files stand in numpy_product/, as they would in the
product: `schedule/contractions/numpy_product.py` says what it takes, and a language prints it as one kernel.
"""

from __future__ import annotations

from pathlib import Path

from tests.checkout import checkout_with, use

ADDED = Path(__file__).resolve().parent / "numpy_product"
TOUCHED = {
    "schedule/contractions/registry.py": {
        "from longhand.lower.ir import Contraction\n": "from longhand.schedule.contractions import numpy_product\n",
        "TEMPLATES: tuple[ContractionTemplate, ...] = (": "numpy_product.TEMPLATE,",
    },
}
USE = """
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

import longhand
import numpy_arrays
from longhand.verify.verification import verify


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(6, 10)
        self.down = torch.nn.Linear(10, 6)
        self.seen = torch.nn.Conv2d(2, 4, 3, padding=1)

    def forward(self, x: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = torch.tanh(self.up(x)) * 0.5
        return x + self.down(hidden), torch.relu(self.seen(image)) * 2


def example():
    torch.manual_seed(0)
    return Layers().eval(), (torch.randn(3, 5, 6), torch.randn(2, 2, 5, 6))


if __name__ == "__main__":
    out = Path(sys.argv[1])
    model, given = example()
    for device in ("cpu", "numpy"):
        longhand.generate(model, given, out=out / f"on_{device}", device=device, factory="use:example")
    unit = longhand.load(out / "on_numpy")()
    unit.load_state_dict(model.state_dict())
    for found, wanted in zip(unit(*given), model(*given), strict=True):
        torch.testing.assert_close(found, wanted)
    report = verify(out / "on_numpy")
    assert report.is_right and report.kernels, report
"""


def test_modules_and_a_line_are_a_template_with_an_epilogue(tmp_path: Path) -> None:
    assert len(TOUCHED) == 1  # files beside its own
    own = list(ADDED.rglob("*.py"))
    assert len(own) == 2  # the template, and its printer
    checkout_with(TOUCHED, tmp_path / "checkout", ADDED)
    done = use(tmp_path / "checkout", USE, tmp_path)
    assert done.returncode == 0, done.stderr
    kernels = [path.read_text() for path in sorted((tmp_path / "on_numpy" / "kernels").glob("*.py"))]
    products = [text for text in kernels if "np.sum(" in text]
    assert len(products) == 3  # up with its tanh, down with its residual, the convolution with its relu
    assert sum("np.tanh(" in text for text in products) == 1
    assert sum("np.maximum(" in text for text in products) == 1
    model = (tmp_path / "on_numpy" / "model.py").read_text()
    assert "F.linear" not in model and "conv2d" not in model
    by_library = (tmp_path / "on_cpu" / "model.py").read_text()  # nobody has a template there
    assert "F.linear" in by_library and "conv2d" in by_library
