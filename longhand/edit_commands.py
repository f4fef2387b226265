"""The commands of an edit's life: check, diff, eject."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from longhand import edit_screen, screen
from longhand.currency import Currency, check
from longhand.edit_report import edits_of, kernel_lines
from longhand.eject import eject
from longhand.emit.lock import LOCK
from longhand.errors import OptionError, UnitError

_FOLDERS = click.argument("folders", metavar="[DIR...]", nargs=-1, type=click.Path(path_type=Path))
# Which answer the exit code of several units tells: the gravest.
_GRAVITY = (Currency.CURRENT, Currency.OTHER_VERSIONS, Currency.STALE, Currency.BROKEN)


def example(text: str) -> str:
    """The end of a command's help."""
    return f"\b\nFor instance:\n  {text}"


@click.command("check", epilog=example("longhand check generated/attention_cpu"))
@_FOLDERS
@click.option(
    "--factory", metavar="MODULE:FACTORY", help="How to make the model; by default as the lock says."
)
@click.option(
    "--format", "style", type=click.Choice(["text", "github"]), default="text", help="github: annotations."
)
def check_command(folders: tuple[Path, ...], factory: str | None, style: str) -> int:
    """Tell whether units are what their models generate today.

    Looks at all units below this folder if none is named. Needs no GPU and
    writes nothing.

    \b
    Exit codes: 0 current; 1 stale: the model generates something else;
    2 broken: an edit breaks what other files rely on; 3 longhand, torch or
    another tool has another version here, and what it writes differs.
    """
    worst = Currency.CURRENT
    for folder in folders or _units_here():
        with screen.working(f"checking {folder}"):
            result = check(folder, factory)
        (edit_screen.show_annotations if style == "github" else edit_screen.show_check)(result)
        worst = max(worst, result.currency, key=_GRAVITY.index)
    return int(worst)


@click.command("diff", epilog=example("longhand diff generated/attention_cpu --stat"))
@_FOLDERS
@click.option("--stat", "is_stat", is_flag=True, help="A line for each file.")
@click.option("--markdown", "is_markdown", is_flag=True, help="A summary for a pull request.")
@click.option("--since", metavar="REVISION", help="With --markdown: compare with this git revision.")
@click.option(
    "--bench",
    "bench_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="With --markdown: times that `longhand bench --json` printed.",
)
@click.option("--no-check", is_flag=True, help="With --markdown: do not run the kernels.")
def diff_command(
    folders: tuple[Path, ...],
    is_stat: bool,
    is_markdown: bool,
    since: str | None,
    bench_file: Path | None,
    no_check: bool,
) -> None:
    """Show what people changed in units since longhand wrote them.

    Shows all units below this folder if none is named.
    """
    if (since or bench_file or no_check) and not is_markdown:
        raise OptionError("--since, --bench and --no-check go with --markdown.")
    times: dict[str, Any] | None = json.loads(bench_file.read_text()) if bench_file else None
    for folder in folders or _units_here():
        edits = edits_of(folder)
        if is_markdown:
            lines = kernel_lines(folder, since=since, times=times, is_checked=not no_check)
            edit_screen.show_markdown(folder, lines, edits)
        elif is_stat:
            edit_screen.show_stat(folder, edits)
        elif edits:
            edit_screen.show_diff(folder, edits)
        else:
            click.echo(f"{folder}: nobody edited it.")


@click.command("eject", epilog=example("longhand eject generated/attention_cpu/kernels/exp_normalize.cpp"))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--undo", is_flag=True, help="Let longhand merge into it again.")
def eject_command(file: Path, undo: bool) -> None:
    """Make a file wholly yours: never merged, still called, still checked.

    `generate` leaves it as it is, whatever the new version says. `verify` and
    `check` still hold it to longhand's own reference and to its callers.
    """
    folder, path = eject(file, undo=undo)
    click.echo(f"{folder / path} is {'merged again' if undo else 'yours'}.")


def _units_here() -> list[Path]:
    """Every unit below the current folder.

    Raises:
        UnitError: There is none.
    """
    found = [
        path.parent
        for path in sorted(Path().rglob(LOCK))
        if not any(part.startswith(".") for part in path.parts[:-1])
    ]
    if not found:
        raise UnitError(
            "There is no generated unit below this folder.",
            hint="Make one: longhand generate MODULE:FACTORY --out DIR.",
        )
    return found
