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
from longhand.emit.reading import read_regular
from longhand.errors import OptionError, UnitError

trust = click.option(
    "--trust",
    "is_trusted",
    is_flag=True,
    envvar="LONGHAND_TRUST",
    help="Run code of this repository: its models, its kernels.",
)
_FOLDERS = click.argument("folders", metavar="[DIR...]", nargs=-1, type=click.Path(path_type=Path))
# Which answer the exit code of several units tells: the gravest.
_GRAVITY = (Currency.CURRENT, Currency.UNKNOWN, Currency.OTHER_VERSIONS, Currency.STALE, Currency.BROKEN)


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
@trust
def check_command(folders: tuple[Path, ...], factory: str | None, style: str, is_trusted: bool) -> int:
    """Tell whether units are what their models generate today.

    Looks at all units below this folder if none is named. Needs no GPU and
    writes nothing. To compare, it imports the model, which is code of the
    repository: only with --trust, LONGHAND_TRUST=1 or --factory.

    \b
    Exit codes: 0 current; 1 stale: the model generates something else;
    2 broken: an edit breaks what other files rely on; 3 longhand, torch or
    another tool has another version here, and what it writes differs;
    4 not compared, for want of --trust, and nothing else is wrong.
    """
    worst = Currency.CURRENT
    for folder in folders or _units_here():
        with screen.working(f"checking {folder}"):
            result = check(folder, factory, is_trusted=is_trusted or factory is not None)
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
@trust
def diff_command(
    folders: tuple[Path, ...],
    is_stat: bool,
    is_markdown: bool,
    since: str | None,
    bench_file: Path | None,
    no_check: bool,
    is_trusted: bool,
) -> None:
    """Show what people changed in units since longhand wrote them.

    Shows all units below this folder if none is named. Runs nothing of them,
    but with --markdown --trust their kernels.
    """
    if (since or bench_file or no_check) and not is_markdown:
        raise OptionError("--since, --bench and --no-check go with --markdown.")
    times: dict[str, Any] | None = _times(bench_file) if bench_file else None
    for folder in folders or _units_here():
        edits = edits_of(folder)
        if is_markdown:
            lines = kernel_lines(folder, since=since, times=times, is_checked=is_trusted and not no_check)
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


def _times(file: Path) -> dict[str, Any]:
    """What `bench --json` printed into a file.

    Raises:
        OptionError: It is something else.
    """
    try:
        found = json.loads(read_regular(file))
        kernels = [
            {"ms": float(one["ms"]), "base_ms": one.get("base_ms")} for one in found["kernels"].values()
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError):
        kernels = None
    if kernels is None:
        raise OptionError(f"--bench {file}: it is not what `longhand bench --json` prints.")
    return dict(found)


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
