"""How much the command line says, in which colours: -q, -v, --no-color, NO_COLOR. Imports neither torch nor rich."""

from __future__ import annotations

import enum
import os
from typing import Any

import click

_VERBOSITY, _PLAIN = "longhand.verbosity", "longhand.plain"


class Verbosity(enum.Enum):
    """How much is said."""

    QUIET = "quiet"  # answers and errors alone
    NORMAL = "normal"
    VERBOSE = "verbose"  # also what is being done, line by line, wherever standard error goes


def verbosity() -> Verbosity:
    """What the running command was asked for."""
    level: Verbosity = _of_run(_VERBOSITY, Verbosity.NORMAL)
    return level


def is_plain() -> bool:
    """Whether nothing may be coloured."""
    return bool(_of_run(_PLAIN, False)) or bool(os.environ.get("NO_COLOR"))


def _of_run(key: str, default: Any) -> Any:
    context = click.get_current_context(silent=True)
    return default if context is None else context.find_root().meta.get(key, default)


def _say_less(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        context.find_root().meta[_VERBOSITY] = Verbosity.QUIET


def _say_more(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        context.find_root().meta[_VERBOSITY] = Verbosity.VERBOSE


def _leave_plain(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        context.find_root().meta[_PLAIN] = True
    if is_asked or os.environ.get("NO_COLOR"):
        context.find_root().color = context.color = False


def manners() -> list[click.Option]:
    """The options that every command has, and `longhand` itself."""
    flag = {"is_flag": True, "expose_value": False}
    return [
        click.Option(["-q", "--quiet"], help="Say less.", callback=_say_less, **flag),
        click.Option(["-v", "--verbose"], help="Tell what is done.", callback=_say_more, **flag),
        click.Option(["--no-color"], help="As NO_COLOR=1.", callback=_leave_plain, is_eager=True, **flag),
    ]


class Command(click.Command):
    """A command with manners."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.params += manners()
