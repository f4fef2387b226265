"""clang-format for generated C++: one style, from the clang-format package, the same on every machine."""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
from pathlib import Path

from longhand.errors import ToolError

LINE_LENGTH = 110
_MOST_SECONDS = 120
STYLE = json.dumps(
    {
        "BasedOnStyle": "Google",
        "ColumnLimit": LINE_LENGTH,
        "DerivePointerAlignment": False,
        "PointerAlignment": "Right",
        "BinPackParameters": False,
        "AllowAllParametersOfDeclarationOnNextLine": False,
        "AlignAfterOpenBracket": "AlwaysBreak",
        "AllowShortFunctionsOnASingleLine": "Inline",
        "AllowShortLoopsOnASingleLine": False,
        "AllowShortIfStatementsOnASingleLine": "Never",
        "InsertBraces": True,
        "IncludeBlocks": "Preserve",
        "CommentPragmas": "^     ",
        "ReflowComments": False,
        "SpacesBeforeTrailingComments": 2,
    }
)


def format_cpp(text: str, file_name: str = "kernel.cpp") -> str:
    """The text as clang-format lays it out; ToolError if clang-format is missing or does not like it."""
    try:
        done = subprocess.run(
            [_clang_format(), f"--style={STYLE}", f"--assume-filename={file_name}"],
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=_MOST_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"clang-format does not end on {file_name} in {_MOST_SECONDS} s.") from error
    except OSError as error:
        raise ToolError(f"clang-format did not start: {error}.", hint="pip install clang-format") from error
    if done.returncode != 0:
        raise ToolError(f"clang-format failed on {file_name}: {done.stderr.strip()}")
    return done.stdout


@functools.cache
def _clang_format() -> str:
    """The program inside the clang-format package, whose script starts a Python for each file; else the one on PATH."""
    package = importlib.util.find_spec("clang_format")
    if package is None or package.origin is None:
        return "clang-format"
    program = Path(package.origin).parent / "data" / "bin" / "clang-format"
    return str(program) if program.exists() else "clang-format"
