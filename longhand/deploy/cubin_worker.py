"""A process that compiles a CUDA unit's kernels for `longhand build`; it needs no GPU and no driver.

``python -m longhand.deploy.cubin_worker FOLDER BUILT ARCH SETS`` runs the unit's own check.py on tensors without
memory, at the example's sizes and at each of SETS (a JSON list), and compiles every launch that it makes: as Triton
would, and so that less is assumed (pointers that are no multiples of 16, other numbers). BUILT, a folder, gets the
binaries and a list of them, binaries.json.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import triton
from triton.compiler import ASTSource

from longhand.emit.unit.lock_file import read_lock
from longhand.loading import import_file
from longhand.proof.triton_compiler import capability
from longhand.proof.triton_server import SHARED_BYTES, Driver, in_words
from longhand.verify.interpretation import MadeOn
from longhand.verify.varied_sizes import SizeRules, Sizes, with_tensors
from longhand.verify.worker_progress import tell

_NAME = "longhand_compiled_unit"
_CHECKS = ("check_tensor", "check_tensors", "check_lists_apart", "check_weights")
_MULTIPLE = "tt.divisibility"


@dataclasses.dataclass(frozen=True)
class Launched:
    """A launch of a kernel: the kernel, its arguments by name, and what else Triton is told.

    Attributes:
        kernel: Triton's.
        given: By parameter.
        options: Such as the number of warps.
    """

    kernel: Any
    given: Mapping[str, Any]
    options: Mapping[str, Any]

    @property
    def file_key(self) -> str:
        """As the unit's runtime names it: the file, and the function in it."""
        return _file_key(self.kernel)


def _file_key(kernel: Any) -> str:
    return f"{Path(kernel.fn.__code__.co_filename).stem}.{kernel.fn.__name__}"


