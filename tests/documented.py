"""The samples of the documentation: fenced blocks of Python, of commands, of settings.

A block after "`FILE`:" is a file that the reader writes. One after ``<!-- not run: REASON -->`` is only read: its
Python compiles, its commands are known and take these options. An HTML comment ``<!-- run: COMMAND -->`` is what a test
does before the next block, and a reader need not see.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\n+)?(?:^`(?P<file>[\w./]+)`:\n+)?"
    r"^(?P<fence>`{3,4})(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^(?P=fence)$|^<!-- run: (?P<hidden>[^\n]+) -->$",
    re.MULTILINE | re.DOTALL,
)


@dataclasses.dataclass(frozen=True)
class Sample:
    """A block of a page.

    Attributes:
        page: Its file.
        line: Where it begins.
        kind: python, console, yaml, toml, ...
        text: What is in it.
        file: The file that it is, or empty.
        reason: Why it is not run, or empty.
    """

    page: Path
    line: int
    kind: str
    text: str
    file: str
    reason: str

    @property
    def commands(self) -> list[str]:
        """Of a console block: what is typed, a backslash at a line's end joined to the next."""
        text = self.text.replace("\\\n", "")
        return [line.partition("$ ")[2] for line in text.splitlines() if re.match(r"(\w+)?\$ ", line)]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def samples_of(page: Path) -> Iterator[Sample]:
    """Every sample, in order."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["hidden"]:
            yield Sample(page, line, "console", f"$ {found['hidden']}\n", "", "")
            continue
        kind = found["kind"]
        if not kind and re.match(r"(\w+)?\$ ", found["text"]):
            kind = "console"
        yield Sample(page, line, kind, found["text"], found["file"] or "", found["reason"] or "")
