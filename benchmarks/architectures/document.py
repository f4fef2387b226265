"""docs/architectures.md, from results on disk."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from benchmarks.architectures.rows import Book, Key, Part, Result, Verdict

_OURS, _THEIRS = Part.CAPTURE.value, Part.DYNAMO.value
_COUNTS = {_OURS: "graphs (breaks)", _THEIRS: "Dynamo's"}
_PARTS = (Part.INFERENCE, Part.TRAINING, Part.CUBINS, Part.INTERPRETER)
# By what is in the note, the first that is; the last is in each that is an exception.
_WHY = {
    "ImportError": "needs a package that is not here",
    "_forward_unimplemented": "eager itself raises, the class has no forward",
    "module transformers has no attribute": "the package does not export the class",
    "inference_session": "takes an object with a state of its own, no tensors alone",
    "TooLarge": "is made in one size",
    "Error": "the rule finds no small configuration with inputs that eager runs",
}
_HEAD = """# Architectures

Made by `python -m benchmarks.architectures --json FILE --write-docs`: small configurations, random weights. A row is
a model that eager runs there; what each column says:

- *graphs (breaks)*: of longhand's own capture and of torch's Dynamo on the same call: graphs with an operation, and
  distinct lines that break one or leave a function to CPython. Dynamo leaves a function with a loop around a break to
  CPython, which makes fewer graphs and hides what breaks behind it. In italics: counted while another part ran.
- *inference*, *training*: `longhand.compile`, against eager and float64: right if no result (gradient, buffer) is
  farther from float64 than 3 times eager's own distance, and every later call runs in generated kernels; undecided
  where results have other sizes than eager's, and so have eager's own with other last bits.
- *cubins*: every kernel of the CUDA unit compiles to a binary. *interpreter*: the unit is right in Triton's.

{measured}

{breaks}

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
    counted = [setting for setting in settings if any(key[1:] == (setting, _OURS) for key in results)]
    heads = ["family", "rows"]
    for setting in counted:
        heads += [f"one graph, {setting}", f"Dynamo's, {setting}", f"more breaks, {setting}"]
    heads += [f"{part.value}, {setting}" for setting, part in columns]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for family in families:
        rows = [row for row in made if row.startswith(f"{family}/")]
        cells = [family, str(len(rows))]
        for setting in counted:
            cells += _breaks_of(results, rows, setting)
        cells += _counts(results, rows, columns)
        lines.append("| " + " | ".join(cells) + " |")
    measured = "\n".join(_measured(settings, measured_with))
    breaks = "\n".join(_all_breaks(results, made, setting) for setting in counted)
    text = _HEAD.format(
        measured=measured, counts="\n".join(lines), breaks=breaks or "No breaks were counted."
    )
    for family in families:
        rows = [row for row in made if row.startswith(f"{family}/")]
        text += f"\n## {family}\n\n" + _table(results, rows, settings) + "\n"
        if notes := list(_notes(results, rows)):
            text += "\n" + "\n".join(notes) + "\n"
    return text + _not_made(results)


def _not_made(results: dict[Key, Result]) -> str:
    """The rows that have no model, with what was raised: by eager or its package, or as no rule makes it small."""
    notes = {key[0]: result.note for key, result in results.items() if key[2] == Part.MADE.value}
    missing = {
        row: note
        for row, note in sorted(notes.items())
        if all(result.verdict is Verdict.NOT_MADE for key, result in results.items() if key[0] == row)
    }
    if not missing:
        return ""
    lines = [f"- {row}: {_why(note)}" for row, note in missing.items()]
    return (
        f"\n## Not made\n\n{len(missing)} rows have no model here, of {len(notes)} that were tried:\n\n"
        + ("\n".join(lines) + "\n")
    )


def _why(note: str) -> str:
    """Whose fault it is that a row has no model, and what was raised."""
    return next((f"{words}: {_plain(note)}" for sign, words in _WHY.items() if sign in note), _plain(note))


def _measured(settings: list[str], measured_with: dict[Key, str]) -> Iterable[str]:
    for setting in settings:
        with_what = sorted({words for key, words in measured_with.items() if key[1] == setting and words})
        yield f"Measured, {setting}: {'; '.join(with_what) or 'nobody wrote down with what'}."


