"""`longhand check`: whether units are current. What needs no model imports no torch, which takes seconds."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from longhand.cli.annotations import show_findings
from longhand.cli.edit_screen import show_check
from longhand.cli.findings import of_check
from longhand.cli.styles import Style, report
from longhand.cli.terminal import Verbosity, verbosity
from longhand.cli.units import units_here
from longhand.errors import OptionError
from longhand.staleness.file_check import CheckResult, Staleness, check_files
from longhand.staleness.remembered import Beginning, begin, remember, remembered

# Which answer the exit code of several units tells: the gravest.
_GRAVITY = (
    Staleness.CURRENT,
    Staleness.UNKNOWN,
    Staleness.OTHER_VERSIONS,
    Staleness.STALE,
    Staleness.WRONG,
    Staleness.BROKEN,
)


def check(
    folders: Sequence[Path],
    factory: str | None,
    sizes: tuple[str, ...],
    style: Style,
    *,
    is_verified: bool,
    is_trusted: bool,
    is_again: bool = False,
) -> int:
    """Checks units and shows each; the exit code of the gravest answer.

    A trusted comparison that nothing can have changed since is remembered, unless `is_again` or the unit is run, too.

    Raises:
        OptionError: --sizes without --verify.
    """
    if sizes and not is_verified:
        raise OptionError("--sizes goes with --verify.")
    trusted = is_trusted or factory is not None
    chosen = list(folders) or units_here()
    results: list[CheckResult] = []
    beginning = begin() if trusted and not (factory or is_verified) else None
    for number, folder in enumerate(chosen, 1):
        if trusted:
            place = (number, len(chosen))
            known = None if is_again or beginning is None else remembered(folder, beginning)
            result = known or _compared(folder, factory, sizes if is_verified else None, place, beginning)
        else:
            result = check_files(folder)
        is_told = verbosity() is not Verbosity.QUIET or result.staleness is not Staleness.CURRENT
        if style is Style.TEXT and is_told:
            show_check(result)
        if style is Style.GITHUB:
            show_findings(style, list(of_check(result)))
        results.append(result)
    worst = max((result.staleness for result in results), key=_GRAVITY.index)
    if style is Style.JSON:
        report(json.dumps({"exit_code": int(worst), "units": list(map(check_as_json, results))}, indent=1))
    if style is Style.SARIF:
        show_findings(style, [one for result in results for one in of_check(result)])
    return int(worst)


def _compared(
    folder: Path,
    factory: str | None,
    sizes: tuple[str, ...] | None,
    place: tuple[int, int],
    beginning: Beginning | None,
) -> CheckResult:
    """What comes of making the model; with `sizes`, if none are named too, of running the unit beside it."""
    importlib.import_module("longhand.telling.logs").set_logs_from_environment()
    with importlib.import_module("longhand.cli.screen").working(f"checking {folder}", *place) as show:
        result: CheckResult = importlib.import_module("longhand.staleness.model_check").check(folder, factory)
        if beginning is not None:
            remember(result, beginning)
        if sizes is not None:
            verified = importlib.import_module("longhand.verify.verified_check").with_verification
            result = verified(result, sizes=sizes, tell=show)
    return result


def check_as_json(result: CheckResult) -> dict[str, Any]:
    """What `check` found of one unit."""
    return {
        "unit": str(result.folder),
        "answer": result.staleness.name.lower(),
        "exit_code": int(result.staleness),
        "compared": result.is_compared,
        "remembered": result.is_remembered,
        "changes": [{"path": one.path, "line": one.line, "what": one.what} for one in result.changes],
        "breaches": [{"path": one.path, "line": one.line, "what": one.what} for one in result.breaches],
        "faults": [{"path": path, "what": what} for path, what in result.faults],
        "versions": list(result.versions),
        "edited": list(result.edited),
        "changed_sources": list(result.sources),
        "renew": result.renewal,
        "verified": result.verified,
        "not_run": result.not_run,
        "sizes": list(result.sizes),
    }
