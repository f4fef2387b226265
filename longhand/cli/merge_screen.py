"""What the command line shows of edits and merges: a line for each file that somebody edited, and each conflict."""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from longhand.emit.unit.threeway import Conflict, FileReport, MergeReport, Outcome

_WORDS = {
    Outcome.KEPT: "kept",
    Outcome.MERGED: "merged",
    Outcome.CONFLICT: "CONFLICT",
    Outcome.ASIDE: "set aside",
    Outcome.RESTORED: "restored",
    Outcome.EJECTED: "yours",
    Outcome.MOVED: "moved",
}
_WHY = {
    Outcome.KEPT: "your edit; longhand has nothing new for it",
    Outcome.MERGED: "your edit and the new version",
    Outcome.RESTORED: "it was deleted",
    Outcome.EJECTED: "ejected: never touched",
}
_COLOURS = {Outcome.CONFLICT: "red", Outcome.MERGED: "green", Outcome.MOVED: "green", Outcome.ASIDE: "yellow"}
_SHOWN_LINES = 6
_WIDTH = 80


def show_merge(report: MergeReport, out: Path) -> None:
    """Prints what became of the files that were there; nothing for a unit made from nothing."""
    if all(file.outcome is Outcome.NEW for file in report.files):
        return
    if not report.has_conflicts:
        click.echo(_counts(report))
    told = [file for file in report.files if file.outcome in _WORDS]
    width = max((len(file.path) for file in told), default=0)
    for file in told:
        _show_file(file, width)
    if report.has_markers:
        click.echo(
            f"\n{out} runs again once this is settled: write what is right in place of\n"
            "<<<<<<< yours ======= new >>>>>>>, and generate again."
        )
    elif report.has_conflicts:
        click.echo(
            f"\n{out} is unchanged. The new text stands beside each conflict as FILE.new.\n"
            "To settle it: edit FILE, delete FILE.new (or move it over FILE), and generate\n"
            "again."
        )


def _counts(report: MergeReport) -> str:
    parts = []
    for outcome, word in ((Outcome.REPLACED, "replaced"), (Outcome.NEW, "new"), (Outcome.REMOVED, "removed")):
        if count := len(report.of(outcome)):
            parts.append(f"{count} {word}")
    return f"files: {', '.join(parts)}" if parts else "files: nothing changed"


def _show_file(file: FileReport, width: int) -> None:
    word = click.style(f"{_WORDS[file.outcome]:<9}", fg=_COLOURS.get(file.outcome))
    why = file.detail or _WHY.get(file.outcome, "")
    line = f"  {file.path:<{width}}  "
    if len(line) + 11 + len(why) <= _WIDTH:
        click.echo(f"{line}{word}  {why}")
    else:
        click.echo(f"{line}{word}".rstrip())
        _echo_wrapped(why)
    if file.problem:
        _echo_wrapped(f"but {file.problem}")
    for conflict in file.conflicts:
        _show_conflict(file.path, conflict)


def _echo_wrapped(text: str) -> None:
    indent = " " * 6
    click.echo(
        textwrap.fill(text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False)
    )


def _show_conflict(path: str, conflict: Conflict) -> None:
    click.echo(f"    {path}:{conflict.line}")
    for title, mark, lines in (
        ("yours", "-", conflict.ours),
        ("new", "+", conflict.theirs),
    ):
        click.echo(f"      {title}:{' nothing' * (not lines)}")
        for line in lines[:_SHOWN_LINES]:
            shown = _shortened(f"        {mark} {line.strip()}")
            click.echo(click.style(shown, fg="red" if mark == "-" else "green"))
        if len(lines) > _SHOWN_LINES:
            click.echo(f"          and {len(lines) - _SHOWN_LINES} more lines")


def _shortened(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 4]} ..."
