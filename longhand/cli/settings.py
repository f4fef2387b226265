"""``[tool.longhand]`` in pyproject.toml: where the units are, and what a command's options are unless they are given.

    [tool.longhand]
    units = ["generated/*"]

    [tool.longhand.tune]
    budget = 60

A repository cannot give itself trust, nor say what a command writes to: `_REFUSED`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from longhand.errors import OptionError

_REFUSED = frozenset(
    ["is_trusted", "factory", "targets", "folders", "folder", "file", "out", "is_all", "replaces", "unit"]
)
_UNITS = "units"


def settings_here(commands: Mapping[str, click.Command]) -> dict[str, dict[str, Any]]:
    """For each command, its options as the nearest pyproject.toml has them, by parameter.

    Raises:
        OptionError: There is a command or an option that longhand does not have, or that a file may not give.
    """
    path = _project_file()
    settings: dict[str, dict[str, Any]] = {}
    for name, table in (_table(path) if path else {}).items():
        if name == _UNITS:
            continue
        if name not in commands or not isinstance(table, dict):
            raise OptionError(
                f"{path}: [tool.longhand] has an unknown entry {name!r}.",
                hint=f"It may have: {_UNITS}, {', '.join(sorted(commands))}.",
            )
        settings[name] = {_parameter(commands[name], key, path): value for key, value in table.items()}
    return settings


def unit_globs() -> tuple[Path, tuple[str, ...]] | None:
    """(the project's folder, where below it units are); None where nothing says it.

    Raises:
        OptionError: `units` is no list of patterns below the project's folder.
    """
    path = _project_file()
    patterns = _table(path).get(_UNITS) if path else None
    if path is None or patterns is None:
        return None
    is_list = isinstance(patterns, list) and all(isinstance(pattern, str) for pattern in patterns)
    if not is_list or any(Path(pattern).is_absolute() or ".." in Path(pattern).parts for pattern in patterns):
        raise OptionError(
            f"{path}: units in [tool.longhand] is no list of patterns below that folder.",
            hint='For instance units = ["generated/*"].',
        )
    return path.parent, tuple(patterns)


def _project_file() -> Path | None:
    here = Path.cwd()
    return next(
        (one for folder in (here, *here.parents) if (one := folder / "pyproject.toml").is_file()), None
    )


def _table(path: Path) -> dict[str, Any]:
    tomllib = importlib.import_module("tomllib")  # here: it costs a tenth of what `--help` may take
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text).get("tool", {}).get("longhand", {}) if "longhand" in text else {}
    except (OSError, ValueError, AttributeError) as error:
        raise OptionError(f"{path} cannot be read: {error}.") from error
    if not isinstance(table, dict):
        raise OptionError(f"{path}: tool.longhand is no table.")
    return table


def _parameter(command: click.Command, key: str, path: Path | None) -> str:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and f"--{key}" in parameter.opts and parameter.expose_value:
            assert parameter.name is not None
            if parameter.name not in _REFUSED:
                return parameter.name
            raise OptionError(
                f"{path}: {key} of `longhand {command.name}` cannot be given by a file.",
                hint="Give it on the command line, or set LONGHAND_TRUST=1 in your own CI.",
            )
    raise OptionError(f"{path}: `longhand {command.name}` has no option --{key}.")
