"""The command line's outer shell: right Python, exit codes, and errors as one paragraph instead of a traceback.

Exit codes: 0 fine; 1 the answer is no (`verify` found a difference); 2 wrong usage or bad input; 3 a bug in longhand.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import textwrap

from longhand.collection import no_collection

_SUPPORTED = ((3, 11), (3, 12), (3, 13))


def main(arguments: list[str] | None = None) -> None:
    """Runs the command and exits."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Runs the command; the exit code."""
    if sys.version_info[:2] not in _SUPPORTED:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return _refuse(f"longhand runs on Python 3.11 to 3.13; this is {version} ({sys.executable}).", 2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that shows ASCII only
    debug = os.environ.get("LONGHAND_DEBUG", "0") not in ("", "0")
    # Imported here and not above: importing torch takes seconds, and an unsupported Python may not manage it.
    errors = importlib.import_module("longhand.errors")
    try:
        with no_collection():
            commands = importlib.import_module("longhand.cli.commands")
        return int(commands.run(arguments))
    except errors.VerificationError as error:
        if debug:
            raise
        return _refuse(str(error), 1)
    except errors.ProofError as error:
        if debug:
            raise
        return _refuse(str(error), 3)
    except errors.LonghandError as error:
        if debug:
            raise
        return _refuse(str(error), 2)
    except KeyboardInterrupt:
        return _refuse("Interrupted. Nothing was changed on disk.", 130)
    except Exception as error:
        if debug:
            raise
        text = f"This is a bug in longhand: {type(error).__name__}: {' '.join(str(error).split())}."
        return _refuse(f"{text} Run it with LONGHAND_DEBUG=1 for the traceback, and report it.", 3)


def _refuse(text: str, code: int) -> int:
    paragraphs = [" ".join(line.split()) for line in f"longhand: {text}".splitlines() if line.strip()]
    for paragraph in paragraphs:
        indent = "  " if paragraph.startswith("- ") else ""
        filled = textwrap.fill(
            paragraph, 80, break_long_words=False, break_on_hyphens=False, subsequent_indent=indent
        )
        print(filled, file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
