"""The samples of the documentation: fenced blocks of Python, of commands, of what they print, of settings.

A page is read in order, in one folder. What stands before a block, unseen by readers, says what it is:

==============================  ==============================================================================
"`FILE`:" (seen)                The block is a file that the reader writes.
``<!-- run: COMMAND -->``       What is done before the next block: the page's model comes to be, a kernel is edited.
``<!-- python: LINE -->``       The same in Python.
``<!-- quoted: FILE -->``       The block stands in a file of the repository, letter by letter.
``<!-- varies: REASON -->``     Its commands are run; what they print, times say, is another thing each time.
``<!-- ended: Ctrl-C -->``      Its command serves a page, until it is ended so.
``<!-- not run: REASON -->``    It is only read. The reason is one of `REASONS`.
==============================  ==============================================================================

A block of no kind and without a prompt is what the last command printed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# All that is not run, and why.
REASONS = {
    "gpu": "it needs a GPU",
    "network": "it installs from the network",
}
_MARK = r"<!-- (?P<mark>not run|quoted|varies|ended): (?P<said>[^>]+) -->\n+"
_FILE = r"^`(?P<file>[\w./-]+)`:\n+"
_HIDDEN = r"^<!-- (?P<how>run|python): (?P<hidden>[^\n]+) -->$"
_BLOCK = re.compile(
    rf"(?:{_MARK})?(?:{_FILE})?^(?P<fence>`{{3,4}})(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^(?P=fence)$|{_HIDDEN}",
    re.MULTILINE | re.DOTALL,
)
_PROMPT = re.compile(r"(?P<where>\w*)\$ (?P<text>.*)")


@dataclasses.dataclass(frozen=True)
class Command:
    """What is typed.

    Attributes:
        text: The line; a backslash at its end joined it to the next.
        where: What stands before the prompt: the folder that is another machine, or nothing.
        shown: The lines that the page shows below.
        code: How it ends.
    """

    text: str
    where: str
    shown: tuple[str, ...]
    code: int


@dataclasses.dataclass(frozen=True)
class Sample:
    """A block of a page, or what is done unseen.

    Attributes:
        page: Its file.
        line: Where it begins.
        kind: python, console, printed, yaml, toml, ...
        text: What is in it.
        file: The file that it is, or empty.
        mark: "not run", "quoted", "varies", "ended", or empty.
        said: What the mark says.
        hidden: Whether no reader sees it.
    """

    page: Path
    line: int
    kind: str
    text: str
    file: str = ""
    mark: str = ""
    said: str = ""
    hidden: bool = False

    @property
    def commands(self) -> list[Command]:
        """Of a console block."""
        found: list[Command] = []
        for line in self.text.replace("\\\n", "").splitlines():
            if typed := _PROMPT.fullmatch(line):
                found.append(Command(typed["text"], typed["where"], (), 0))
            elif ended := re.fullmatch(r"\(exit code (\d+)\)", line):
                found[-1] = dataclasses.replace(found[-1], code=int(ended[1]))
            elif found:
                found[-1] = dataclasses.replace(found[-1], shown=(*found[-1].shown, line))
        return found

    @property
    def is_run(self) -> bool:
        """Whether it does something where its page is played."""
        return self.kind in ("python", "console", "printed") and self.mark not in ("not run", "quoted")

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT) if ROOT in self.page.parents else self.page.name}:{self.line}"


def samples_of(page: Path) -> Iterator[Sample]:
    """Every sample, in order."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["how"] == "python":
            yield Sample(page, line, "python", f"{found['hidden']}\n", hidden=True)
        elif found["how"] == "run":
            yield Sample(page, line, "console", f"$ {found['hidden']}\n", hidden=True)
        else:
            kind = found["kind"] or ("console" if _PROMPT.match(found["text"]) else "printed")
            marks = (found["file"] or "", found["mark"] or "", found["said"] or "")
            yield Sample(page, line, kind, found["text"], *marks)
