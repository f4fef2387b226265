"""`longhand build`: a unit with its C++ kernels built, as a folder that runs where there is no compiler.

The folder is the unit without longhand's own files, with shared objects in kernels/built: for each kernel and each set
of instructions one, plain C, so that they fit every Python. Its runtime.py loads them and builds nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
import shlex
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from longhand.emit.text.formatting import format_python
from longhand.emit.unit.lock_file import read_lock
from longhand.emit.unit.merge import refuse
from longhand.emit.unit.on_disk import BASE
from longhand.emit.unit.reading import leaves
from longhand.emit.unit.runtime_py import imported_from_runtime, write_runtime
from longhand.errors import OptionError, OutputError, ToolError, UnitError
from longhand.loading import import_file
from longhand.staleness.currency import broken_edits

_MANIFEST = "kernels/built/manifest.json"
_OWN = (BASE, "__pycache__", ".gitattributes", "*.pyc", "*.new")
# What /proc/cpuinfo calls the instructions of a level, those of the levels below it included.
_V2 = ("cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3")
_V3 = (*_V2, "abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_LEVELS = {"x86-64-v4": _V4, "x86-64-v3": _V3, "x86-64-v2": _V2, "x86-64": ()}
_ARM = {"armv8-a": ()}
Tell = Callable[[str, int, int], None]


@dataclasses.dataclass(frozen=True)
class Built:
    """What was built.

    Attributes:
        folder: Where.
        name: The package.
        kernels: Shared objects of one set of instructions.
        instructions: The sets, the most demanding first; empty for a unit without C++ kernels.
        n_bytes: Of all shared objects.
    """

    folder: Path
    name: str
    kernels: int
    instructions: tuple[str, ...]
    n_bytes: int

    def __str__(self) -> str:
        if not self.instructions:
            return f"{self.folder}: {self.name}; Triton compiles its kernels at the first call"
        made = f"{self.kernels} kernel{'s' * (self.kernels != 1)} for {', '.join(self.instructions)}"
        return f"{self.folder}: {self.name}, {made}, {self.n_bytes / 1e3:.0f} kB"


def levels_here() -> tuple[str, ...]:
    """The sets of instructions that can be built for on this machine, the most demanding first."""
    return tuple(_LEVELS if platform.machine() == "x86_64" else _ARM)


def build(
    folder: Path, out: Path, levels: Sequence[str] = (), tell: Tell = lambda *_: None, *, name: str = ""
) -> Built:
    """Builds a unit into a folder of its own.

    Args:
        folder: The unit; it stays as it is.
        out: The folder to write; what an earlier build left there is replaced.
        levels: Sets of instructions; by default one that every server of the last ten years has.
        tell: Is told what is being built.
        name: The package; by default the unit's folder.

    Raises:
        OptionError: A set of instructions is unknown here, or the name is none of a package.
        UnitError: There is no unit, or its runtime.py was edited.
        EditError: An edit breaks what other files rely on.
        ToolError: The compiler is missing or refuses a kernel.
        OutputError: `out` holds something else, or cannot be written.
    """
    lock = read_lock(folder)
    name = name or folder.resolve().name
    if not name.isidentifier():
        raise OptionError(f"{name!r} is no name of a package.", hint="Give one with --name.")
    chosen = _chosen(levels)
    refuse(broken_edits(folder), folder)
    if out.exists() and not (out / _MANIFEST).is_file():
        raise OutputError(f"{out} is there and is no build of longhand's.", hint="Choose another folder.")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".longhand-build-") as scratch:
            new = Path(scratch) / "new"
            _copy(folder, new)
            n_bytes = 0
            if lock.get("device") == "cpu":
                n_bytes = _build_kernels(folder, new, chosen, tell)
            else:
                chosen = ()
                _write_manifest(new, {}, {}, chosen)
            new.chmod(0o755)
            if out.exists():
                os.rename(out, Path(scratch) / "old")
            os.rename(new, out)
    except OSError as error:
        raise OutputError(f"{out} cannot be written: {error}.") from error
    return Built(out, name, len(list((out / "kernels").glob("*.cpp"))), chosen, n_bytes)


def _chosen(levels: Sequence[str]) -> tuple[str, ...]:
    known = levels_here()
    if unknown := [level for level in levels if level not in known]:
        raise OptionError(
            f"--isa {unknown[0]!r} is unknown on {platform.machine()}.",
            hint=f"Choose of: {', '.join(known)}.",
        )
    default = ("x86-64-v3",) if "x86-64-v3" in known else known[:1]
    return tuple(level for level in known if level in (levels or default))


def _copy(folder: Path, new: Path) -> None:
    if outside := [path for path in folder.rglob("*") if path.is_symlink() and leaves(path, folder)]:
        raise UnitError(f"{outside[0]} leads out of the unit.", hint="Put the file itself there.")
    shutil.copytree(folder, new, ignore=shutil.ignore_patterns(*_OWN))


def _build_kernels(folder: Path, new: Path, levels: Sequence[str], tell: Tell) -> int:
    """Builds into the copy, and gives it the runtime that loads what was built; the bytes of all objects."""
    written = folder / BASE / "runtime.py"
    if not written.is_file() or written.read_bytes() != (folder / "runtime.py").read_bytes():
        raise UnitError(
            f"{folder / 'runtime.py'} was edited, and a build has a runtime.py of its own.",
            hint="Undo that edit (longhand diff shows it), or deploy the unit itself, with a compiler.",
        )
    runtime = import_file(f"longhand_built_runtime_{os.getpid()}", folder / "runtime.py")
    compiler = shlex.split(runtime.COMPILER)
    if not compiler or shutil.which(compiler[0]) is None:
        raise ToolError(
            f"The C++ compiler {runtime.COMPILER!r} is not here.", hint="Install g++, or set CXX."
        )
    sources = sorted((new / "kernels").glob("*.cpp"))
    work = [(level, source) for level in levels for source in sources]
    objects: dict[str, str] = {}
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        running = [
            (level, source, threads.submit(_compile, runtime, compiler, level, source))
            for level, source in work
        ]
        for number, (level, source, result) in enumerate(running):
            tell(f"{source.stem} for {level}", number, len(work))
            objects[f"{level}/{source.stem}.so"] = hashlib.sha256(result.result().read_bytes()).hexdigest()
    headers = b"".join(path.read_bytes() for path in sorted((new / "kernels").glob("*.h")))
    digests = {one.name: hashlib.sha256(one.read_bytes() + headers).hexdigest() for one in sources}
    _write_manifest(new, digests, objects, levels)
    texts = {path.relative_to(new).as_posix(): path.read_text() for path in new.rglob("*.py")}
    wanted = imported_from_runtime({path: text for path, text in texts.items() if path != "runtime.py"})
    (new / "runtime.py").write_text(format_python(write_runtime(wanted, is_built=True)))
    return sum(path.stat().st_size for path in (new / "kernels/built").rglob("*.so"))


def _compile(runtime: Any, compiler: list[str], level: str, source: Path) -> Path:
    result = source.parent / "built" / level / f"{source.stem}.so"
    result.parent.mkdir(parents=True, exist_ok=True)
    flags = [flag for flag in runtime.FLAGS if not flag.startswith(("-march=", "-mcpu="))]
    command = [*compiler, *flags, f"-march={level}", f"-I{source.parent}", str(source), "-o", str(result)]
    exit_code, said = runtime._run([*command, *runtime.LIBRARIES])
    if exit_code != 0:
        raise ToolError(
            f"{runtime.COMPILER} could not build {source.name} for {level}: {' '.join(said.split())}"
        )
    return result


def _write_manifest(
    new: Path, sources: dict[str, str], objects: dict[str, str], levels: Sequence[str]
) -> None:
    known: dict[str, tuple[str, ...]] = {**_LEVELS, **_ARM}
    manifest = {
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "instructions": {level: list(known[level]) for level in levels},
        "sources": sources,
        "objects": objects,
    }
    (new / _MANIFEST).parent.mkdir(parents=True, exist_ok=True)
    (new / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
