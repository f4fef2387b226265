"""Builds a unit's C++ kernels with the unit's own builder: what it keeps is what the first call looks for."""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from longhand.loading import import_file

_number = itertools.count()


class BuilderUnavailable(Exception):
    """There is no C++ compiler here, or no place for what it builds: nothing is known of the kernels."""


def build_kernels(files: Mapping[str, str], tell: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """Builds every C++ kernel, several at a time.

    Args:
        files: The unit's text, by path.
        tell: Is told of each kernel that is done.

    Returns:
        By kernel, why it cannot be built; those that can are not in it.

    Raises:
        BuilderUnavailable: Nothing is known of them.
    """
    with tempfile.TemporaryDirectory(prefix="longhand-") as scratch:
        folder = Path(scratch)
        (folder / "kernels").mkdir()
        native = [path for path in files if path.endswith((".cpp", ".h"))]
        for path in [*native, "runtime.py"]:
            (folder / path).write_text(files[path], encoding="utf-8")
        with _runtime(folder) as runtime:
            compiler = shlex.split(runtime.COMPILER)  # several words, as in `ccache g++`, or none
            if not compiler or shutil.which(compiler[0]) is None:
                raise BuilderUnavailable(f"the C++ compiler {runtime.COMPILER!r} is not here")
            try:
                runtime._cache_folder()
            except runtime.KernelBuildError as error:
                raise BuilderUnavailable(str(error)) from error
            sources = sorted((folder / "kernels").glob("*.cpp"))
            return _built(runtime, sources, tell)


def _built(runtime: Any, sources: list[Path], tell: Callable[[str], None]) -> dict[str, str]:
    faults = {}
    with ThreadPoolExecutor() as threads:
        waiting = {threads.submit(runtime.build, source): source for source in sources}
        for done in as_completed(waiting):
            source = waiting[done]
            tell(source.stem)
            error = done.exception()
            if isinstance(error, runtime.KernelBuildError):
                words = str(error).replace(f"{source.parent}/", "")
                faults[source.stem] = " ".join(re.sub(r".*could not build \S+:", "", words).split())
            elif error is not None:
                raise error
    return faults


@contextlib.contextmanager
def _runtime(folder: Path) -> Iterator[Any]:
    name = f"longhand_runtime_{next(_number)}"
    try:
        yield import_file(name, folder / "runtime.py")
    finally:
        sys.modules.pop(name, None)
