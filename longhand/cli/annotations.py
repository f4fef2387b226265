"""Findings where code is read: as GitHub Actions' annotations, or as SARIF."""

from __future__ import annotations

from collections.abc import Sequence

from longhand.cli.findings import Finding, Level
from longhand.cli.sarif import as_sarif
from longhand.cli.styles import Style, report

_LEVELS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def show_findings(style: Style, findings: Sequence[Finding]) -> None:
    """Prints what was found at lines of files, if that is what the style is for."""
    if style is Style.SARIF:
        report(as_sarif(findings))
    elif style is Style.GITHUB:
        for one in findings:
            message = _escaped(one.text)
            place = f"file={_escaped_property(one.path.as_posix())},line={one.line}"
            title = one.rule.id.replace("-", " ")
            report(f"::{_LEVELS[one.rule.level]} {place},title=longhand: {title}::{message}")


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
