"""The commands of an edit's life and their options: check, diff, eject. What they do is imported when they run."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import click

from longhand.cli.styles import Style, report, reporting, reporting_as_json
from longhand.cli.terminal import Command

_trust = click.option(
    "--trust",
    "is_trusted",
    is_flag=True,
    envvar="LONGHAND_TRUST",
    help="Run code of this repository: its models, its kernels.",
)
_FOLDERS = click.argument("folders", metavar="[DIR...]", nargs=-1, type=click.Path(path_type=Path))


def doing(module: str) -> Any:
    """The module of this package that does what a command is for; it imports torch, which takes seconds."""
    return importlib.import_module(f"longhand.cli.{module}")


def example(text: str) -> str:
    """The end of a command's help."""
    return f"\b\nFor instance:\n  {text}"


@click.command("check", cls=Command, epilog=example("longhand check --trust --verify"))
@_FOLDERS
@click.option(
    "--factory", metavar="MODULE:FACTORY", help="How to make the model; by default as the lock says."
)
@click.option("--verify", "is_verified", is_flag=True, help="Also run it: is it right, at other sizes too?")
@click.option(
    "--sizes", multiple=True, metavar="NAME=N,...", help="With --verify: as `longhand verify` has it."
)
@reporting
@click.option(
    "--again", "is_again", is_flag=True, help="Compare also where nothing that was read has changed."
)
@_trust
def check_command(
    folders: tuple[Path, ...],
    factory: str | None,
    is_verified: bool,
    sizes: tuple[str, ...],
    style: Style,
    is_again: bool,
    is_trusted: bool,
) -> int:
    """Tell whether units are what their models generate today.

    Looks at all units below this folder if none is named. Needs no GPU and
    changes nothing. To compare, it imports the model, which is code of the
    repository: only with --trust, LONGHAND_TRUST=1 or --factory. So does
    --verify, which runs the unit, its edits too, beside its model.

    \b
    Exit codes: 0 current; 1 stale: the model generates something else;
    2 broken: an edit breaks what other files rely on; 3 longhand, torch or
    another tool has another version here, and what it writes differs;
    4 not compared, for want of --trust, and nothing else is wrong;
    5 with --verify: it computes something else, or cannot run.
    """
    return doing("checking").check(
        folders,
        factory,
        sizes,
        style,
        is_verified=is_verified,
        is_trusted=is_trusted,
        is_again=is_again,
    )


@click.command(
    "diff",
    cls=Command,
    epilog=example(
        "longhand diff generated/attention_cpu --stat\n  longhand diff --markdown --since origin/main"
    ),
)
@_FOLDERS
@click.option("--stat", "is_stat", is_flag=True, help="A line for each file.")
@click.option("--markdown", "is_markdown", is_flag=True, help="A summary for a pull request.")
@click.option("--since", metavar="REVISION", help="With --markdown: what changed since this git revision.")
@click.option(
    "--bench",
    "bench_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="With --markdown: times that `longhand bench --json` printed.",
)
@click.option("--no-check", is_flag=True, help="With --markdown: do not run the kernels.")
@reporting
@_trust
def diff_command(
    folders: tuple[Path, ...],
    is_stat: bool,
    is_markdown: bool,
    since: str | None,
    bench_file: Path | None,
    no_check: bool,
    style: Style,
    is_trusted: bool,
) -> int:
    """Show what people changed in units since longhand wrote them.

    Shows all units below this folder if none is named. Runs nothing of them,
    but with --markdown --trust their kernels: exit code 1 if one of these is
    wrong or cannot run, with the summary printed all the same.

    With --since the summary tells what changed since that revision, and no
    older edit. Its first line does not show, and is always the same: a comment
    that begins with it is the one to update.
    """
    return doing("judging").diff(
        folders,
        since,
        bench_file,
        is_stat=is_stat,
        is_markdown=is_markdown,
        style=style,
        is_checked=is_trusted and not no_check,
        no_check=no_check,
    )


@click.command(
    "eject", cls=Command, epilog=example("longhand eject generated/attention_cpu/kernels/exp_normalize.cpp")
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--undo", is_flag=True, help="Let longhand merge into it again.")
@reporting_as_json
def eject_command(file: Path, undo: bool, is_json: bool) -> int:
    """Make a file wholly yours: never merged, still called, still checked.

    `generate` leaves it as it is, whatever the new version says. `verify` and
    `check` still hold it to longhand's own reference and to its callers.
    """
    folder, path = importlib.import_module("longhand.staleness.eject").eject(file, undo=undo)
    if is_json:
        report(json.dumps({"unit": str(folder), "path": path, "ejected": not undo}, indent=1))
    else:
        click.echo(f"{folder / path} is {'merged again' if undo else 'yours'}.")
    return 0
