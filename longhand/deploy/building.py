"""`longhand build`: a unit with its kernels built, as a folder that runs where there is no compiler.

The folder is the unit without longhand's own files, with what was compiled in kernels/built. For a CPU these are shared
objects, for each kernel and each set of instructions one, plain C, so that they fit every Python; for a GPU they are
Triton's binaries (deploy/cubins.py). Its runtime.py loads them and builds nothing.
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

from longhand.deploy.cubins import Cubins, compile_cubins
from longhand.emit.unit.lock_file import leaves, read_lock
from longhand.emit.unit.merge import refuse
from longhand.emit.unit.on_disk import BASE
from longhand.emit.unit.templates import format_python, imported_from_runtime, write_runtime_files
from longhand.errors import OptionError, OutputError, ToolError, UnitError
from longhand.loading import import_file
from longhand.staleness.model_check import broken_edits

_MANIFEST = "kernels/built/manifest.json"
_OWN = (BASE, "__pycache__", ".gitattributes", "*.pyc", "*.new")
# What /proc/cpuinfo calls the instructions of a level, those of the levels below it included.
_V2 = ("cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3")
_V3 = (*_V2, "abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_LEVELS = {"x86-64-v4": _V4, "x86-64-v3": _V3, "x86-64-v2": _V2, "x86-64": ()}
_ARM = {"armv8-a": ()}
Tell = Callable[[str, int, int], None]


@dataclasses.dataclass(frozen=True, repr=False)
class Built:
    """What was built.

    Attributes:
        folder: Where.
        name: The package.
        device: "cpu" or "cuda".
        kernels: Those that were built.
        levels: For what: sets of instructions, the most demanding first, or GPUs.
        n_bytes: Of all objects.
        left: Kernels that Triton must compile where they run, each with the reason.
    """

    folder: Path
    name: str
    device: str
    kernels: int
    levels: tuple[str, ...]
    n_bytes: int
    left: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Built {self._title}>"

    @property
    def _title(self) -> str:
        made = f"{self.kernels} kernel{'s' * (self.kernels != 1)} for {', '.join(self.levels)}"
        return f"{self.folder}: {self.name}, {made}, {self.n_bytes / 1e3:.0f} kB"

    def __str__(self) -> str:
        lines = [self._title]
        return "\n".join(
            [*lines, *(f"  not built, so that it needs a C compiler: {one}" for one in self.left)]
        )


def levels_here() -> tuple[str, ...]:
    """The sets of instructions that can be built for on this machine, the most demanding first."""
    return tuple(_LEVELS if platform.machine() == "x86_64" else _ARM)


def build(
    folder: Path,
    out: Path,
    levels: Sequence[str] = (),
    tell: Tell = lambda *_: None,
    *,
    name: str = "",
    archs: Sequence[str] = (),
    sizes: Sequence[str] = (),
) -> Built:
    """Builds a unit into a folder of its own.

    Args:
        folder: The unit; it stays as it is.
        out: The folder to write; what an earlier build left there is replaced.
        levels: Sets of instructions; by default one that every server of the last ten years has.
        tell: Is told what is being built.
        name: The package; by default the unit's folder.
        archs: GPUs, such as ``sm_90``; by default the one that the unit was generated for.
        sizes: Sizes that vary are built for these, such as ``x:0=1,8,64``; by default for powers of two.

    Raises:
        OptionError: A set of instructions is unknown here, an option is for units of the other kind, or the name is
            none of a package.
        UnitError: There is no unit, or its runtime.py was edited.
        EditError: An edit breaks what other files rely on.
        ToolError: The compiler is missing or refuses a kernel.
        OutputError: `out` holds something else, or cannot be written.
    """
    lock = read_lock(folder)
    name = name or folder.resolve().name
    if not name.isidentifier():
        raise OptionError(f"{name!r} is no name of a package.", hint="Give one with --name.")
    device = str(lock.get("device", "cpu"))
    chosen = _chosen(levels, archs, sizes, lock)
    refuse(broken_edits(folder), folder)
    if out.exists() and not (out / _MANIFEST).is_file():
        raise OutputError(f"{out} is there and is no build of longhand's.", hint="Choose another folder.")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".longhand-build-") as scratch:
            new = Path(scratch) / "new"
            _copy(folder, new)
            left: tuple[str, ...] = ()
            if device == "cpu":
                _build_kernels(folder, new, chosen, tell)
                n_kernels = len(list(new.glob("kernels/*.cpp")))
            else:
                cubins = _build_cubins(folder, new, chosen, sizes, lock, tell)
                n_kernels, left = len(cubins.binaries), cubins.left
            _write_runtime(new, device)
            n_bytes = sum(path.stat().st_size for path in new.glob("kernels/built/*/*"))
            new.chmod(0o755)
            if out.exists():
                os.rename(out, Path(scratch) / "old")
            os.rename(new, out)
    except OSError as error:
        raise OutputError(f"{out} cannot be written: {error}.") from error
    return Built(out, name, device, n_kernels, chosen, n_bytes, left)


def _chosen(
    levels: Sequence[str], archs: Sequence[str], sizes: Sequence[str], lock: dict[str, Any]
) -> tuple[str, ...]:
    """What to build for."""
    if lock.get("device", "cpu") != "cpu":
        if levels:
            raise OptionError("--isa is of CPU units, and this one is for CUDA.", hint="It takes --arch.")
        return tuple(dict.fromkeys(archs)) or (str(lock["arch"]),)
    if archs or sizes:
        raise OptionError("--arch and --sizes are of CUDA units, and this one is for the CPU.")
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


def _refuse_edited_runtime(folder: Path) -> None:
    written = folder / BASE / "runtime.py"
    if not written.is_file() or written.read_bytes() != (folder / "runtime.py").read_bytes():
        raise UnitError(
            f"{folder / 'runtime.py'} was edited, and a build has a runtime.py of its own.",
            hint="Undo that edit (longhand diff shows it), or deploy the unit itself, with a compiler.",
        )


def _build_cubins(
    folder: Path, new: Path, archs: Sequence[str], sizes: Sequence[str], lock: dict[str, Any], tell: Tell
) -> Cubins:
    """Compiles into the copy."""
    _refuse_edited_runtime(folder)
    built = (new / _MANIFEST).parent
    built.mkdir(parents=True)
    cubins = compile_cubins(folder, built, archs, sizes, lock, tell)
    sources = {path.name: _digest(path.read_bytes()) for path in sorted(new.glob("kernels/*.py"))}
    _write_manifest(
        new,
        {"archs": list(archs), "sources": sources, "binaries": cubins.binaries, "objects": cubins.objects},
    )
    return cubins


def _build_kernels(folder: Path, new: Path, levels: Sequence[str], tell: Tell) -> None:
    """Builds into the copy."""
    _refuse_edited_runtime(folder)
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
            objects[f"{level}/{source.stem}.so"] = _digest(result.result().read_bytes())
    headers = b"".join(path.read_bytes() for path in sorted((new / "kernels").glob("*.h")))
    digests = {one.name: _digest(one.read_bytes() + headers) for one in sources}
    known: dict[str, tuple[str, ...]] = {**_LEVELS, **_ARM}
    manifest = {
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "instructions": {level: list(known[level]) for level in levels},
        "sources": digests,
        "objects": objects,
    }
    _write_manifest(new, manifest)


def _write_runtime(new: Path, device: str) -> None:
    """Gives the copy the runtime that loads what was built."""
    texts = {path.relative_to(new).as_posix(): path.read_text() for path in new.rglob("*.py")}
    wanted = imported_from_runtime({path: text for path, text in texts.items() if path != "runtime.py"})
    for path, text in write_runtime_files(wanted, built_for=device).items():
        if path == "runtime.py":
            (new / path).write_text(format_python(text))
        elif not (new / path).exists():  # else it is the unit's, as it may have been edited
            (new / path).write_text(text)


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


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write_manifest(new: Path, manifest: dict[str, Any]) -> None:
    (new / _MANIFEST).parent.mkdir(parents=True, exist_ok=True)
    (new / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
