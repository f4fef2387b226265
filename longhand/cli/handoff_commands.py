"""The commands that give kernels away to be edited and take them back: handoff, accept."""

from __future__ import annotations

from pathlib import Path

import click

from longhand.cli.edit_commands import doing, example
from longhand.cli.styles import Style, reporting, reporting_as_json
from longhand.cli.terminal import Command


@click.command(
    "handoff",
    cls=Command,
    epilog=example("longhand handoff generated/attention_cpu exp_normalize --out /tmp/given"),
)
@click.argument("unit", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("kernels", metavar="[KERNEL...]", nargs=-1)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The folder to write.")
@reporting_as_json
def handoff_command(unit: Path, kernels: tuple[str, ...], out: Path, is_json: bool) -> int:
    """Write a folder with kernels to be made faster, by whoever can.

    It holds the kernels (all, if none is named), their references, what they
    are given, what they take and what the hardware allows. `longhand accept`
    judges what comes back.
    """
    return int(doing("handing").handoff(unit, kernels, out, is_json=is_json))


@click.command("accept", cls=Command, epilog=example("longhand accept /tmp/given"))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--unit", type=click.Path(path_type=Path), help="The unit, if it is elsewhere now.")
@click.option("--dry-run", "is_dry", is_flag=True, help="Judge, and install nothing.")
@reporting
def accept_command(folder: Path, unit: Path | None, is_dry: bool, style: Style) -> int:
    """Judge edits of kernels that were handed off; install those that pass.

    An edit must be right in the model's calls and at other sizes, drawn at
    random, and faster than what the unit has: by more than the noise, by at
    least 2%, in four of five turns. What passes is an edit like any other:
    `generate` keeps it. It runs what it judges.

    Exit code 1 if an edit is refused; each reason is told.
    """
    return int(doing("handing").accept(folder, unit, installs=not is_dry, style=style))
