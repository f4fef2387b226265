"""How many lines of generated code a small change of the model changes: longhand's beside torch.compile's.

    python -m benchmarks.diff_size [--device cpu] [--skip-torch-compile] [--show ROW]

A transformer of six layers is generated; then, for each row, it is changed and generated again over what is there.
Counted are the lines that a review shows, added and removed, in model.py, backward.py and kernels/. For torch.compile
it is the same count over the code that Inductor writes for the same two models, on the CPU.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch
import torch._inductor.config
from torch._inductor.utils import run_and_get_code

import longhand
from benchmarks import report

MODEL = """
import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        batch, seq, dim = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(batch, seq, self.n_heads, -1).transpose(1, 2)
        k = k.view(batch, seq, self.n_heads, -1).transpose(1, 2)
        v = v.view(batch, seq, self.n_heads, -1).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) * (dim // self.n_heads) ** -0.5
        weights = torch.softmax(scores, dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, seq, dim)
        return self.proj(mixed)


class Mlp(nn.Module):
    def __init__(self, dim, act):
        super().__init__()
        self.widen = nn.Linear(dim, 4 * dim)
        self.act = act
        self.narrow = nn.Linear(4 * dim, dim)

    def forward(self, x):
        hidden = self.act(self.widen(x))
        return self.narrow(hidden)


class Block(nn.Module):
    def __init__(self, dim, n_heads, act):
        super().__init__()
        self.norm_1 = nn.LayerNorm(dim)
        self.attention = Attention(dim, n_heads)
        self.norm_2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, act)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        x = x + self.mlp(self.norm_2(x))
        return x


class Transformer(nn.Module):
    def __init__(self, dim=64, n_heads=4, n_layers=6):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim, n_heads, nn.GELU()) for _ in range(n_layers))
        self.final = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 100)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(self.final(x))


def make():
    model = Transformer()
    return model.eval(), (torch.randn(4, 32, 64),)
"""

# What changes in the model's text: (row, what stands there, what comes in its place).
CHANGES = (
    ("nothing", "", ""),
    (
        "a comment above forward",
        "    def forward(self, x):\n        for",
        "    # From here on.\n    def forward(self, x):\n        for",
    ),
    ("a renamed local", "mixed", "blended"),
    (
        "GELU -> ReLU in one layer",
        "    return model.eval()",
        "    model.blocks[3].mlp.act = nn.ReLU()\n    return model.eval()",
    ),
    ("tanh on the input", "        for block", "        x = torch.tanh(x)\n        for block"),
    (
        "subtract the batch mean",
        "        for block",
        "        x = x - x.mean(dim=0, keepdim=True)\n        for block",
    ),
    ("6 -> 8 layers", "n_layers=6", "n_layers=8"),
    ("another batch size", "torch.randn(4,", "torch.randn(16,"),
)


def main() -> None:
    """Prints the table; exits with 1 if a row is more than a third of torch.compile's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="what longhand writes for: cpu or cuda")
    parser.add_argument("--skip-torch-compile", action="store_true", help="longhand's column only")
    parser.add_argument("--show", default="", help="print the diff of the rows that contain this")
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sys.exit(_table(folder, options.device, options.skip_torch_compile, options.show))


def _table(folder: Path, device: str, skip: bool, shown: str) -> int:
    old = load(folder / "before", MODEL)
    unit = folder / "unit"
    generate(old, unit, device)
    ours_before = text_of(unit)
    theirs_before = {} if skip else inductor_text(old)
    print(report.machine("cpu"))
    print(f"{'':28} {'longhand':>9} {'torch.compile':>14}")
    is_met = True
    for number, (row, before, after) in enumerate(CHANGES):
        new = load(folder / f"after_{number}", MODEL.replace(before, after) if before else MODEL)
        again = folder / f"unit_{number}" / "unit"
        shutil.copytree(unit, again)
        generate(new, again, device)
        ours = diff(ours_before, text_of(again))
        theirs = [] if skip else diff(theirs_before, inductor_text(new))
        is_met &= skip or 3 * len(ours) <= len(theirs)
        print(f"{row:28} {len(ours):9} {'' if skip else len(theirs):>14}", flush=True)
        if shown and shown in row:
            print("\n".join(ours))
    sizes = [sum(text.count("\n") for text in texts.values()) for texts in (ours_before, theirs_before)]
    print(f"{'(lines in all)':28} {sizes[0]:9} {'' if skip else sizes[1]:>14}")
    return 0 if is_met else 1


def load(folder: Path, text: str) -> ModuleType:
    """The model's module, from a file so that its source can be quoted."""
    folder.mkdir()
    path = folder / "transformer.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("transformer", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["transformer"] = module
    spec.loader.exec_module(module)
    return module


def generate(module: ModuleType, out: Path, device: str) -> None:
    """Writes the unit, or brings it up to date."""
    make: Callable[[], tuple[torch.nn.Module, tuple[torch.Tensor, ...]]] = module.make
    model, args = make()
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(model, args, out=out, device=device, arch=arch, factory="transformer:make")


def text_of(unit: Path) -> dict[str, str]:
    """What counts, by path."""
    paths = [unit / "model.py", unit / "backward.py", *sorted((unit / "kernels").glob("*.*"))]
    return {path.relative_to(unit).as_posix(): path.read_text() for path in paths if path.is_file()}


def inductor_text(module: ModuleType) -> dict[str, str]:
    """The code that Inductor writes for the model."""
    model, args = module.make()
    torch.compiler.reset()
    # A cache would hand out the code of an earlier model that is equal up to names, comments and all.
    with torch.no_grad(), torch._inductor.config.patch(force_disable_caches=True):
        _, codes = run_and_get_code(torch.compile(model), *args)
    return {"output_code.py": "\n".join(codes)}


def diff(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Added and removed lines, each beginning with + or -."""
    changed_lines = []
    for path in sorted({*before, *after}):
        old, new = (texts.get(path, "").splitlines() for texts in (before, after))
        lines = list(difflib.unified_diff(old, new, lineterm="", n=0))[2:]
        changed_lines += [f"{line[0]} {path}: {line[1:]}" for line in lines if not line.startswith("@@")]
    return changed_lines


if __name__ == "__main__":
    main()
