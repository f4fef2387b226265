"""docs/architectures.md: ``python -m benchmarks.architecture_table --write docs/architectures.md``.

For each architecture of benchmarks.small_models: the graphs and breaks of longhand's own capture and of torch._dynamo
on the same call, whether results match eager's (graphs run by PyTorch), and whether the generated kernels do
(``longhand.compile(frontend="bytecode", fullgraph=True)``, strict, against float64). ``--results`` keeps what was
measured, so that a later run goes on from there. Exits 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import transformers

import longhand
from benchmarks.architectures import exact, tensors, worst
from benchmarks.small_models import SMALL_MODELS
from longhand.capture.bytecode.entries import Capture, Event, EventKind, forget_all
from longhand.errors import LonghandError

Found = dict[str, Any]
_MOST = 3e-5  # of a result's scale, where both run the same ATen calls in another order


def ours(name: str) -> Found:
    """Longhand's own capture, graphs in eager, two calls."""
    module, kwargs = _made(name)
    events: list[Event] = []
    capture = Capture(lambda graph, _: graph.forward, listener=events.append)
    forget_all()
    with torch.no_grad():
        expected = tensors(module(**kwargs))
        start = time.perf_counter()
        actual = [tensors(capture.call(module, (), kwargs)) for _ in range(2)]
        seconds = time.perf_counter() - start
    return {
        "graphs": sum(event.kind is EventKind.GRAPH for event in events),
        "breaks": _causes((event.record.where, event.record.reason) for event in events if event.record),
        "is_right": all(len(one) == len(expected) and worst(one, expected) <= _MOST for one in actual),
        "seconds": seconds,
    }


def dynamos(name: str) -> Found:
    """torch._dynamo.explain of the same call."""
    module, kwargs = _made(name)
    torch.compiler.reset()
    start = time.perf_counter()
    with torch.no_grad():
        found = torch._dynamo.explain(module)(**kwargs)
    seconds = time.perf_counter() - start
    torch.compiler.reset()
    places = [
        (
            f"{one.user_stack[-1].filename}:{one.user_stack[-1].lineno}" if one.user_stack else "",
            str(one.reason),
        )
        for one in found.break_reasons
        if one.graph_break
    ]
    return {"graphs": found.graph_count, "breaks": _causes(iter(places)), "seconds": seconds}


def kernels(name: str) -> Found:
    """Generated kernels, one graph, nothing in eager; against float64."""
    module, kwargs = _made(name)
    longhand.reset()
    start = time.perf_counter()
    with torch.no_grad():
        expected = tensors(module(**kwargs))
        try:
            compiled = longhand.compile(module, frontend="bytecode", fullgraph=True, options={"strict": True})
            actual = tensors(compiled(**kwargs))
        except LonghandError as error:
            return {"refusal": str(error).splitlines()[0], "seconds": time.perf_counter() - start}
        seconds = time.perf_counter() - start
        wide = exact(module, kwargs) or expected
    error, eagers = worst(actual, wide), worst(expected, wide)
    return {"error": error, "eager_error": eagers, "is_right": error <= 3 * eagers + 2e-6, "seconds": seconds}


def _made(name: str) -> tuple[torch.nn.Module, dict[str, Any]]:
    torch.manual_seed(0)
    return SMALL_MODELS[name]()


