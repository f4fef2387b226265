"""Findings as SARIF 2.1.0, which code hosts and editors show at the lines that they are about."""

from __future__ import annotations

import importlib.metadata
import json
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from longhand.cli.findings import Finding, Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def as_sarif(findings: Sequence[Finding]) -> str:
    """One run of a command; paths are relative to the current folder."""
    rules = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.meaning},
            "defaultConfiguration": {"level": rule.level.value},
        }
        for rule in Rule
    ]
    driver = {"name": "longhand", "version": importlib.metadata.version("longhand"), "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(one) for one in findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)


def _result(finding: Finding) -> dict[str, Any]:
    here, path = Path.cwd(), finding.path
    shown = path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path
    uri = shown.as_uri() if shown.is_absolute() else urllib.parse.quote(shown.as_posix())
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": max(1, finding.line)}}
    return {
        "ruleId": finding.rule.id,
        "ruleIndex": list(Rule).index(finding.rule),
        "level": finding.rule.level.value,
        "message": {"text": finding.text},
        "locations": [{"physicalLocation": place}],
    }
