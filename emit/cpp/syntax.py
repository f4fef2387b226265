"""Asks the C++ compiler whether kernels would build, without building them: file, line and its words where not."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from longhand.emit.unit.contract import Breach

_MOST_SECONDS = 120
_ERROR = re.compile(
    r"^(?P<path>[^:\n]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<what>.*)$", re.MULTILINE
)


def syntax_errors(folder: Path, kernels: Iterable[str]) -> list[Breach]:
    """The first error of each named kernel that the compiler refuses; none where there is no compiler.

    Args:
        folder: The unit.
        kernels: Names without extension; those without a C++ file pass.
    """
    words = shlex.split(os.environ.get("CXX", "g++"))
    compiler = words if words and shutil.which(words[0]) else None
    breaches = []
    for name in kernels:
        source = folder / "kernels" / f"{name}.cpp"
        if compiler is None or not source.is_file():
            continue
        command = [*compiler, "-std=c++20", "-fopenmp", "-fsyntax-only", f"-I{source.parent}", str(source)]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
                env={**os.environ, "LC_ALL": "C"},
                timeout=_MOST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            breaches.append(
                Breach(f"kernels/{name}.cpp", 1, f"the compiler does not end in {_MOST_SECONDS} s")
            )
            continue
        match = _ERROR.search(done.stderr)
        if done.returncode != 0:
            path = f"kernels/{name}.cpp"
            if match is not None and Path(match["path"]).is_relative_to(folder):
                path = Path(match["path"]).relative_to(folder).as_posix()
            line, what = (int(match["line"]), match["what"]) if match else (1, "it does not build")
            breaches.append(Breach(path, line, what))
    return breaches
