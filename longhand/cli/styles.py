"""How a command reports: for people, as JSON, as SARIF, as GitHub's annotations. The same options on each.

A report for programs is all that is on standard output: what a model prints while it runs goes to standard error.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

_OUT = "longhand.out"


class Style(enum.Enum):
    """What is printed."""

    TEXT = "text"
    GITHUB = "github"
    JSON = "json"
    SARIF = "sarif"


_FORMAT = click.option(
    "--format",
    "word",
    type=click.Choice([style.value for style in Style]),
    default=Style.TEXT.value,
    help="github: annotations; sarif: SARIF 2.1.0.",
)


def reporting(command: Callable[..., int]) -> Callable[..., int]:
    """Gives a command --format and --json, and their answer as `style`."""

    @_FORMAT
    @click.option("--json", "is_json", is_flag=True, help="As --format json.")
    @functools.wraps(command)
    def with_style(*args: Any, word: str, is_json: bool, **options: Any) -> int:
        style = Style.JSON if is_json else Style(word)
        with _report_alone() if style is not Style.TEXT else contextlib.nullcontext():
            return command(*args, style=style, **options)

    return with_style


def reporting_as_json(command: Callable[..., int]) -> Callable[..., int]:
    """Gives a command that reports at no lines of files --json, and its answer as `is_json`."""

    @click.option("--json", "is_json", is_flag=True, help="As JSON.")
    @functools.wraps(command)
    def with_json(*args: Any, is_json: bool, **options: Any) -> int:
        with _report_alone() if is_json else contextlib.nullcontext():
            return command(*args, is_json=is_json, **options)

    return with_json


@contextlib.contextmanager
def _report_alone() -> Iterator[None]:
    click.get_current_context().find_root().meta[_OUT] = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        yield


def report(text: str) -> None:
    """Prints a report for programs."""
    context = click.get_current_context(silent=True)
    click.echo(text, file=context.find_root().meta.get(_OUT) if context is not None else None)
