"""black and clang-format over what was printed; texts seen before are not formatted again."""

from __future__ import annotations

import ast
import contextlib
import functools
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import black

from longhand.emit.cpp.format import format_cpp
from longhand.errors import ToolError

_MODE = black.Mode(line_length=110, target_versions={black.TargetVersion.PY311})


@functools.lru_cache(maxsize=1024)
def format_python(text: str) -> str:
    """The text as black lays it out.

    Raises:
        ToolError: black cannot parse it (a bug in longhand).
    """
    try:
        return black.format_file_contents(text, fast=True, mode=_MODE)
    except black.NothingChanged:
        return text
    except black.InvalidInput as error:
        raise ToolError(f"black cannot read generated Python: {error}") from error


_format_cpp = functools.lru_cache(maxsize=1024)(format_cpp)


def format_files(files: Mapping[str, str]) -> dict[str, str]:
    """Every .py, .cpp and .h file formatted; clang-format's processes run side by side."""
    native = [path for path in files if path.endswith((".cpp", ".h"))]
    with ThreadPoolExecutor(max_workers=4) as threads:
        formatted = dict(
            zip(
                native,
                threads.map(lambda path: _format_cpp(files[path], path.rpartition("/")[2]), native),
                strict=True,
            )
        )
    return {
        path: formatted.get(path) or (_format_file(text) if path.endswith(".py") else text)
        for path, text in files.items()
    }


def _format_file(text: str) -> str:
    """What is no Python stays as it is: the proof of the unit says where, with the file and the line."""
    try:
        return format_python(text)
    except ToolError:
        with contextlib.suppress(SyntaxError):
            ast.parse(text)
            raise
        return text
