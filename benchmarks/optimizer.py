"""An AdamW step side by side: torch.optim in its three ways, torch.compile and longhand, in one process.

python -m benchmarks.optimizer --out results [--device cuda|cpu] [--size small|default] [--dtype float32] [--turns 7]

All parameters of the GPT in examples/gpt.py (148 tensors, 124M elements at the default size) and random gradients,
which stay. Each contender has tensors of its own; after three steps they are compared with float64, by the rule of
`longhand verify`, and only then timed. Memory: 16 bytes a parameter and contender, 32 for the float64 reference.
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import longhand
from benchmarks import report
from examples import adamw
from longhand.tune.bench import time_side_by_side
from longhand.verify.comparison import compare

SIZES = {"small": (512, 128, 128, 4), "default": (50257, 1024, 768, 12)}
OPTIONS = {"lr": 1e-3, "betas": (adamw.BETA1, adamw.BETA2), "eps": adamw.EPS, "weight_decay": adamw.DECAY}
CHECKED_STEPS = 3

Step = Callable[[], object]
Contender = Callable[[list[torch.Tensor], list[torch.Tensor]], Step]


def of_torch(**options: bool) -> Contender:
    """The step of torch.optim.AdamW."""

    def make(params: list[torch.Tensor], grads: list[torch.Tensor]) -> Step:
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad
        step: Step = torch.optim.AdamW(params, **OPTIONS, **options).step
        return step

    return make


def of_function(compiler: Callable[..., Callable[..., object]]) -> Contender:
    """The step of examples/adamw.py, compiled."""

    def make(params: list[torch.Tensor], grads: list[torch.Tensor]) -> Step:
        averages = [[torch.zeros_like(param) for param in params] for _ in range(2)]
        step, lr = (torch.tensor(number, device=params[0].device) for number in (0.0, OPTIONS["lr"]))
        update = compiler(adamw.adamw)
        return lambda: update(params, grads, *averages, step, lr)

    return make


CONTENDERS: dict[str, Contender] = {
    "loop": of_torch(foreach=False),
    "foreach": of_torch(foreach=True),
    "fused": of_torch(fused=True),
    "torch.compile": of_function(torch.compile),
    "longhand": of_function(longhand.compile),
}


def tensors(size: str, dtype: torch.dtype, device: str) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The same parameters and gradients every time."""
    generator = torch.Generator().manual_seed(0)
    lists = [
        [
            torch.randn(shape, generator=generator).to(device, dtype)
            for shape in adamw.gpt_shapes(*SIZES[size])
        ]
        for _ in range(2)
    ]
    return lists[0], lists[1]


def after_steps(make: Contender, params: list[torch.Tensor], grads: list[torch.Tensor]) -> Step:
    """The step, after it was taken a few times."""
    step = make(params, grads)
    for _ in range(CHECKED_STEPS):
        step()
    return step


def measure(size: str, dtype: torch.dtype, device: str, n_turns: int) -> dict[str, dict[str, Any]]:
    """Milliseconds by contender: the median and the minimum; and why others failed."""
    exact, exact_grads = tensors(size, dtype, device)
    exact = [param.double() for param in exact]
    after_steps(of_torch(foreach=False), exact, [grad.double() for grad in exact_grads])
    eager, eager_grads = tensors(size, dtype, device)
    after_steps(of_torch(foreach=False), eager, eager_grads)
    ready: dict[str, Step] = {}
    failures: dict[str, str] = {}
    for name, make in CONTENDERS.items():
        params, grads = tensors(size, dtype, device)
        try:
            step = after_steps(make, params, grads)
        except Exception as error:
            failures[name] = f"{type(error).__name__}: {error}"
            continue
        comparisons = [
            compare(f"parameter {place}", *each)
            for place, each in enumerate(zip(params, eager, exact, strict=True))
        ]
        wrong = [comparison for comparison in comparisons if not comparison.is_right]
        if wrong:
            failures[name] = f"{wrong[0].name}: error {wrong[0].error:.2e}, allowed {wrong[0].bound:.2e}"
        else:
            ready[name] = step
    del exact, exact_grads, eager, eager_grads
    gc.collect()
    times = time_side_by_side(ready, device=device, n_turns=n_turns)
    return {
        "milliseconds": {name: (one.median, one.minimum) for name, one in times.items()},
        "failures": failures,
    }


def table(found: dict[str, dict[str, Any]]) -> list[list[str]]:
    """A row for each contender; what failed says why."""
    rows = [["contender", "ms a step"]]
    for name in CONTENDERS:
        if name in found["milliseconds"]:
            median, minimum = found["milliseconds"][name]
            rows.append([name, f"{median:.3f} ({minimum:.3f})"])
        else:
            rows.append([name, found["failures"][name]])
    return rows


def main() -> None:
    """Measures and prints; writes OUT/optimizer.json."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", choices=SIZES, default="default")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--write-results", action="store_true", help="also into benchmarks/RESULTS.md")
    options = parser.parse_args()
    with torch.no_grad():
        measured = measure(options.size, getattr(torch, options.dtype), options.device, options.turns)
    options.out.mkdir(parents=True, exist_ok=True)
    told = {
        "machine": report.machine(options.device),
        "size": options.size,
        "dtype": options.dtype,
        **measured,
    }
    (options.out / "optimizer.json").write_text(json.dumps(told, indent=1) + "\n")
    rows = table(measured)
    print(told["machine"])
    report.print_table(rows)
    if options.write_results:
        title = "Optimizer step, GPU" if options.device == "cuda" else "Optimizer step, CPU"
        note = f"AdamW over 148 tensors, size {options.size}, {options.dtype}: medians (minima) in ms."
        report.write_section(title, options.device, rows, [note])


if __name__ == "__main__":
    main()
