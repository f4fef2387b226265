"""What longhand's own capture costs beside torch's Dynamo: ``python -m benchmarks.capture_cost``.

A call of a compiled one-op function (guards and dispatch; both compile it with their own backend, and once more with
graphs that run in eager), and the capture of GPT-2 with 12 layers. One process, taking turns, medians.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import fx, nn

import longhand
from benchmarks import report
from longhand.capture.bytecode.entry.entries import Capture, forget_all

Run = Callable[[], object]


def add_one(x: torch.Tensor) -> torch.Tensor:
    """The one op."""
    return x + 1


def add_one_too(x: torch.Tensor) -> torch.Tensor:
    """The same: each compiler has a function of its own."""
    return x + 1


def _eager(module: fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
    return module.forward


def microseconds_a_call(runs: dict[str, Run], turns: int, calls: int = 2000) -> dict[str, float]:
    """The median over the turns of each one's mean over the calls of a turn."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(turns):
        for name, run in runs.items():
            start = time.perf_counter()
            for _ in range(calls):
                run()
            times[name].append((time.perf_counter() - start) / calls * 1e6)
    return {name: statistics.median(means) for name, means in times.items()}


def one_op(turns: int) -> dict[str, float]:
    """Microseconds a call of ``x + 1`` on 8 elements."""
    x = torch.randn(8)
    capture = Capture(_eager)
    functions: dict[str, Callable[..., Any]] = {
        "eager": add_one,
        "torch.compile": torch.compile(add_one),
        "torch.compile, graphs in eager": torch.compile(add_one, backend=_eager),
        "longhand": longhand.compile(add_one_too, frontend="bytecode", options={"strict": True}),
        "longhand, graphs in eager": lambda x: capture.call(add_one_too, (x,), {}),
    }
    with torch.no_grad():
        for function in functions.values():
            for _ in range(3):
                function(x)
        runs = {name: (lambda function=function: function(x)) for name, function in functions.items()}
        return microseconds_a_call(runs, turns)


def gpt2(n_layers: int) -> tuple[nn.Module, dict[str, Any]]:
    """GPT-2 of the published width, with random weights."""
    config = transformers.GPT2Config(n_layer=n_layers, use_cache=False)
    return transformers.GPT2LMHeadModel(config).eval(), {"input_ids": torch.randint(0, 50257, (1, 64))}


def seconds_to_capture(turns: int, n_layers: int = 12) -> dict[str, float]:
    """Seconds from the first call until the graph is handed over, graphs in eager; the call itself not counted."""
    model, kwargs = gpt2(n_layers)
    times: dict[str, list[float]] = {"torch._dynamo": [], "longhand": []}
    with torch.no_grad():
        for _ in range(turns):
            for name in times:
                torch.compiler.reset()
                forget_all()
                ended: list[float] = []

                def backend(
                    module: fx.GraphModule, _: list[Any], ended: list[float] = ended
                ) -> Callable[..., Any]:
                    ended.append(time.perf_counter())
                    return module.forward

                start = time.perf_counter()
                if name == "longhand":
                    Capture(backend, fullgraph=True).call(model, (), kwargs)
                else:
                    torch.compile(model, backend=backend, fullgraph=True)(**kwargs)
                times[name].append(ended[-1] - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def main() -> int:
    """Prints both; 1 if longhand's costs more than torch's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--capture-turns", type=int, default=3)
    parser.add_argument("--layers", type=int, default=12)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{report.machine('cpu')}, transformers {transformers.__version__}")
    print(f"a call of x + 1 on 8 elements, microseconds (median of {options.turns} turns)")
    calls = one_op(options.turns)
    for name, cost in calls.items():
        print(f"  {name:<32} {cost:8.1f}")
    print(f"capture of GPT-2 with {options.layers} layers, seconds (median of {options.capture_turns} turns)")
    captures = seconds_to_capture(options.capture_turns, options.layers)
    for name, cost in captures.items():
        print(f"  {name:<32} {cost:8.2f}")
    pairs = [
        (calls["longhand"], calls["torch.compile"]),
        (calls["longhand, graphs in eager"], calls["torch.compile, graphs in eager"]),
        (captures["longhand"], captures["torch._dynamo"]),
    ]
    print("longhand / torch: " + ", ".join(f"{ours / theirs:.2f}" for ours, theirs in pairs))
    return int(any(ours > theirs for ours, theirs in pairs))


if __name__ == "__main__":
    sys.exit(main())
