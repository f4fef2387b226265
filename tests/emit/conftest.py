"""Units made from small models through every room, for the tests of emit/."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longhand.capture.frontends.export import capture_export
from longhand.emit.unit.files import emit_unit
from longhand.emit.unit.writer import write_unit
from longhand.lower.lowering import lower
from longhand.options import Device, Mode, Options, Target
from longhand.proof.python import prove_python
from longhand.schedule.names.unit import name_plans
from longhand.schedule.names.unit_names import Ledger
from longhand.schedule.plan import UnitPlan
from longhand.schedule.scheduler import schedule

Files = dict[str, str | bytes]


def plan_unit(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, **wanted: Any
) -> UnitPlan:
    """The plan of a model for the CPU, or for ``device="cuda"``."""
    device = Device(wanted.pop("device", "cpu"))
    target = Target(device, "sm_90" if device is Device.CUDA else None)
    options = Options(target, Mode(wanted.pop("mode", "default")))
    graph = capture_export(model, args, kwargs or {}, target=target, **wanted)
    return schedule(lower(graph, options), options)


@pytest.fixture
def emit() -> Callable[..., Files]:
    """emit(model, args, kwargs, ledger=..., device=...): the unit's files."""

    def run(*call: Any, ledger: Ledger | None = None, **wanted: Any) -> Files:
        files = emit_unit(name_plans(plan_unit(*call, **wanted), ledger=ledger))
        prove_python(files)
        return files

    return run


@pytest.fixture
def unit_folder(tmp_path: Path) -> Callable[..., Path]:
    """unit_folder(model, args, kwargs): the folder of a written unit."""

    def run(*call: Any, name: str = "unit", **wanted: Any) -> Path:
        folder = tmp_path / name
        files = emit_unit(name_plans(plan_unit(*call, **wanted)))
        prove_python(files)
        write_unit(files, folder)
        return folder

    return run
