"""What `check` found as SARIF 2.1.0, which code hosts and editors show at the lines that it is about."""

from __future__ import annotations

import importlib.metadata
import urllib.parse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from longhand.emit.unit.lock_schema import LOCK
from longhand.staleness.file_check import CheckResult, Currency

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_RULES = {
    "broken-edit": ("error", "An edit breaks what other files of the unit rely on."),
    "wrong": ("error", "The unit computes something else than its model, or does not run."),
    "stale": ("error", "The model generates something else today."),
    "other-versions": ("warning", "Longhand or a tool has another version here, and what it writes differs."),
    "not-run": ("note", "The unit could not be run on this machine."),
}


def sarif_of(results: Sequence[CheckResult]) -> dict[str, Any]:
    """One run of `longhand check`; paths are relative to the current folder."""
    found = [one for result in results for one in _results(result)]
    rules = [
        {"id": name, "shortDescription": {"text": text}, "defaultConfiguration": {"level": level}}
        for name, (level, text) in _RULES.items()
    ]
    driver = {"name": "longhand", "version": importlib.metadata.version("longhand"), "rules": rules}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": found}],
    }


def _results(result: CheckResult) -> Iterable[dict[str, Any]]:
    for breach in result.breaches:
        yield _result("broken-edit", result.folder / breach.path, breach.line, breach.what)
    for path, what in result.faults:
        yield _result("wrong", result.folder / path, 1, what)
    if result.not_run:
        yield _result("not-run", result.folder / LOCK, 1, result.not_run)
    if result.currency is Currency.OTHER_VERSIONS:
        yield _result("other-versions", result.folder / LOCK, 1, "; ".join(result.versions))
        return
    renewal = f" Bring it up to date: {result.renewal}" if result.renewal else ""
    for change in result.changes:
        yield _result("stale", result.folder / change.path, change.line, f"{change.what}.{renewal}")


def _result(rule: str, path: Path, line: int, text: str) -> dict[str, Any]:
    here = Path.cwd()
    shown = path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path
    uri = shown.as_uri() if shown.is_absolute() else urllib.parse.quote(shown.as_posix())
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": max(1, line)}}
    return {
        "ruleId": rule,
        "ruleIndex": [*_RULES].index(rule),
        "level": _RULES[rule][0],
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
    }
