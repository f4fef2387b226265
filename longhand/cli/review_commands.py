"""The command `view` and its options. What it does is imported when it runs."""

from __future__ import annotations

from pathlib import Path

import click

from longhand.cli.edit_commands import doing, example
from longhand.cli.styles import reporting_as_json
from longhand.cli.terminal import Command


@click.command(
    "view",
    cls=Command,
    epilog=example(
        "longhand view generated/attention_cpu\n"
        "  longhand view generated/attention_cpu --html review.html --since main"
    ),
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("kernel", required=False)
@click.option(
    "--html",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the review page: one file that needs nothing else.",
)
@click.option(
    "--serve",
    "port",
    type=click.IntRange(0, 65535),
    is_flag=False,
    flag_value=0,
    metavar="[PORT]",
    help="Show the review page at 127.0.0.1, made anew at each visit.",
)
@click.option("--since", metavar="REVISION", help="On the page: what changed since this git revision.")
@click.option("--until", metavar="REVISION", help="With --since: up to this one, not the files on disk.")
@click.option(
    "--bench",
    "bench_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="On the page: times that `longhand bench --json` printed.",
)
@reporting_as_json
def view_command(
    folder: Path,
    kernel: str | None,
    file: Path | None,
    port: int | None,
    since: str | None,
    until: str | None,
    bench_file: Path | None,
    is_json: bool,
) -> int:
    """Show a unit's files and one of its kernels (by default the first).

    With --html or --serve it is the review page instead: the model's source,
    model.py and the kernels side by side, what was fused and why not more, the
    bytes that kernels move, what lives in memory when, edits, and what changed
    between two git revisions. Runs nothing of the unit; of the project it reads
    the functions that the unit quotes.
    """
    return doing("viewing").view(folder, kernel, file, port, since, until, bench_file, is_json=is_json)