def _causes(places: Iterator[tuple[str, str]]) -> list[str]:
    """``modeling_x.py: reason``, each once, without lines and messages that differ between runs."""
    found = {}
    for where, reason in places:
        first = next((line.strip() for line in reason.splitlines() if line.strip()), "")
        file = os.path.basename(where.rpartition(":")[0])
        found[f"{file}: {first}" if file else first] = None
    return list(found)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    transformers.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def table(results: dict[str, Found]) -> str:
    """The Markdown of docs/architectures.md."""
    rows, causes = [], []
    for name in sorted(results):
        row = results[name]
        one, other, made = row.get("ours", {}), row.get("dynamo", {}), row.get("kernels")
        if "failure" in one:
            rows.append(f"| {name} | failed: {one['failure']} | | | | |")
            continue
        if made is None:
            text = "not run"
        elif "error" in made:
            text = f"{made['error']:.0e} ({made['eager_error']:.0e})" + (
                "" if made["is_right"] else " **wrong**"
            )
        else:
            text = "no: " + _cell(made.get("refusal") or made.get("failure", ""))
        rows.append(
            f"| {name} | {one['graphs']} | {len(one['breaks'])} | {'yes' if one['is_right'] else '**no**'} "
            f"| {other.get('graphs', '')} | {len(other['breaks']) if 'breaks' in other else ''} | {text} |"
        )
        causes += [f"- {name}, longhand: {_cell(cause)}" for cause in one["breaks"]]
        causes += [f"- {name}, torch._dynamo: {_cell(cause)}" for cause in other.get("breaks", [])]
    whole = [
        row
        for row in results.values()
        if row.get("ours", {}).get("graphs") == 1 and not row["ours"]["breaks"]
    ]
    right = [row for row in results.values() if row.get("ours", {}).get("is_right")]
    ran = [row["kernels"] for row in results.values() if "error" in row.get("kernels", {})]
    dynamo_whole = [
        row
        for row in results.values()
        if row.get("dynamo", {}).get("graphs") == 1 and not row["dynamo"]["breaks"]
    ]
    return _HEAD.format(
        n=len(results),
        n_right=len(right),
        n_whole=len(whole),
        n_dynamo=len(dynamo_whole),
        n_ran=len(ran),
        n_kernels_right=sum(one["is_right"] for one in ran),
        rows="\n".join(rows),
        causes="\n".join(causes) or "None.",
        torch=torch.__version__.partition("+")[0],
        transformers=transformers.__version__,
    )


def _cell(text: str) -> str:
    return re.sub(r"\S*/site-packages/", "", text).replace("|", "\\|")[:200]


_HEAD = """# Architectures of transformers through longhand's own capture

Made by `python -m benchmarks.architecture_table --write docs/architectures.md` on a CPU with PyTorch {torch} and
transformers {transformers}: small configurations, random weights, inference without gradients.

{n} architectures; {n_right} give eager's results on two calls (graphs run by PyTorch). One graph without a break:
{n_whole} through longhand's capture, {n_dynamo} through torch._dynamo. The last column is
`longhand.compile(model, frontend="bytecode", fullgraph=True, options={{"strict": True}})`: the largest difference of
a result from float64 relative to its scale, and eager's own; {n_kernels_right} of the {n_ran} that ran are as near as
eager is (at most 3 times its error and 2e-6).

| architecture | graphs | breaks | as eager | Dynamo's graphs | breaks | generated kernels: error (eager's) |
|---|---|---|---|---|---|---|
{rows}

## Why they break

{causes}
"""


def main() -> int:
    """Measures what is missing, then prints or writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="architectures; all by default")
    parser.add_argument("--parts", default="ours,dynamo,kernels", help="what to measure")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="start nothing more after so long"
    )
    parser.add_argument("--results", type=Path, help="a JSON file to go on from")
    parser.add_argument("--more", type=Path, help="another one, whose results are added")
    parser.add_argument("--write", type=Path, help="the Markdown file")
    options = parser.parse_args()
    results: dict[str, Found] = {}
    if options.results is not None and options.results.exists():
        results = json.loads(options.results.read_text())
    if options.more is not None:
        for name, row in json.loads(options.more.read_text()).items():
            results[name] = {**results.get(name, {}), **row}
    every: dict[str, Callable[[str], Found]] = {"ours": ours, "dynamo": dynamos, "kernels": kernels}
    parts = {part: every[part] for part in options.parts.split(",") if part}
    began = time.perf_counter()
    for part, measure in parts.items():
        for name in options.names or SMALL_MODELS:
            if part in results.get(name, {}) or time.perf_counter() - began > options.seconds:
                continue
            with _quiet():
                try:
                    found = measure(name)
                except Exception as error:
                    found = {"failure": f"{type(error).__name__}: {error}".splitlines()[0]}
            results.setdefault(name, {})[part] = found
            print(f"{name:<20} {part:<8} {found}"[:230], flush=True)
            if options.results is not None:
                options.results.write_text(json.dumps(results))
    if options.write is not None:
        options.write.write_text(table(results))
    wrong = [name for name, row in results.items() if row.get("ours", {}).get("is_right") is False]
    wrong += [name for name, row in results.items() if row.get("kernels", {}).get("is_right") is False]
    print(f"wrong: {', '.join(wrong) or 'none'}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
