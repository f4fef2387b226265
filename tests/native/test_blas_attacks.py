"""blas.c where something goes wrong: what it holds, what it leaves behind, and what it was told wrongly."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.native.stand_in import OnGpu, StandIn, on_gpu, stand_in
from tests.native.test_blas import aligned, plain

OF_A_PLAN = 4  # an operation and three layouts


@pytest.fixture(name="tools")
def _tools(tmp_path: Path) -> StandIn:
    return stand_in(tmp_path)


def is_right(tools: StandIn, *given: torch.Tensor) -> bool:
    """Whether a product is torch's."""
    return torch.equal(plain(tools.functions.linear(*given)), F.linear(*map(plain, given)))


def test_memory_of_the_opposite_sign_is_atens(tools: StandIn) -> None:
    x, weight, bias = aligned(4, 16), aligned(24, 16), aligned(24)
    for which in range(3):
        given = [x, weight, bias]
        given[which] = on_gpu(torch._neg_view(plain(given[which])))
        assert is_right(tools, *given) and len(tools.by_aten) == which + 1


def test_sizes_that_overflow_beside_one_of_zero(tools: StandIn) -> None:
    x = on_gpu(torch.zeros(1).as_strided((0, 2**40, 2**40), (1, 2**40, 1)))
    with pytest.raises(RuntimeError):
        tools.functions.linear(x, aligned(24, 16))
    assert tools["n_chosen"] == 0


@pytest.mark.parametrize("device", [-1, -(2**31), 64, 2**31 - 1])
def test_devices_that_there_are_not(tools: StandIn, device: int) -> None:
    tools["pretended_device"] = tools.answers["device"] = device
    assert is_right(tools, aligned(4, 16), aligned(24, 16)) and tools.by_aten == ["linear"]


@pytest.mark.parametrize("fails_in", [1, 2, 4, 6, 7, 8, 9])
def test_nothing_is_left_of_a_plan_that_is_none(tools: StandIn, fails_in: int) -> None:
    tools["fails_in"] = fails_in
    for rows in range(2, 40):
        assert is_right(tools, aligned(rows, 16), aligned(24, 16), aligned(24))
    assert len(tools.by_aten) == 38 and tools["n_alive"] == 0
    tools["fails_in"] = 0
    assert is_right(tools, aligned(3, 32), aligned(24, 32), aligned(24))
    assert len(tools.by_aten) == 38 and tools["n_alive"] == OF_A_PLAN


