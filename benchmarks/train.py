"""A training step side by side: eager, torch.compile (its default mode) and longhand, in one process.

python -m benchmarks.train --out results [--device cuda|cpu] [--units generated] [--only gpt] [--turns 7]

A step is the forward pass, the backward pass and zero_grad(set_to_none=True); no optimizer. Gradients are checked
first, by the rule of `longhand verify` against float64. Units that are not there are generated. Peak memory (CUDA) is
max_memory_allocated over a step after warm-up, with what stands before the step (weights, inputs) subtracted.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import gc
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn

import longhand
from benchmarks import report
from benchmarks.cases import GALLERY, example
from longhand.factory import Call
from longhand.loading import bound
from longhand.tune.bench import time_side_by_side
from longhand.verify.comparison import compare

EXAMPLES = ("gpt_train", "resnet_block_train")
_WARM_UP = 3


@dataclasses.dataclass(frozen=True)
class Result:
    """One example, measured.

    Attributes:
        name: The example's.
        milliseconds: By contender, the median and the minimum of a step.
        peak_bytes: By contender, on CUDA: the most that a step allocates beyond what stands before it.
        failures: By contender that was not timed: why.
    """

    name: str
    milliseconds: dict[str, tuple[float, float]]
    peak_bytes: dict[str, int]
    failures: dict[str, str]


class Step:
    """One training step of a callable, with the same gradients of its results every time.

    Args:
        run: The model, or what stands for it.
        owner: The module whose parameters are trained.
        call: The arguments.
    """

    def __init__(self, run: Callable[..., Any], owner: nn.Module, call: Call) -> None:
        self.run = run
        self.owner = owner
        self.args = pytree.tree_map_only(
            torch.Tensor, lambda t: t.detach().clone().requires_grad_(t.requires_grad), call.args
        )
        self.kwargs = call.kwargs
        self.gradient: torch.Tensor | None = None

    def backward(self) -> torch.Tensor:
        """Forward and backward; the gradients are left in place."""
        result: torch.Tensor = self.run(*self.args, **self.kwargs)
        if self.gradient is None:
            generator = torch.Generator(result.device).manual_seed(0)
            ones = torch.ones(result.shape, device=result.device, dtype=torch.float32)
            noise = ones if not result.shape else ones.normal_(generator=generator)
            self.gradient = noise.to(result.dtype)
        result.backward(self.gradient)
        return result

    def clear(self) -> None:
        """zero_grad, of the arguments too."""
        self.owner.zero_grad(set_to_none=True)
        for arg in pytree.tree_leaves(self.args):
            if isinstance(arg, torch.Tensor):
                arg.grad = None

    def __call__(self) -> None:
        self.backward()
        self.clear()

    def found(self) -> dict[str, torch.Tensor]:
        """The result and all gradients of one step."""
        result = self.backward()
        tensors = {"result": result.detach()}
        for place, arg in enumerate(pytree.tree_leaves(self.args)):
            if isinstance(arg, torch.Tensor) and arg.grad is not None:
                tensors[f"argument {place}"] = arg.grad
        for name, parameter in self.owner.named_parameters():
            if parameter.grad is not None:
                tensors[name] = parameter.grad
        self.clear()
        return tensors


def what_is_wrong(
    ours: dict[str, torch.Tensor], eager: dict[str, torch.Tensor], exact: dict[str, torch.Tensor]
) -> str:
    """The first result or gradient that is farther off than the rule allows; empty if none is."""
    for name, theirs in eager.items():
        mine = ours.get(name)
        if mine is None:
            return f"{name} has no gradient"
        comparison = compare(name, mine, theirs, exact[name])
        if not comparison.is_right:
            return comparison.note or f"{name}: error {comparison.error:.2e}, allowed {comparison.bound:.2e}"
    return ""


def exact_gradients(call: Call) -> dict[str, torch.Tensor]:
    """The same step in float64, kept on the CPU."""
    owner = copy.deepcopy(call.model)
    assert isinstance(owner, nn.Module)
    owner.double()
    args = pytree.tree_map_only(
        torch.Tensor,
        lambda t: t.detach().double().requires_grad_(t.requires_grad) if t.is_floating_point() else t,
        call.args,
    )
    step = Step(owner, owner, Call(owner, args, call.kwargs))
    return {name: tensor.cpu() for name, tensor in step.found().items()}


def peak_of(step: Step) -> int:
    """Bytes that a step allocates at most beyond what stands before it."""
    for _ in range(_WARM_UP):
        step()
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def measure(name: str, folder: Path, device: str, n_turns: int) -> Result:
    """Checks the gradients of each contender, then times those that passed."""
    torch.manual_seed(0)
    call = example(f"examples.{name}:{'default' if device == 'cuda' else 'small'}", device)
    model = call.model
    assert isinstance(model, nn.Module)
    if not (folder / "longhand.lock").exists():
        longhand.generate(model, call.args, call.kwargs, out=folder, device=device, train=True)
    unit = bound(longhand.load(folder), model)
    assert isinstance(unit, nn.Module)
    torch.compiler.reset()
    steps = {
        "eager": Step(model, model, call),
        "torch.compile": Step(torch.compile(model), model, call),
        "longhand": Step(unit, unit, call),
    }
    exact = exact_gradients(call)
    eager = {key: tensor.cpu() for key, tensor in steps["eager"].found().items()}
    ready: dict[str, Step] = {}
    failures: dict[str, str] = {}
    for contender, step in steps.items():
        try:
            ours = {key: tensor.cpu() for key, tensor in step.found().items()}
            if wrong := what_is_wrong(ours, eager, exact):
                failures[contender] = wrong
            # A contender that rounds worse is still worth a time.
            ready[contender] = step
        except Exception as error:
            failures[contender] = (
                f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            )
    peaks = {contender: peak_of(step) for contender, step in ready.items()} if device == "cuda" else {}
    times = time_side_by_side(ready, device=device, n_turns=n_turns)
    milliseconds = {contender: (measured.median, measured.minimum) for contender, measured in times.items()}
    return Result(name, milliseconds, peaks, failures)


def table(results: list[Result]) -> list[list[str]]:
    """Median (minimum) milliseconds of a step and peak memory, each contender a column."""
    names = ("eager", "torch.compile", "longhand")
    rows = [["case", *names]]
    for result in results:
        cells = [f"{m[0]:.3f} ({m[1]:.3f})" if (m := result.milliseconds.get(n)) else "failed" for n in names]
        rows.append([f"{result.name}, ms a step", *cells])
        if result.peak_bytes:
            cells = [f"{p / 2**20:.0f}" if (p := result.peak_bytes.get(n)) else "failed" for n in names]
            rows.append([f"{result.name}, peak MiB", *cells])
    return rows


def main() -> None:
    """Measures, writes train.json, prints the table last."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for train.json")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--units", type=Path, default=GALLERY)
    parser.add_argument("--only", default="", help="words; examples whose name has one of them")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--write-results", action="store_true", help="also into benchmarks/RESULTS.md")
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("high")  # TF32 products for everybody
    words = [word for word in arguments.only.split(",") if word]
    results = []
    with tempfile.TemporaryDirectory() as workshop:
        for name in EXAMPLES:
            if words and not any(word in name for word in words):
                continue
            folder = arguments.units / f"{name}_{arguments.device}"
            if not (folder / "longhand.lock").exists():
                folder = Path(workshop) / f"{name}_{arguments.device}"
            result = measure(name, folder, arguments.device, arguments.turns)
            results.append(result)
            for contender, failure in result.failures.items():
                print(f"{name}: {contender}: {failure}", flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": report.machine(arguments.device),
        "results": [dataclasses.asdict(result) for result in results],
    }
    (arguments.out / "train.json").write_text(json.dumps(content, indent=1) + "\n")
    rows = table(results)
    notes = ["Forward, backward and zero_grad, without an optimizer: medians (minima)."]
    if arguments.write_results:
        device = arguments.device
        report.write_section(f"Training, {'GPU' if device == 'cuda' else 'CPU'}", device, rows, notes)
    print(report.machine(arguments.device), *notes, sep="\n")
    report.print_table(rows)


if __name__ == "__main__":
    main()
