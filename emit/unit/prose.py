"""The prose of a unit's file: docstrings and whole-line comments, which say what the code beside them is.

Where somebody keeps code of his own against a new version, what he did not write himself of the prose follows the
new version all the same: a header must not tell the numbers of a model that is gone.
"""

from __future__ import annotations

import ast

from longhand.emit.unit.threeway import hunks, lines_of, merge


def with_new_prose(ours: str, base: str, theirs: str) -> str:
    """Our text with what `theirs` changed in the prose of `base`, wherever we have that as it was.

    A comment right above a line that we changed counts as ours: it speaks of that line.
    """
    if not (prose := _new_prose(base, theirs)):
        return ours
    return merge(ours, base, prose).text  # where both changed the same lines it has ours


def code_lines(text: str) -> list[str]:
    """The lines that are no prose, and not blank."""
    prose = _prose_lines(text)
    return [line for number, line in enumerate(lines_of(text)) if number not in prose and line.strip()]


def _new_prose(base: str, theirs: str) -> str:
    """The base with those changes of the other side that are of prose alone; empty if there is none."""
    base_lines, their_lines = lines_of(base), lines_of(theirs)
    old, new = _prose_lines(base), _prose_lines(theirs)
    result: list[str] = []
    done = 0
    for hunk in hunks(base_lines, their_lines):
        is_prose = all(
            number in prose or not lines[number].strip()
            for lines, prose, numbers in (
                (base_lines, old, range(hunk.begin, hunk.end)),
                (their_lines, new, range(hunk.start, hunk.stop)),
            )
            for number in numbers
        )
        if is_prose:
            result += [*base_lines[done : hunk.begin], *their_lines[hunk.start : hunk.stop]]
            done = hunk.end
    return "".join(f"{line}\n" for line in [*result, *base_lines[done:]]) if done or result else ""


def _prose_lines(text: str) -> set[int]:
    """The numbers of the lines of prose, counted from 0."""
    found = {
        number for number, line in enumerate(lines_of(text)) if line.lstrip().startswith(("# ", "//", "#\n"))
    }
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found  # C++
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            docstring = node.body[0]
            found.update(range(docstring.lineno - 1, docstring.end_lineno or docstring.lineno))
    return found
