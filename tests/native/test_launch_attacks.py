"""launch.c where something goes wrong: circles, wrong answers of Python's, what runs in the middle of a call."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.native.stand_in import StandIn, stand_in
from tests.native.test_blas import aligned
from tests.native.test_launch import OWN, Kernel, through_host_function


@pytest.fixture(name="tools")
def _tools(tmp_path: Path) -> StandIn:
    return stand_in(tmp_path)


def test_a_kernel_that_keeps_its_launches_is_collected(tools: StandIn) -> None:
    """As FastLaunch does, whose function knows it: before, none of a unit's kernels was ever freed."""
    kernel = Kernel(tools)
    assert [kernel(aligned(8), aligned(8), 8) for _ in range(2)] == ["python", "c"]
    alive = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("given", [
    (print, OWN, (7, 1), 2),
    (print, OWN, (7, 1, 1, 1), 2),
    (print, OWN, [7, 1, 1], 2),
    (print, OWN, (7, 1, 1), 0),
    (print, OWN, (7, 1, 1), -(2**63)),
    (print, OWN, (7, 1, 1), 65),
    (print, OWN, (7, 1, 1), 2**70),
    (print, OWN, (7, 1, 1), "2"),
    (print, OWN),
    (),
])  # fmt: skip
def test_launches_that_cannot_be(tools: StandIn, given: tuple[Any, ...]) -> None:
    way_in = tools.launch((torch.Tensor, torch.nn.Parameter, SimpleNamespace(), None))
    with pytest.raises((TypeError, ValueError, OverflowError)):
        way_in(*given)


@pytest.mark.parametrize("known", [(), (1, 2, 3), (object, object, None, None), 5, (1, 2, 3, 4, 5)])
def test_what_is_told_wrongly_changes_nothing(tools: StandIn, known: Any) -> None:
    kernel = Kernel(tools)
    x, out = aligned(8), aligned(8)
    assert kernel(x, out, 8) == "python"
    with pytest.raises((TypeError, AttributeError, SystemError)):
        tools.launch(known)
    gc.collect()
    assert kernel(x, out, 8) == "c"


@pytest.mark.parametrize("told", [3, (), (1, 2, 3, 4), (print, (), ()), (print, [], (), True), "words"])
def test_what_python_tells_wrongly_is_an_error(tools: StandIn, told: Any) -> None:
    kernel = Kernel(tools)
    kernel.slow = lambda *_, **__: told  # type: ignore[method-assign]
    launch = tools.launch((type(aligned(1)), torch.nn.Parameter, kernel.hooks, None))(
        kernel.slow, OWN, (7, 1, 1), 2
    )
    for _ in range(3):
        with pytest.raises((TypeError, SystemError)):
            launch(aligned(8), aligned(8), 8)


@pytest.mark.parametrize(
    ("n_tensors", "n_numbers", "n_options", "by_c"),
    [(64, 5, 20, True), (1, 70, 5, True), (1, 200, 100, False), (2, 0, 100, False)],
)
def test_as_many_arguments_as_there_may_be(
    tools: StandIn, n_tensors: int, n_numbers: int, n_options: int, by_c: bool
) -> None:
    kernel = Kernel(tools)
    kernel.kernel = tools.launch((type(aligned(1)), torch.nn.Parameter, kernel.hooks, None))(
        kernel.slow, OWN, (7, 1, 1), n_tensors
    )
    tensors = [aligned(8, shift=i % 4) for i in range(n_tensors)]
    options = {f"OPTION_{i}": i for i in range(n_options)}
    numbers = range(n_numbers)
    assert kernel(*tensors, *numbers, **options) == "python"
    assert kernel(*tensors, *numbers, **options) == ("c" if by_c else "python")
    if by_c:
        own = (*(tensor.data_ptr() for tensor in tensors), *numbers, *options.values())
        assert kernel.runs == [(7, 1, 1, 1000, "function", None, *own)]


def test_names_at_the_end_of_what_a_key_holds(tools: StandIn) -> None:
    kernel = Kernel(tools)
    for n_numbers in range(60, 82):
        for n_options in range(4):
            options = {f"OPTION_{i}": i for i in range(n_options)}
            kernel(aligned(8), aligned(8), *range(n_numbers), **options)
    assert kernel.runs == []


class Word(str):
    """A package whose comparison is Python."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("nobody asks")

    __hash__ = str.__hash__


def test_a_package_that_is_no_word(tools: StandIn) -> None:
    kernel = Kernel(tools)
    x, out = aligned(8), aligned(8)
    kernel(x, out, 8)
    host = through_host_function(OWN)
    for package in (Word(OWN), None, 3, object()):
        host.__globals__["__package__"] = package
        before = len(kernel.slow_calls)
        host(kernel.kernel, (x, out, 8), {})
        assert len(kernel.slow_calls) == before + 1
    del host.__globals__["__package__"]
    host(kernel.kernel, (x, out, 8), {})
    assert kernel.runs == []


def test_what_runs_in_the_middle_of_a_call(tools: StandIn) -> None:
    """A hook that launches the kernel 2,000 times, forgets it, and collects."""
    kernel = Kernel(tools)
    x, out = aligned(8), aligned(8)
    kernel(x, out, 8)
    launches, host = [kernel.kernel], through_host_function(OWN)

    class Calls:
        def __bool__(self) -> bool:
            if launches:
                launch = launches.pop()
                kernel.hooks.launch_enter_hook = SimpleNamespace(calls=[])
                for n in range(2000):
                    host(launch, (x, out, n), {})
                del kernel.kernel
                gc.collect()
            return False

    kernel.hooks.launch_enter_hook = SimpleNamespace(calls=Calls())
    host(kernel.kernel, (x, out, 8), {})
    assert len(kernel.runs) == 2 and len(kernel.slow_calls) == 2000


def test_nothing_is_held_after_a_call(tools: StandIn) -> None:
    kernel = Kernel(tools, takes_tuple=True)
    x, out, number, name = aligned(8), aligned(8), 10**12, "".join(["ROW", "S"])
    launch, host = kernel.kernel, through_host_function(OWN)
    host(launch, (x, out, number), {name: 8})
    entry = kernel.slow(x, out, number)
    held = [x, out, number, name, launch, kernel, kernel.hooks, *entry[:2]]

    def round_of_calls() -> None:
        host(launch, (x, out, number), {name: 8})
        host(launch, (x, out, number, 2**80), {name: 8})  # unusual
        kernel.hooks.launch_enter_hook.calls.append(1)
        host(launch, (x, out, number), {name: 8})  # somebody listens
        kernel.hooks.launch_enter_hook.calls.clear()
        kernel.runs.clear()
        kernel.slow_calls.clear()

    round_of_calls()
    before = [sys.getrefcount(one) for one in held]
    for _ in range(50):
        round_of_calls()
    gc.collect()
    assert [sys.getrefcount(one) for one in held] == before


def test_threads_that_launch(tools: StandIn) -> None:
    kernel = Kernel(tools)
    x, out = aligned(8), aligned(8)
    host, slow = through_host_function(OWN), len(kernel.slow_calls)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work() -> None:
        for step in range(3000):
            host(kernel.kernel, (x, out, step % 300), {"ROWS": 4})

    threads = [threading.Thread(target=work) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(kernel.runs) + len(kernel.slow_calls) - slow == 12000
    assert {run[-2] for run in kernel.runs} == set(range(300))
