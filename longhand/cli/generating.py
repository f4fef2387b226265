"""`longhand generate` and `longhand explain`: what they do with what the command line said."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import click
import torch

from longhand.cli import screen
from longhand.cli.annotations import show_findings
from longhand.cli.as_json import explanation_as_json, made_as_json
from longhand.cli.findings import of_explanation, of_parts, of_summary
from longhand.cli.styles import Style, report
from longhand.cli.terminal import Verbosity, verbosity
from longhand.cli.units import renewable_here
from longhand.compiled.parts import Parts
from longhand.emit.unit.lock_file import LOCK
from longhand.errors import LonghandError, OptionError
from longhand.factory import resolve
from longhand.staleness.renewal import make, renew
from longhand.telling.explanation import explain as explained
from longhand.telling.logs import set_logs_from_environment
from longhand.telling.summary import Summary


def generate(
    targets: tuple[str, ...],
    out: Path | None,
    options: Mapping[str, Any],
    given: Set[str],
    *,
    is_all: bool,
    replaces: bool,
    conflict: str,
    style: Style,
) -> int:
    """Makes one unit, or renews several.

    Args:
        targets: ``MODULE:FACTORY``, or folders.
        out: The folder, with the former.
        options: As `renewal.make` has them.
        given: Those that stand on the command line.
        is_all: Renew every unit below this folder.
        replaces: A unit may become one for something else.
        conflict: What is put into it where an edit and the new version conflict.
        style: What is printed.

    Raises:
        LonghandError: Of one unit. Of several, each tells its own, and the others are made all the same.
    """
    set_logs_from_environment()
    factory = targets[0] if len(targets) == 1 and _is_factory(targets[0]) else None
    if factory is not None and not is_all:
        if out is None:
            raise click.UsageError("MODULE:FACTORY goes with --out DIR.")
        with screen.working(f"generating {out}") as show:
            made = make(factory, out, **options, replace=replaces, conflict=conflict, listener=show)
        return _show([made], style=style)
    if out is not None or (is_all and targets) or not (is_all or targets):
        raise click.UsageError("Give MODULE:FACTORY --out DIR, or the folders of units, or --all.")
    folders = renewable_here() if is_all else [Path(target) for target in targets]
    changes = {name: options[name] for name in given if name != "allow_breaks"}
    return _renew(folders, changes, replaces=replaces, conflict=conflict, style=style)


def _renew(
    folders: list[Path], changes: Mapping[str, Any], *, replaces: bool, conflict: str, style: Style
) -> int:
    made: list[Summary | Parts] = []
    failed: list[tuple[Path, LonghandError]] = []
    for number, folder in enumerate(folders, 1):
        with screen.working(f"generating {folder}", number, len(folders)) as show:
            try:
                made.append(renew(folder, changes, replace=replaces, conflict=conflict, listener=show))
            except LonghandError as error:
                if len(folders) == 1:
                    raise
                failed.append((folder, error))
    code = _show(made, style=style)
    for folder, reason in failed:
        click.echo(f"longhand: {folder}: {reason}", err=True)
    if failed:
        raise OptionError(
            f"{len(failed)} of {len(folders)} units could not be renewed; they are as they were."
        )
    return code


def _is_factory(target: str) -> bool:
    """A folder may have a colon in its name; where it is a unit it is meant."""
    return ":" in target and not (Path(target) / LOCK).is_file()


def _show(made: list[Summary | Parts], *, style: Style) -> int:
    if style is Style.JSON:
        report(json.dumps([made_as_json(one) for one in made], indent=1))
    each = (of_parts(one) if isinstance(one, Parts) else of_summary(one) for one in made)
    show_findings(style, [finding for findings in each for finding in findings])
    if style is Style.TEXT:
        for one in made:
            if verbosity() is Verbosity.QUIET and _is_good(one):
                continue
            click.echo(str(one)) if isinstance(one, Parts) else screen.show_summary(one)
    return 0 if all(map(_is_good, made)) else 1


def _is_good(made: Summary | Parts) -> bool:
    return isinstance(made, Parts) or made.merge.is_good


def explain(factory: str, inputs: tuple[str, ...], frontend: str, *, style: Style) -> int:
    """Runs one call and tells what it became."""
    set_logs_from_environment()
    with screen.working(f"capturing {factory}"), torch.no_grad():
        call = resolve(factory, inputs)
        explanation = explained(call.model, frontend=frontend)(*call.args, **call.kwargs)
    if style is Style.JSON:
        report(json.dumps(explanation_as_json(explanation), indent=1))
    if style is Style.TEXT:
        click.echo(str(explanation))
    show_findings(style, list(of_explanation(explanation)))
    return 0
