"""`longhand bench`: the whole model and each kernel, timed."""

from __future__ import annotations

from pathlib import Path

import click

from longhand.cli import screen
from longhand.cli.styles import report
from longhand.tune.bench import bench as time_model
from longhand.tune.kernel_times import time_kernels


def bench(folder: Path, factory: str | None, turns: int, *, only_kernels: bool, is_json: bool) -> int:
    """Times and shows."""
    with screen.working(f"timing {folder}") as show:
        show("kernels")
        kernels = time_kernels(folder, n_turns=turns)
        show("the model, eager, torch.compile")
        model = None if only_kernels else time_model(folder, factory, n_turns=turns)
    if is_json:
        report(screen.times_as_json(model, kernels))
        return 0
    if model is not None:
        screen.show_times(model)
        click.echo()
    screen.show_kernel_times(kernels)
    return 0
