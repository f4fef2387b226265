"""`longhand verify` and `diff`: whether units are right, and what people changed in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from longhand.cli import edit_screen, screen
from longhand.cli.annotations import show_findings
from longhand.cli.as_json import diff_as_json, verification_as_json
from longhand.cli.bench_file import read_times
from longhand.cli.findings import Finding, of_edits, of_verification
from longhand.cli.styles import Style, report
from longhand.cli.terminal import Verbosity, verbosity
from longhand.cli.units import units_here
from longhand.errors import OptionError, VerificationError
from longhand.staleness.edit_report import UnitReport, edits_of, report_of
from longhand.telling.logs import set_logs_from_environment
from longhand.verify.verification import verify as verify_unit


def verify(
    folder: Path, factory: str | None, kernels: tuple[str, ...], sizes: tuple[str, ...], *, style: Style
) -> int:
    """Verifies and shows.

    Raises:
        VerificationError: Something is wrong.
    """
    set_logs_from_environment()
    with screen.working(f"verifying {folder}") as show:
        result = verify_unit(folder, factory, kernels, sizes=sizes, tell=show)
    if style is Style.JSON:
        report(json.dumps(verification_as_json(folder, result), indent=1))
    show_findings(style, list(of_verification(folder, result)))
    if style is not Style.TEXT:
        return 0 if result.is_right else 1
    if not (result.is_right and verbosity() is Verbosity.QUIET):
        screen.show_verification(result)
    if not result.is_right and result.stale:
        raise VerificationError(
            f"{folder} is stale: {result.stale}, and it does not compute what its original computes now.",
            hint=f"Bring it up to date: longhand generate {folder}; `longhand check {folder}` tells what would change.",
        )
    if not result.is_right:
        raise VerificationError(f"{folder} does not compute what its original computes.")
    return 0


def diff(
    folders: Sequence[Path],
    since: str | None,
    bench_file: Path | None,
    *,
    is_stat: bool,
    is_markdown: bool,
    style: Style,
    is_checked: bool,
    no_check: bool,
) -> int:
    """Shows edits; 1 if a kernel that was run for the summary is wrong.

    Raises:
        OptionError: Options that do not go together.
    """
    if (since or bench_file or no_check) and not is_markdown:
        raise OptionError("--since, --bench and --no-check go with --markdown.")
    times: dict[str, Any] | None = read_times(bench_file) if bench_file else None
    code = 0
    differences = []
    findings: list[Finding] = []
    if is_markdown and style is Style.TEXT:
        edit_screen.show_marker()
    for folder in list(folders) or units_here():
        if is_markdown:
            with screen.working(f"running the kernels of {folder}" if is_checked else f"reading {folder}"):
                told = report_of(folder, since=since, times=times, is_checked=is_checked)
            code = 1 if any(line.is_wrong for line in told.lines) else code
        else:
            told = UnitReport((), edits_of(folder))
        edits = told.edits
        if style is not Style.TEXT:
            differences.append(diff_as_json(folder, edits, told.lines))
            findings += of_edits(folder, edits, told.lines)
        elif is_markdown:
            edit_screen.show_markdown(folder, told, since)
        elif is_stat:
            edit_screen.show_stat(folder, edits)
        elif edits:
            edit_screen.show_diff(folder, edits)
        else:
            click.echo(f"{folder}: nobody edited it.")
    if style is Style.JSON:
        report(json.dumps(differences, indent=1))
    show_findings(style, findings)
    return code
