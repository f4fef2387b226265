"""`longhand handoff`: one folder with all that is needed to edit kernels of a unit and to judge the edits."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from longhand.emit.unit.lock_file import read_lock
from longhand.errors import OutputError, UnitError
from longhand.handoff.call_contract import as_table, described, parameters_of
from longhand.loading import import_file
from longhand.tune.faster import LEAST_GAIN
from longhand.tune.kernel_times import KernelTime, recorded_calls, time_kernels
from longhand.verify.check_worker import trusted_check
from longhand.verify.worker_progress import Tell, no_progress

CONTRACT = "contract.json"
_PACKAGE = "longhand_handed_off_unit"

_RULES = """\
Edit the files in `kernels/`: whatever is inside a kernel, its tunables, its loops, its launch. What its unit relies
on stays: the function's name, its parameters, and what it writes for what it is given. Each Python file ends with the
kernel's `reference`, which says that in PyTorch.

```
longhand accept {out}
longhand accept {out} --dry-run
```

It judges every kernel that was edited, and without --dry-run installs those that pass. An edit passes if it is

- right in every call that the model makes: no farther from the reference in float64 than twice what PyTorch in the
  tensors' own types is, or four units in the last place;
- right at other sizes, drawn at random: sizes are parameters, and a kernel may not be for one of them;
- faster than the kernel as it stands, while both take turns: by more than the noise, by at least {percent}, and in four
  of five turns.

## The hardware
"""


@dataclasses.dataclass(frozen=True)
class Handoff:
    """What was written.

    Attributes:
        folder: Where.
        kernels: What is in it.
    """

    folder: Path
    kernels: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.folder}: {', '.join(self.kernels)}. Edit {self.folder / 'kernels'}, "
            f"then: longhand accept {self.folder}"
        )


def hand_off(unit: Path, kernels: Sequence[str], out: Path, *, tell: Tell = no_progress) -> Handoff:
    """Writes the folder.

    Args:
        unit: The unit; it stays as it is.
        kernels: Those to give away; all if empty.
        out: The folder to write.
        tell: Is told what is being done.

    Raises:
        UnitError: There is no such unit or kernel, or it cannot run here.
        OutputError: `out` is there already.
    """
    known = read_lock(unit).get("kernels", {})
    if unknown := [name for name in kernels if name not in known]:
        raise UnitError(f"{unit} has no kernel {unknown[0]!r}.", hint=f"It has: {', '.join(sorted(known))}.")
    if out.exists():
        raise OutputError(f"{out} is there already.", hint="Choose another --out, or remove it.")
    names = sorted(set(kernels) or set(known))
    if not names:
        raise UnitError(f"{unit} has no kernels: it is library calls alone.")
    tell("recording calls", 0, 2)
    contract = _contract(unit, names, out)
    tell("timing kernels", 1, 2)
    times = time_kernels(unit)
    texts = {
        path: (unit / path).read_bytes() for name in names for path in contract["kernels"][name]["files"]
    }
    texts |= {f"kernels/{path.name}": path.read_bytes() for path in (unit / "kernels").glob("*.h")}
    for path, content in texts.items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_bytes(content)
    (out / CONTRACT).write_text(json.dumps(contract, indent=1) + "\n")
    (out / "README.md").write_text(_readme(unit, out, contract, times))
    return Handoff(out, tuple(names))


def _contract(unit: Path, names: Sequence[str], out: Path) -> dict[str, Any]:
    """What `accept` and whoever edits must know, as JSON."""
    package = import_file(_PACKAGE, unit.resolve() / "__init__.py", [str(unit.resolve())])
    check = trusted_check(unit.resolve(), package.__name__)
    seen: dict[str, list[list[dict[str, Any]]]] = {}

    def see(name: str, given: tuple[Any, ...]) -> None:
        seen.setdefault(name, []).append(described(parameters_of(check.KERNELS[name][0]), given))

    runs: dict[str, Callable[[], Any]] = {}
    with torch.no_grad():
        calls = recorded_calls(unit.resolve(), f"{_PACKAGE}_recorded", runs, see)
    kernels = {}
    for name in names:
        files = [path for end in ("cpp", "py") if (unit / (path := f"kernels/{name}.{end}")).is_file()]
        kernels[name] = {
            "files": {path: hashlib.sha256((unit / path).read_bytes()).hexdigest() for path in files},
            "calls": [
                {"times": one.count, "arguments": words}
                for one, words in zip(calls.get(name, {}).values(), seen.get(name, ()), strict=True)
            ],
        }
    return {
        "format": 1,
        "unit": os.path.relpath(unit.resolve(), out.resolve()),
        "device": check.DEVICE,
        "kernels": kernels,
    }


def _readme(unit: Path, out: Path, contract: Mapping[str, Any], times: Mapping[str, KernelTime]) -> str:
    names = list(contract["kernels"])
    lines = [
        f"# Kernels of {unit.resolve().name}, to be made faster",
        "",
        *_RULES.format(out=out, percent=f"{100 * LEAST_GAIN:.0f}%").splitlines(),
        "",
        *_hardware(contract["device"]),
    ]
    for name in names:
        lines += [
            "",
            f"## {name}",
            "",
            _title(unit / f"kernels/{name}.py"),
            "",
            *_roofline(times.get(name)),
            "",
        ]
        lines += [f"Files: {', '.join(f'`{path}`' for path in contract['kernels'][name]['files'])}."]
        for call in contract["kernels"][name]["calls"]:
            many = f"{call['times']} times" if call["times"] > 1 else "once"
            lines += ["", f"Called {many} so in a call of the model:", "", *as_table(call)]
    return "\n".join(lines) + "\n"


def _title(face: Path) -> str:
    """What a kernel's Python file says that it computes."""
    words = ast.get_docstring(ast.parse(face.read_text()))
    return " ".join((words or "").partition("\n\n")[0].split())


def _hardware(device: str) -> list[str]:
    if device == "cuda":
        gpu = torch.cuda.get_device_properties(0)
        return [
            f"{gpu.name}: {gpu.multi_processor_count} multiprocessors, {gpu.total_memory / 2**30:.0f} GiB, "
            f"{gpu.shared_memory_per_multiprocessor // 1024} KiB of shared memory in each, "
            f"sm_{gpu.major}{gpu.minor}."
        ]
    return [
        f"{torch.get_num_threads()} of the threads of a {platform.machine()} processor, "
        f"{torch.backends.cpu.get_cpu_capability()}."
    ]


def _roofline(time: KernelTime | None) -> list[str]:
    """What a kernel takes, and what it would if memory were all that it waited for."""
    if time is None:
        return ["It was not timed."]
    least = time.times.median * time.share
    return [
        f"One call takes {time.times.median:.4g} ms (noise {100 * time.times.noise:.1f}%) and moves "
        f"{time.bytes_moved:,} bytes: {time.gb_per_s:.1f} GB/s. A plain copy of as many bytes takes "
        f"{least:.4g} ms here: that is the floor of whatever must read and write these bytes."
    ]