def test_a_plan_made_while_it_is_made(tools: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = aligned(4, 16), aligned(24, 16)
    inner: list[bool] = []

    def dtype(tensor: torch.Tensor) -> torch.dtype:
        if not inner:
            inner.append(True)
            inner[0] = is_right(tools, x, weight)
        return plain(tensor).dtype

    monkeypatch.setattr(OnGpu, "dtype", property(dtype), raising=False)
    assert is_right(tools, x, weight) and inner == [True]
    assert tools["n_chosen"] == 2 and tools["n_alive"] == OF_A_PLAN and tools.by_aten == []


def _allocating(tools: StandIn, how: dict[str, Any]) -> None:
    """Has blas.c allocate through a function that fails or counts, as `how` says."""
    usual = tools.known[3]

    def empty(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        how["calls"] = how.get("calls", 0) + 1
        if how.get("fails_at") == how["calls"]:
            raise torch.OutOfMemoryError("nothing is left")
        made: torch.Tensor = usual(sizes, strides, dtype)
        return made

    tools.blas((*tools.known[:3], empty, *tools.known[4:]))


@pytest.mark.parametrize("fails_at", [1, 2])
def test_where_nothing_can_be_allocated_it_is_atens(tools: StandIn, fails_at: int) -> None:
    how: dict[str, Any] = {"fails_at": fails_at}
    _allocating(tools, how)
    tools["workspace_wanted"] = 4096
    x, weight = aligned(4, 16), aligned(24, 16)
    assert is_right(tools, x, weight) and tools.by_aten == ["linear"] and how["calls"] == fails_at
    assert is_right(tools, x, weight) and tools.by_aten == ["linear"]


@pytest.mark.parametrize("setting", ["modes", "deterministic", "precision", "device", "grad"])
def test_settings_that_raise(tools: StandIn, setting: str) -> None:
    class Answer:
        def __bool__(self) -> bool:
            raise ValueError("neither")

    tools.answers[setting] = Answer()
    assert is_right(tools, aligned(4, 16), aligned(24, 16)) and tools.by_aten == ["linear"]


WRONG: dict[str, Any] = {
    "nothing": lambda known: (),
    "no tuple": lambda known: 3,
    "too little": lambda known: known[:-1],
    "too much": lambda known: (*known, 1),
    "three functions": lambda known: (*known[:2], known[2][:3], *known[3:]),
    "functions in a list": lambda known: (*known[:2], list(known[2]), *known[3:]),
    "one setting": lambda known: (*known[:8], known[8][:1], *known[9:]),
    "a limit in words": lambda known: (*known[:10], ("much",), *known[11:]),
    "a limit that is no int64": lambda known: (*known[:10], (2**70,), *known[11:]),
    "arguments in a list": lambda known: (*known[:7], list(known[7]), *known[8:]),
    "no library": lambda known: (*known[:12], "/nowhere/libcublasLt.so", known[13]),
    "another library": lambda known: (*known[:12], "libc.so.6", known[13]),
    "a path with a zero": lambda known: (*known[:12], "lib\0c", known[13]),
    "a class without memory": lambda known: (object, *known[1:]),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_told_wrongly_changes_nothing(tools: StandIn, what: str) -> None:
    """Another unit of the process tells it: the functions of the first hold what they were told."""
    fresh = [tuple(one) if isinstance(one, tuple) else one for one in tools.known]
    fresh[3:7] = (
        lambda *_: None,
        (lambda: 1,),
        lambda: True,
        lambda *_: None,
    )  # which nothing else keeps alive
    other = WRONG[what](tuple(fresh))
    del fresh
    with pytest.raises((TypeError, ValueError, RuntimeError, AttributeError, OverflowError, SystemError)):
        tools.blas(other)
    del other
    gc.collect()
    for _ in range(3):
        assert is_right(tools, aligned(4, 16), aligned(24, 16), aligned(24))
    assert tools.by_aten == [] and tools["n_multiplied"] == 3


def test_what_is_told_again_is_kept(tools: StandIn) -> None:
    """The tuples of the last that told it live on, whoever else forgets them."""
    for _ in range(3):
        how: dict[str, Any] = {}
        _allocating(tools, how)
        gc.collect()
        assert is_right(tools, aligned(4, 16), aligned(24, 16)) and how["calls"] == 1
    assert tools.by_aten == []


def test_nothing_is_held_after_a_call(tools: StandIn) -> None:
    tools["workspace_wanted"] = 512
    x, weight, bias = aligned(4, 16), aligned(24, 16), aligned(24)
    strange = aligned(4, 16, dtype=torch.float64)
    held = [x, weight, bias, strange, torch.float32, torch.uint8, tools.known[3], *tools.known[2]]
    linear, mm = tools.functions.linear, tools.functions.mm

    def round_of_calls() -> None:
        linear(x, weight, bias)
        linear(x, weight, None)
        for call in (lambda: linear(strange, weight), lambda: mm(x), lambda: linear(None, None, None, None)):
            with pytest.raises((TypeError, RuntimeError)):
                call()

    round_of_calls()
    before = [sys.getrefcount(one) for one in held]
    for _ in range(50):
        round_of_calls()
    gc.collect()
    assert [sys.getrefcount(one) for one in held] == before


def test_threads_that_make_plans(tools: StandIn) -> None:
    """Of the same kinds at the same time, while some are refused and all are used."""
    wrong: list[object] = []
    tools["microseconds"], tools["workspace_wanted"] = 50, 256

    def work(seed: int) -> None:
        for step in range(120):
            rows, has_bias = 2 + step % 20, (step + seed) % 3 != 0
            given = [aligned(rows, 16), aligned(24, 16), *([aligned(24)] if has_bias else [])]
            if step % 10 == seed:
                tools["fails_in"] = (0, 3, 2, 6)[step // 10 % 4]
            if not is_right(tools, *given):
                wrong.append((seed, step))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and tools["n_multiplied"] > 20
