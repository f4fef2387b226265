"""Kernels of one unit built by one call of g++, where a unit has several that are not built yet.

What a kernel's build costs is mostly g++'s beginning: it reads the headers and what every binding has in common. Here
each kernel's own text and its binding, as the unit's builder writes them, stand in a namespace of their own in one
source, compiled with the unit's own flags, and are linked into a shared object for each, where the unit looks for it.
A unit whose kernels cannot be compiled like that is built by its own builder, kernel by kernel.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from longhand.proof import cpp_builder

__all__ = ["build_joined", "join_builds"]

_INCLUDE = re.compile(r"^#include .*$", re.MULTILINE)
_OWN = "PyObject *parameters["  # where what all bindings have in common ends
_ENTRY = "longhand_binding"
_build_apart = cpp_builder._built


def join_builds() -> None:
    """In this process and its forks."""
    cpp_builder._built = _built


def _built(runtime: Any, sources: list[Path], tell: Callable[[str], None]) -> dict[str, str]:
    missing = [source for source in sources if not runtime.is_kept(_place(runtime, source))]
    if len(missing) > 1 and runtime._has_binding():
        build_joined(runtime, missing)
    return _build_apart(runtime, sources, tell)  # what is built already it finds


def build_joined(runtime: Any, sources: Sequence[Path]) -> bool:
    """Builds kernels of one folder, with the builder of their unit; False if they do not compile together."""
    compiler = [*shlex.split(runtime.COMPILER), *runtime.FLAGS]
    flags = [f"-I{sources[0].parent}", *runtime._python_flags()]
    folder = runtime._cache_folder()
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        source, joined = Path(scratch) / "unit.cpp", Path(scratch) / "unit.o"
        source.write_text(_joined(runtime, sources), encoding="utf-8")
        compiled = [one for one in compiler if one != "-shared"]
        if not _runs([*compiled, *flags, "-c", str(source), "-o", str(joined)]):
            return False
        for number, kernel in enumerate(sources):
            result, digest = Path(scratch) / "unit.so", Path(scratch) / "unit.sha256"
            entry = f"-Wl,--defsym={_ENTRY}={_ENTRY}_{number}"
            if not _runs([*compiler, entry, str(joined), "-o", str(result), *runtime.LIBRARIES]):
                return False
            digest.write_text(hashlib.sha256(result.read_bytes()).hexdigest())
            place = _place(runtime, kernel)
            os.replace(result, place)
            os.replace(digest, place.with_suffix(".sha256"))
    return True


def _place(runtime: Any, source: Path) -> Path:
    """Where the unit's builder keeps a kernel."""
    key = runtime._build_key(source, runtime._translation_unit(source))
    return Path(runtime._cache_folder(), f"{source.stem}-{key}.so")


def _joined(runtime: Any, sources: Sequence[Path]) -> str:
    """One source of all kernels: what they include, what bindings have in common, and each in its namespace."""
    included = dict.fromkeys(
        itertools.chain.from_iterable(
            _INCLUDE.findall(source.read_text(encoding="utf-8")) for source in sources
        )
    )
    bindings = [runtime._translation_unit(source).split("\n", 1)[1] for source in sources]
    common = bindings[0].partition(_OWN)[0]
    text = [*included, "#pragma GCC push_options", common, "}  // namespace", "#pragma GCC pop_options"]
    for number, (source, binding) in enumerate(zip(sources, bindings, strict=True)):
        assert binding.startswith(common)
        name, _ = runtime.parse_signature(source)
        own = binding.removeprefix(common).replace(f"  ::{name}(", f"  {name}(")
        own = own.replace(_ENTRY, f"{_ENTRY}_{number}")
        text += [f"namespace kernel_{number} {{", f'#include "{source.name}"', "#pragma GCC push_options"]
        text += ['#pragma GCC optimize("O1")', "namespace {", own, "}", "#pragma GCC pop_options"]
    return "\n".join(text) + "\n"


def _runs(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
