"""The files of a room in which a function runs while a unit is made: `python -m tests.entered_files FACTORY`.

In the order in which they are entered, with the lines of the file and those of the functions that ran in it. Nothing
is compiled and nothing is on disk yet; what runs while modules are imported does not count.
"""

import ast
import sys
import tempfile
from pathlib import Path

from longhand.api import generate
from longhand.factory import resolve

ROOT = Path(__file__).resolve().parent.parent


def entered_files(
    factory: str, room: str = "emit", device: str = "cuda", arch: str | None = "sm_90"
) -> dict[str, int]:
    """By file, relative to the repository: how many lines the functions have that ran. Once a process: texts stay."""
    folder = str(ROOT / room) + "/"
    ran: dict[str, set[int]] = {}

    def note(frame, event, _):
        code = frame.f_code
        is_function = code.co_flags & 1  # CO_OPTIMIZED: no module, no class
        if event == "call" and is_function and code.co_filename.startswith(folder):
            ran.setdefault(code.co_filename, set()).add(code.co_firstlineno)

    call = resolve(factory)
    with tempfile.TemporaryDirectory() as out:
        sys.setprofile(note)
        try:
            generate(
                call.model,
                call.args,
                call.kwargs,
                out=Path(out) / "unit",
                device=device,
                arch=arch,
                factory=factory,
            )
        finally:
            sys.setprofile(None)
    return {str(Path(name).relative_to(ROOT)): len(_lines(name, first)) for name, first in ran.items()}


def _lines(name: str, first: set[int]) -> set[int]:
    """The lines of the functions that begin there; decorators are where a function begins."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(Path(name).read_text())):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            begin = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
            if {begin, node.lineno} & first:
                found |= set(range(begin, node.end_lineno + 1))
    return found


def main(words: list[str]) -> None:
    found = entered_files(*words)
    for name, n_lines in found.items():
        print(f"{name} {len((ROOT / name).read_text().splitlines())} {n_lines}")
    print(f"{len(found)} files, {sum(found.values())} lines of functions that ran")


if __name__ == "__main__":
    main(sys.argv[1:])
