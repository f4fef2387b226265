"""Trains a unit with norms for the GPU on CPU tensors; started by test_norm_backward.py with TRITON_INTERPRET=1.

``python norm_backward_worker.py FOLDER NORM DTYPE``: generates the unit there, takes a step twice, compares gradients
with eager's in float64, and prints the kernels that add up columns while they hold rows.
"""

import copy
import importlib
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

import longhand
from longhand.verify.interpretation import mend_interpreter

# Odd on purpose: the last of the chunks of rows is short, and columns are no power of two.
ROWS, COLS = (7, 91), 70
FACTOR = 2  # times eager's own error


class Residual(nn.Module):
    """A product of what is normalized, beside the stream that it came from."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm
        self.mix = nn.Linear(COLS, COLS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mix(self.norm(x))


def gradients(model: nn.Module, x: torch.Tensor, dy: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad(set_to_none=True)
    x = x.detach().requires_grad_()
    model(x).backward(dy)
    found = {path: parameter.grad for path, parameter in model.named_parameters()}
    return {"x": x.grad, **found}


def main(folder: Path, norm: str, dtype: torch.dtype) -> None:
    mend_interpreter()
    torch.manual_seed(0)
    kinds: dict[str, Any] = {"layer_norm": nn.LayerNorm, "rms_norm": nn.RMSNorm}
    original = Residual(kinds[norm](COLS))
    for parameter in original.norm.parameters():
        nn.init.uniform_(parameter, 0.5, 1.5)
    original = original.to(dtype)
    x, dy = torch.randn(*ROWS, COLS, dtype=dtype), torch.randn(*ROWS, COLS, dtype=dtype)
    given = x.clone().requires_grad_()
    out = folder / norm
    longhand.generate(original, (given,), out=out, device="cuda", arch="sm_90", train=True, run=False)
    sys.path.insert(0, str(folder))
    package = importlib.import_module(norm)
    module = sys.modules[f"{norm}.model"]
    for name in ("check_tensor", "check_weights"):
        if hasattr(module, name):
            setattr(module, name, lambda *args, **kwargs: None)
    unit = getattr(module, package.__all__[0])()
    unit.load_state_dict(original.state_dict())
    ours, again, eager = gradients(unit, x, dy), gradients(unit, x, dy), gradients(original, x, dy)
    exact = gradients(copy.deepcopy(original).double(), x.double(), dy.double())
    for path, theirs in eager.items():
        scale = exact[path].abs().max().item()
        error, allowed = ((one.double() - exact[path]).abs().max().item() for one in (ours[path], theirs))
        allowed = max(FACTOR * allowed, 2 * scale * torch.finfo(dtype).eps)
        assert error <= allowed, f"{path}: error {error:.3g}, allowed {allowed:.3g}"
        assert torch.equal(ours[path], again[path]), f"{path} differs from run to run"
    texts = {path.stem: path.read_text() for path in (folder / norm / "kernels").glob("*.py")}
    print(" ".join(sorted(name for name, text in texts.items() if "adds up their columns" in text)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], getattr(torch, sys.argv[3]))
