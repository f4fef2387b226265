"""launch.c: which calls it takes over from Python, and what it hands to Triton's launcher."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.native.stand_in import StandIn, on_gpu, stand_in
from tests.native.test_blas import aligned

OWN = "a_unit"


class Kernel:
    """A kernel of two tensors, and who launched it how."""

    def __init__(self, tools: StandIn, takes_tuple: bool = False, current_device: Any = None) -> None:
        self.hooks = SimpleNamespace(launch_enter_hook=SimpleNamespace(calls=[]))
        known = (type(on_gpu(torch.ones(1))), torch.nn.Parameter, self.hooks, current_device)
        self.slow_calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.runs: list[tuple[Any, ...]] = []
        self.takes_tuple = takes_tuple
        self.kernel = tools.launch(known)(self.slow, OWN, (7, 1, 1), 2)

    def slow(self, *args: Any, **options: Any) -> Any:
        self.slow_calls.append((args, options))
        return (self.run, ("function", None), tuple(options.values()), self.takes_tuple)

    def run(self, *args: Any) -> None:
        self.runs.append(args)

    def __call__(self, *args: Any, caller: str = OWN, **options: Any) -> str:
        """Launches as a file of `caller` does: through a host function."""
        before = len(self.slow_calls), len(self.runs)
        assert through_host_function(caller)(self.kernel, args, options) is None
        after = len(self.slow_calls) - before[0], len(self.runs) - before[1]
        return {(1, 0): "python", (0, 1): "c"}[after]


def through_host_function(package: str) -> Callable[..., Any]:
    """A host function as a file of `package` calls it."""
    names: dict[str, Any] = {"__package__": package}
    text = (
        "def host(kernel, args, options): return kernel(*args, **options)\n"
        "def caller(*given):\n    result = host(*given)\n    return result\n"
    )
    exec(text, names)
    caller: Callable[..., Any] = names["caller"]
    return caller


@pytest.fixture(name="tools")
def _tools(tmp_path: Path) -> StandIn:
    return stand_in(tmp_path)


@pytest.mark.parametrize("takes_tuple", [False, True])
def test_what_tritons_launcher_is_given(tools: StandIn, takes_tuple: bool) -> None:
    kernel = Kernel(tools, takes_tuple)
    x, out = aligned(8), aligned(8)
    assert kernel(x, out, 8, 0.5, ROWS=4) == "python"
    assert kernel.slow_calls == [((x, out, 8, 0.5), {"ROWS": 4})]
    y = aligned(8)
    assert kernel(y, out, 8, 0.5, ROWS=4) == "c"
    own = (y.data_ptr(), out.data_ptr(), 8, 0.5, 4)
    before = (7, 1, 1, 1000, "function", None)  # the grid, the stream
    assert kernel.runs == [(*before, own) if takes_tuple else (*before, *own)]


def test_what_decides_is_in_the_key(tools: StandIn) -> None:
    kernel = Kernel(tools)
    x, out = aligned(8), aligned(8)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x, out, 8), {}),
        ((x, out, 9), {}),
        ((x, out, 1), {}),
        ((x, out, 1.0), {}),
        ((x, out, True), {}),
        ((x, out, 8, 8), {}),
        ((x, out, 8), {"ROWS": 8}),
        ((x, out, 8), {"COLS": 8}),
        ((x, out, 8), {"ROWS": 9}),
        ((x, out, -(2**63)), {}),
        ((aligned(8, shift=1), out, 8), {}),
        ((x, aligned(8, shift=1), 8), {}),
        ((x, aligned(8, shift=2), 8), {}),
    ]
    for args, options in calls:
        assert kernel(*args, **options) == "python", (args, options)
    tools["pretended_device"] = 1
    assert kernel(x, out, 8) == "python"
    tools["pretended_device"] = 0
    assert kernel(x, out, 8) == "c" and kernel(x, out, 1.0) == "c"


def test_others_than_the_unit_are_checked_by_python(tools: StandIn) -> None:
    kernel = Kernel(tools)
    x, out = aligned(8), aligned(8)
    assert [kernel(x, out, 8, caller="another") for _ in range(3)] == ["python"] * 3
    assert kernel(x, out, 8) == "c"
    assert kernel(x, out, 8, caller="another") == "python"


def test_whatever_is_unusual_is_pythons(tools: StandIn) -> None:
    kernel = Kernel(tools)
    x, out = aligned(8), aligned(8)
    for args in ((torch.ones(8), out, 8), (x, out, 2**63), (x, out, None), (x, out, "8"), (x,)):
        assert [kernel(*args) for _ in range(2)] == ["python"] * 2
    assert kernel(torch.nn.Parameter(torch.ones(8)), out, 8) == "python"
    assert kernel(x, out, 8) == "c"
    kernel.hooks.launch_enter_hook.calls.append(print)
    assert kernel(x, out, 8) == "python"
    kernel.hooks.launch_enter_hook = SimpleNamespace(calls=[])
    assert kernel(x, out, 8) == "c"
    del kernel.hooks.launch_enter_hook
    assert kernel(x, out, 8) == "python"


def test_another_device_is_pythons(tools: StandIn) -> None:
    current = [0]
    kernel = Kernel(tools, current_device=lambda: current[0])
    x, out = aligned(8), aligned(8)
    assert [kernel(x, out, 8) for _ in range(2)] == ["python", "c"]
    current[0] = 1
    assert kernel(x, out, 8) == "python"


def test_what_python_does_not_tell_is_not_kept(tools: StandIn) -> None:
    kernel = Kernel(tools)
    slow = kernel.slow
    untold = tools.launch((type(aligned(1)), torch.nn.Parameter, kernel.hooks, None))(
        lambda *args, **options: slow(*args, **options) and None, OWN, (7, 1, 1), 2
    )
    kernel.kernel = untold
    assert [kernel(aligned(8), aligned(8), 8) for _ in range(3)] == ["python"] * 3


def test_errors_are_the_callers(tools: StandIn) -> None:
    kernel = Kernel(tools)
    x, out = aligned(8), aligned(8)
    kernel(x, out, 8)

    def fails(*_: Any) -> None:
        raise RuntimeError("no driver")

    kernel.run = fails  # type: ignore[method-assign]
    kernel(x, out, 9)
    with pytest.raises(RuntimeError, match="no driver"):
        kernel(x, out, 9)
    assert kernel(x, out, 8) == "c"


def test_entries_are_bounded_and_nothing_leaks(tools: StandIn) -> None:
    kernel = Kernel(tools)
    x, out = aligned(8), aligned(8)
    for n in range(1100):
        kernel(x, out, n)
    assert [kernel(x, out, n) for n in (0, 1023, 1024, 1099)] == ["c", "c", "python", "python"]
    number = 10**12
    kernel(x, out, number)
    gc.collect()
    held = sys.getrefcount(x), sys.getrefcount(number), sys.getrefcount(None)
    kernel.runs.clear()
    for _ in range(2000):
        kernel(x, out, 5)
        kernel.runs.clear()
    gc.collect()
    assert sys.getrefcount(x) == held[0] and sys.getrefcount(number) == held[1]
    assert abs(sys.getrefcount(None) - held[2]) < 1000