def _counts(results: dict[Key, Result], rows: list[str], columns: list[tuple[str, Part]]) -> Iterable[str]:
    for setting, part in columns:
        tried = [results[key] for row in rows if (key := (row, setting, part.value)) in results]
        made = [result for result in tried if result.verdict is not Verdict.NOT_MADE]
        right = sum(result.verdict is Verdict.RIGHT for result in made)
        yield f"{right} of {len(made)}" if made else ""


def _breaks_of(results: dict[Key, Result], rows: list[str], setting: str) -> list[str]:
    """How many calls longhand's capture and Dynamo make one graph of, and on how many ours has more breaks."""
    both = [_both(results, row, setting) for row in rows]
    pairs = [pair for pair in both if None not in pair]
    if not pairs:
        return ["", "", ""]
    whole = [sum(pair[side] == (1, 0) for pair in pairs) for side in (0, 1)]
    more = sum(map(_has_more, both))
    return [f"{whole[0]} of {len(pairs)}", f"{whole[1]} of {len(pairs)}", str(more)]


def _all_breaks(results: dict[Key, Result], rows: list[str], setting: str) -> str:
    """On which rows longhand breaks at more lines than Dynamo does."""
    pairs = {row: pair for row in rows if None not in (pair := _both(results, row, setting))}
    more = ", ".join(row for row, pair in pairs.items() if _has_more(pair)) or "none"
    tried = [row for row in rows if (row, setting, _THEIRS) in results]
    only = [row for row in tried if _both(results, row, setting)[0] is not None and row not in pairs]
    without = f" Dynamo fails on {', '.join(only)}." if only else ""
    return (
        f"More breaks than Dynamo, {setting}: {more}, of {len(pairs)} rows where both were counted.{without}"
    )


_Counted = tuple[int, int] | None


def _both(results: dict[Key, Result], row: str, setting: str) -> tuple[_Counted, _Counted]:
    """Graphs and breaks of one call, of longhand and of Dynamo."""
    ours, theirs = (
        (
            (result.numbers["graphs"], _n_breaks(result))
            if (result := results.get((row, setting, part))) is not None and "graphs" in result.numbers
            else None
        )
        for part in (_OURS, _THEIRS)
    )
    return ours, theirs


def _n_breaks(result: Result) -> int:
    breaks = result.numbers["breaks"]
    return breaks if isinstance(breaks, int) else len(breaks)


def _has_more(pair: tuple[_Counted, _Counted]) -> bool:
    ours, theirs = pair
    return ours is not None and theirs is not None and ours[1] > theirs[1]


def _table(results: dict[Key, Result], rows: list[str], settings: list[str]) -> str:
    columns = [
        (setting, part)
        for setting in settings
        for part in (*_PARTS, Part.SPEED)
        if any((row, setting, part.value) in results for row in rows)
    ]
    counting = [
        (setting, part)
        for setting in settings
        for part in (_OURS, _THEIRS)
        if any((row, setting, part) in results for row in rows)
    ]
    heads = ["model", *(f"{_COUNTS[part]}, {setting}" for setting, part in counting)]
    heads += [f"{part.value}, {setting}" for setting, part in columns]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        cells = [row.partition("/")[2]]
        cells += [_graphs(results, row, setting, part) for setting, part in counting]
        cells += [_cell(results.get((row, setting, part.value)), part) for setting, part in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _graphs(results: dict[Key, Result], row: str, setting: str, part: str) -> str:
    """Graphs and breaks, or why there are none; of longhand, where they were not counted, those of an inference."""
    result = results.get((row, setting, part))
    if result is not None and "graphs" not in result.numbers:
        return result.verdict.value
    if result is not None:
        wrong = " **wrong**" if result.verdict is Verdict.WRONG else ""
        return f"{result.numbers['graphs']} ({_n_breaks(result)}){wrong}"
    if part != _OURS or "train" in setting:
        return ""
    others = [
        measured for key, measured in results.items() if (key[0], key[2]) == (row, Part.INFERENCE.value)
    ]
    other = next((measured for measured in others if "graphs" in measured.numbers), None)
    return "" if other is None else f"*{other.numbers['graphs']} ({_n_breaks(other)})*"


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
        elif row in rows and part == _OURS and result.numbers.get("breaks"):
            yield f"- {row.partition('/')[2]}, breaks, {setting}: {_plain('; '.join(result.numbers['breaks']))}"


def _plain(text: str) -> str:
    return re.sub(r"/\S*/(site-packages|site|longhand_row_\w+)/", "", text).replace("|", "\\|")[:200]
