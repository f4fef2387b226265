"""What many layers cost: `gpt` of 48 layers against 2, stage by stage, and how long model.py is.

    python -m benchmarks.layers [--turns 5] [--device cpu]

Each is generated in a process of its own (imports and first uses counted) and then in turns in one process that has
generated both before (nothing but the work itself). Capture is shown beside the rest, and not part of the ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import longhand
from examples.gpt import GPT

FEW, MANY = 2, 48
_STAGES = ("capture", "lower", "schedule", "emit", "write")


def main() -> None:
    """Prints the table, or with --layers the seconds of one compilation as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=5, help="how often each is generated")
    parser.add_argument("--device", default="cpu", help="what is written for: cpu or cuda")
    parser.add_argument("--layers", type=int, help="generate that many layers once, and print JSON")
    options = parser.parse_args()
    if options.layers is not None:
        print(json.dumps(generated(options.layers, options.device)[0]))
        return
    # Imported here: what is measured in a fresh process pays for its imports itself.
    from benchmarks import report

    print(report.machine("cpu"))
    print(f"{'seconds':24}" + "".join(f"{stage:>10}" for stage in (*_STAGES, "after capture")))
    fresh = {n: [_fresh(n, options.device) for _ in range(options.turns)] for n in (FEW, MANY)}
    _print("fresh process", fresh)
    warm: dict[int, list[dict[str, float]]] = {FEW: [], MANY: []}
    lines: dict[int, int] = {}
    for turn in range(options.turns + 1):
        for n_layers in (FEW, MANY):
            seconds, lines[n_layers] = generated(n_layers, options.device)
            if turn:
                warm[n_layers].append(seconds)
    _print("warm process", warm)
    print(f"model.py: {lines[FEW]} lines for {FEW} layers, {lines[MANY]} for {MANY}")


def generated(n_layers: int, device: str) -> tuple[dict[str, float], int]:
    """Seconds by stage, and the lines of model.py."""
    model = GPT(n_tokens=2048, max_seq=256, dim=256, n_heads=4, n_layers=n_layers).eval()
    arch = "sm_90" if device == "cuda" else None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "unit"
        summary = longhand.generate(
            model, (torch.randint(2048, (2, 128)),), out=out, device=device, arch=arch
        )
        return dict(summary.timings.stages), (out / "model.py").read_text().count("\n")


def _fresh(n_layers: int, device: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.layers", "--layers", str(n_layers), "--device", device]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _print(title: str, seconds: dict[int, list[dict[str, float]]]) -> None:
    """A row for each number of layers, medians, and how they compare."""
    after = {}
    for n_layers, turns in seconds.items():
        stages = [statistics.median(turn[stage] for turn in turns) for stage in _STAGES]
        after[n_layers] = statistics.median(sum(turn.values()) - turn["capture"] for turn in turns)
        cells = "".join(f"{value:10.3f}" for value in (*stages, after[n_layers]))
        print(f"{f'{title}, {n_layers} layers':24}{cells}", flush=True)
    print(f"{f'{title}: ratio':24}{after[MANY] / after[FEW]:60.2f}", flush=True)


if __name__ == "__main__":
    main()