class Recorder:
    """Stands where the unit's runtime launches: compiles what it would launch, once for each kind of call."""

    def __init__(self, built: Path, arch: str, *, sizes_vary: bool) -> None:
        self.built, self.arch, self.sizes_vary = built, arch, sizes_vary
        self.binaries: dict[str, list[dict[str, Any]]] = {}
        self.failures: dict[str, str] = {}
        self._seen: set[str] = set()

    def launch(self, kernel: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        """What ``kernel[grid](*args, **options)`` is here."""
        names = [parameter.name for parameter in kernel.params]
        given = dict(zip(names, args, strict=False)) | {
            name: value for name, value in options.items() if name in names
        }
        launched = Launched(
            kernel, given, {name: value for name, value in options.items() if name not in names}
        )
        if launched.file_key in self.failures:
            return
        try:
            for source in self._sources(launched):
                self._compile(launched, source)
        except Exception as error:
            self.failures[launched.file_key] = in_words(error)

    def leave(self, kernel: Any, grid: Any) -> Any:
        """What ``kernel[grid]`` is of a kernel that the unit does not launch through its runtime."""
        self.failures[_file_key(kernel)] = "its function lacks @fast_launch"
        return lambda *_, **__: None

    def _sources(self, launched: Launched) -> Iterator[ASTSource]:
        """What is compiled of a launch, those that assume most first."""
        kernel, given = launched.kernel, launched.given
        options = {**launched.options, "enable_fp_fusion": True}  # as the unit's own launcher says it
        # Named arguments: Triton's binder takes all of them so.
        usual = kernel.run(**given, grid=(1, 1, 1), warmup=True, **options).src
        yield usual
        free = {parameter.name: _unassuming(parameter, usual.signature, given) for parameter in kernel.params}
        names = list(free)
        of_numbers, of_pointers = (
            {at: said for at, said in usual.attrs.items() if free[names[at[0]]].startswith("*") is is_pointer}
            for is_pointer in (False, True)
        )
        if not self.sizes_vary:
            yield ASTSource(kernel, dict(usual.signature), dict(usual.constants), of_numbers)
            return
        constants = {name: given[name] for name, kind in free.items() if kind == "constexpr"}
        yield ASTSource(kernel, free, constants, of_pointers)
        yield ASTSource(kernel, free, constants, {})

    def _compile(self, launched: Launched, source: ASTSource) -> None:
        entry = _entry(launched, source, self.arch)
        key = json.dumps([launched.file_key, entry], sort_keys=True)
        if key in self._seen:
            return
        self._seen.add(key)
        target = Driver(capability(self.arch)).target
        compiled = triton.compile(
            source, target=target, options={**launched.options, "enable_fp_fusion": True}
        )
        binary = compiled.asm["cubin"]
        digest = hashlib.sha256(binary).hexdigest()
        file = f"{self.arch}/{launched.file_key}.{digest[:12]}.cubin"
        (self.built / file).parent.mkdir(parents=True, exist_ok=True)
        (self.built / file).write_bytes(binary)
        entry |= _facts(compiled, len(entry["takes"]), self.arch) | {"file": file}
        self.binaries.setdefault(launched.file_key, []).append(entry)


def _unassuming(parameter: Any, signature: Mapping[str, str], given: Mapping[str, Any]) -> str:
    """The type of an argument of which only that is assumed: Triton made a constant of a 1."""
    kind = signature[parameter.name]
    is_made_constant = kind == "constexpr" and not parameter.is_constexpr
    return "i32" if is_made_constant and type(given[parameter.name]) is int else kind


def _entry(launched: Launched, source: ASTSource, arch: str) -> dict[str, Any]:
    """When a binary may be used."""
    constants, takes = {}, []
    for place, (name, kind) in enumerate(source.signature.items()):
        value = launched.given[name]
        if kind == "constexpr":
            if not isinstance(value, int | float | str | bool | None):
                raise TypeError(
                    f"{name} is a constant of type {type(value).__name__}, which no file can hold"
                )
            constants[name] = value
            continue
        said = dict(source.attrs.get((place,), ()))
        what = f"*{value.dtype}" if isinstance(value, torch.Tensor) else kind
        takes.append([name, what, int(said.get(_MULTIPLE, 1))])
    return {"arch": arch, "constants": constants, "options": dict(launched.options), "takes": takes}


def _facts(compiled: Any, n_arguments: int, arch: str) -> dict[str, Any]:
    """What a launch needs to know of a binary.

    Raises:
        TypeError: It cannot be launched by its arguments and a grid alone.
    """
    about = compiled.metadata
    header = re.search(r"\.entry\s+\w+\((.*?)\)", compiled.asm["ptx"], re.DOTALL)
    n_parameters = len(re.findall(r"\.param\s", header[1])) if header else 0
    limit = SHARED_BYTES.get(capability(arch))
    reasons = {
        "memory of its own": about.global_scratch_size + about.profile_scratch_size,
        "clusters of programs": about.num_ctas != 1,
        "a cooperative launch": about.launch_cooperative_grid or about.launch_pdl,
        "tensor descriptors": getattr(about, "tensordesc_meta", None),
        "other parameters than its arguments": not 0 <= n_parameters - n_arguments <= 2,
        "more shared memory than there is": limit is not None and about.shared > limit,
    }
    if needs := [words for words, is_so in reasons.items() if is_so]:
        raise TypeError(f"it needs {needs[0]}")
    return {
        "name": about.name,
        "threads": 32 * about.num_warps,
        "shared": about.shared,
        "parameters": n_parameters,
    }


def main(folder: Path, built: Path, arch: str, sets: list[Sizes]) -> None:
    """Compiles, and writes binaries.json: the binaries by kernel, and why some have none."""
    triton.runtime.driver.set_active(Driver(capability(arch)))
    rules = SizeRules.of(read_lock(folder))
    with torch.device("meta"), MadeOn("meta"):
        package = import_file(_NAME, folder / "__init__.py", [str(folder)])
    recorder = Recorder(built, arch, sizes_vary=bool(rules.varied))
    _stand_in(package, recorder)
    check: Any = importlib.import_module(f"{_NAME}.check")
    check.DEVICE = "meta"
    make = check.make_arguments
    notes = []
    for number, sizes in enumerate(({}, *sets)):
        tell(f"{arch}, at {sizes or 'the example'}", number, 1 + len(sets))
        if sizes:
            check.make_arguments = lambda sizes=sizes: with_tensors(
                make(), lambda tensors: rules.resized(tensors, sizes)
            )
        try:
            with torch.device("meta"), MadeOn("meta"):
                check.run()
        except Exception as error:
            notes.append(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
    for entries in recorder.binaries.values():
        entries.sort(key=_assumed, reverse=True)
    outcome = {"binaries": recorder.binaries, "failures": recorder.failures, "notes": notes}
    (built / "binaries.json").write_text(json.dumps(outcome))


def _assumed(entry: Mapping[str, Any]) -> int:
    """How much a binary assumes of its call."""
    return len(entry["constants"]) + sum(multiple > 1 for _, _, multiple in entry["takes"])


def _stand_in(package: Any, recorder: Recorder) -> None:
    """Lets the unit run on tensors without memory: what launches records, what looks at memory does not look."""
    runtime, model = sys.modules[f"{_NAME}.runtime"], sys.modules[f"{_NAME}.model"]
    for launcher in ("FastLaunch", "CheckedLaunch"):
        if hasattr(runtime, launcher):
            getattr(runtime, launcher).__getitem__ = lambda self, _: (
                lambda *args, **options: recorder.launch(self.kernel, args, options)
            )
    triton.JITFunction.__getitem__ = lambda kernel, grid: recorder.leave(kernel, grid)
    for module in (model, sys.modules.get(f"{_NAME}.backward")):
        for name in _CHECKS:
            if hasattr(module, name):
                setattr(module, name, lambda *_, **__: None)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]))
