"""Pages of the site that are made when it is built.

Python's reference comes from docstrings, the command line's from its help, the gallery from generated/. This is a hook
of mkdocs.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import longhand
import longhand.errors
from longhand.cli.commands import commands
from longhand.cli.viewing import page_text

ROOT = Path(__file__).resolve().parent.parent
_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises):$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    for name, make in (("api.md", api_page), ("cli.md", cli_page), ("gallery.md", gallery_page)):
        files.append(File.generated(config, name, content=make()))
    for unit in _units():
        page = page_text(unit, None, None, None)
        files.append(File.generated(config, _review_of(unit), content=page))
    return files


def _units() -> list[Path]:
    return [lock.parent for lock in sorted((ROOT / "generated").rglob("longhand.lock"))]


def _review_of(unit: Path) -> str:
    """Where the site has a unit's review page."""
    return f"review/{'_'.join(unit.relative_to(ROOT / 'generated').parts)}.html"


def api_page() -> str:
    """What ``import longhand`` has, and its errors."""
    parts = [
        "# Python",
        "Everything that is public is a name of `longhand`; errors are in `longhand.errors`.",
    ]
    for name in longhand.__all__:
        value = getattr(longhand, name)
        parts += [f"## longhand.{name}", _code(f"longhand.{name}{_signature(value)}"), *_described(value)]
    parts += ["## Errors", "Each names what happened, your line where there is one, and what to do next."]
    for name, value in vars(longhand.errors).items():
        if inspect.isclass(value) and value.__module__ == longhand.errors.__name__:
            bases = ", ".join(base.__name__ for base in value.__bases__)
            parts += [f"### {name}", f"A `{bases}`.", *_described(value)]
    return "\n\n".join(parts) + "\n"


def cli_page() -> str:
    """What ``longhand COMMAND --help`` prints."""
    parts = [
        "# Command line",
        "`python -m longhand` is the same. Each command takes `-q`, `-v` and `--no-color`.",
    ]
    context = click.Context(commands, info_name="longhand")
    for name in sorted(commands.commands):
        command = commands.commands[name]
        shown = command.get_help(click.Context(command, info_name=name, parent=context, terminal_width=80))
        parts += [f"## longhand {name}", _code(shown, "text")]
    return "\n\n".join(parts) + "\n"


def gallery_page() -> str:
    """The units of generated/: what each README says, and its kernels."""
    parts = ["# Gallery", "Units made from `examples/`, checked in and held current by the tests."]
    for unit in _units():
        parts.append(f"## {unit.relative_to(ROOT / 'generated')}")
        parts.append(f"[Its review page]({_review_of(unit)}): source, model.py and kernels side by side.")
        readme = (unit / "README.md").read_text(encoding="utf-8")
        parts.append(re.sub(r"^#+ (.*)$", r"**\1**", _without_links(readme), flags=re.MULTILINE).strip())
        kernels = sorted((unit / "kernels").glob("*.cpp")) or sorted((unit / "kernels").glob("[a-z]*.py"))
        for kernel in kernels[:1]:
            kind = "cpp" if kernel.suffix == ".cpp" else "python"
            parts += [f"`kernels/{kernel.name}`:", _code(kernel.read_text(encoding="utf-8").rstrip(), kind)]
    return "\n\n".join(parts) + "\n"


def _without_links(text: str) -> str:
    """Links lead to files of the unit, which are no pages."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def _signature(value: Callable[..., Any]) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(...)"
    return text.replace("'", "") if len(text) <= 90 else _wrapped(inspect.signature(value))


def _wrapped(signature: inspect.Signature) -> str:
    lines, has_star = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            lines, has_star = [*lines, "    *,"], True
        lines.append(f"    {parameter},".replace("'", ""))
    end = "" if signature.return_annotation is signature.empty else f" -> {signature.return_annotation}"
    return "\n".join(["(", *lines, f"){end}".replace("'", "")])


def _described(value: Any) -> Iterator[str]:
    """A docstring as Markdown: its sections become lists."""
    text = inspect.getdoc(value) or ""
    before, *sections = _SECTION.split(text)
    yield _paragraphs(before)
    for name, body in zip(sections[::2], sections[1::2], strict=True):
        body, indented, rest = body.strip("\n"), [], []
        for line in body.splitlines():
            (rest if rest or (line and not line.startswith(" ")) else indented).append(line)
        yield f"**{name}**"
        entries = re.split(r"\n(?=\S)", textwrap.dedent("\n".join(indented)).strip())
        yield "\n".join(f"- {_entry(' '.join(entry.split()))}" for entry in entries)
        if rest:
            yield _paragraphs("\n".join(rest))


def _entry(text: str) -> str:
    name, colon, words = text.partition(": ")
    return f"`{name}`: {words}" if colon and " " not in name else text


def _paragraphs(text: str) -> str:
    return re.sub(r"``([^`]+)``", r"`\1`", text.strip())


def _code(text: str, kind: str = "python") -> str:
    return f"```{kind}\n{text}\n```"
