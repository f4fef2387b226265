"""docs/architectures.md, from results on disk."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from benchmarks.architectures.rows import Book, Key, Part, Result, Verdict

_PARTS = (Part.INFERENCE, Part.TRAINING, Part.CUBINS, Part.INTERPRETER)
_HEAD = """# Architectures

Made by `python -m benchmarks.architectures --json FILE --write-docs`: small configurations, random weights. A row is
a model that eager runs there; what each column says:

- *graphs (breaks)*: of longhand's own capture (of a call for inference), and of torch's Dynamo on the same call.
- *inference*, *training*: `longhand.compile`, against eager and float64: right if no result (gradient, buffer) is
  farther from float64 than 3 times eager's own distance, and every later call runs in generated kernels.
- *cubins*: every kernel of the CUDA unit compiles to a binary. *interpreter*: the unit is right in Triton's.

{measured}

More breaks than Dynamo on the same call: {more} of the {n_counted} rows where both were counted.

{counts}
"""


def write_document(book: Book, path: Path) -> None:
    """Writes the tables of all families that have results."""
    path.write_text(document(book.results, book.measured_with))


def document(results: dict[Key, Result], measured_with: dict[Key, str]) -> str:
    """The Markdown."""
    made = sorted({key[0] for key, result in results.items() if result.verdict is not Verdict.NOT_MADE})
    families = list(dict.fromkeys(row.partition("/")[0] for row in made))
    settings = sorted({key[1] for key in results})
    columns = [
        (setting, part)
        for setting in settings
        for part in _PARTS
        if any(key[1:] == (setting, part.value) for key in results)
    ]
    heads = ["family", "rows", "one graph", *(f"{part.value}, {setting}" for setting, part in columns)]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for family in families:
        rows = [row for row in made if row.startswith(f"{family}/")]
        cells = [family, str(len(rows)), _whole(results, rows), *_counts(results, rows, columns)]
        lines.append("| " + " | ".join(cells) + " |")
    more = ", ".join(row for row in made if _breaks_more(results, row)) or "none"
    measured = "\n".join(_measured(settings, measured_with))
    n_counted = sum(
        None not in (_counted(results, row, Part.CAPTURE), _counted(results, row, Part.DYNAMO))
        for row in made
    )
    text = _HEAD.format(measured=measured, counts="\n".join(lines), more=more, n_counted=n_counted)
    for family in families:
        rows = [row for row in made if row.startswith(f"{family}/")]
        text += f"\n## {family}\n\n" + _table(results, rows, settings) + "\n"
        if notes := list(_notes(results, rows)):
            text += "\n" + "\n".join(notes) + "\n"
    return text


def _measured(settings: list[str], measured_with: dict[Key, str]) -> Iterable[str]:
    for setting in settings:
        found = sorted({words for key, words in measured_with.items() if key[1] == setting and words})
        yield f"Measured, {setting}: {'; '.join(found) or 'nobody wrote down with what'}."


def _counts(results: dict[Key, Result], rows: list[str], columns: list[tuple[str, Part]]) -> Iterable[str]:
    for setting, part in columns:
        tried = [results[key] for row in rows if (key := (row, setting, part.value)) in results]
        found = [result for result in tried if result.verdict is not Verdict.NOT_MADE]
        right = sum(result.verdict is Verdict.RIGHT for result in found)
        yield f"{right} of {len(found)}" if found else ""


def _whole(results: dict[Key, Result], rows: list[str]) -> str:
    """How many calls our capture makes one graph of."""
    found = [counted for row in rows if (counted := _counted(results, row, Part.CAPTURE)) is not None]
    return f"{sum(counted == (1, 0) for counted in found)} of {len(found)}" if found else ""


def _counted(results: dict[Key, Result], row: str, part: Part) -> tuple[int, int] | None:
    """Graphs and breaks of one call."""
    for key, result in results.items():
        if key[0] == row and key[2] == part.value and "graphs" in result.numbers:
            return result.numbers["graphs"], _n_breaks(result)
    return None


def _n_breaks(result: Result) -> int:
    breaks = result.numbers["breaks"]
    return breaks if isinstance(breaks, int) else len(breaks)


def _breaks_more(results: dict[Key, Result], row: str) -> bool:
    ours, theirs = _counted(results, row, Part.CAPTURE), _counted(results, row, Part.DYNAMO)
    return ours is not None and theirs is not None and ours[1] > theirs[1]


def _table(results: dict[Key, Result], rows: list[str], settings: list[str]) -> str:
    columns = [
        (setting, part)
        for setting in settings
        for part in (*_PARTS, Part.SPEED)
        if any((row, setting, part.value) in results for row in rows)
    ]
    heads = [
        "model",
        "graphs (breaks)",
        "Dynamo's",
        *(f"{part.value}, {setting}" for setting, part in columns),
    ]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        cells = [
            row.partition("/")[2],
            _graphs(results, row, Part.CAPTURE, Part.INFERENCE),
            _graphs(results, row, Part.DYNAMO),
        ]
        cells += [_cell(results.get((row, setting, part.value)), part) for setting, part in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _graphs(results: dict[Key, Result], row: str, *parts: Part) -> str:
    """Of the first of these parts that was tried."""
    for part in parts:
        for key, result in results.items():
            if key[0] == row and key[2] == part.value:
                if "graphs" not in result.numbers:
                    return result.verdict.value
                wrong = " **wrong**" if result.verdict is Verdict.WRONG else ""
                return f"{result.numbers['graphs']} ({_n_breaks(result)}){wrong}"
    return ""


def _cell(result: Result | None, part: Part) -> str:
    if result is None:
        return ""
    if part is Part.SPEED:
        words = ("eager", "torch.compile", "longhand")
        return " / ".join(
            f"{result.numbers[word]:.3f}" if word in result.numbers else "failed" for word in words
        )
    if result.verdict is Verdict.RIGHT:
        share = result.numbers.get("share")
        return "right" if share is None else f"right, {share:.0%}"
    return f"**{result.verdict.value}**" if result.verdict is Verdict.WRONG else result.verdict.value


def _notes(results: dict[Key, Result], rows: list[str]) -> Iterable[str]:
    for (row, setting, part), result in sorted(results.items()):
        if row in rows and result.note and result.verdict is not Verdict.NOT_MADE:
            yield f"- {row.partition('/')[2]}, {part}, {setting}: {_plain(result.note)}"
        elif row in rows and part == Part.CAPTURE.value and result.numbers.get("breaks"):
            yield f"- {row.partition('/')[2]}, breaks: {_plain('; '.join(result.numbers['breaks']))}"


def _plain(text: str) -> str:
    return re.sub(r"/\S*/(site-packages|site|longhand_row_\w+)/", "", text).replace("|", "\\|")[:200]
