"""What a layer hands on and nothing reads behind its call, though it reads that of other layers, has no name there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from longhand.emit.layers.layers_in_turn import CallText, unread_behind, write_rounds
from longhand.lower.ir import View
from longhand.schedule.layers.model_steps import LayerCall, Loop
from longhand.schedule.named_plan import TurnCall
from longhand.schedule.plan import Release, Repeat, Reuse, UnitPlan


def _plan(*results: str) -> UnitPlan:
    return cast(UnitPlan, SimpleNamespace(results=tuple(View(name, (), ()) for name in results)))


def _layers() -> Loop:
    """Two layers, which make d_x and d_memory each."""
    outputs = (("d_x_1", "d_memory_1"), ("d_x_0", "d_memory_0"))
    run = (Release(()),)
    repeat = Repeat((run, run), ("layers.1", "layers.0"), (("d_out",), ("d_x_1",)), outputs)
    return Loop(repeat, "layers", (1, 0), "Layer", (), (), {}, (), is_in_turn=True, is_apart=True)


def test_what_no_later_step_reads_and_the_caller_does_not_get_is_unread() -> None:
    loop = _layers()
    calls = [LayerCall(loop, 0), LayerCall(loop, 1)]
    steps: Any = [calls[0], Reuse("total", "d_memory_1", in_place=True), calls[1]]
    read_by_the_next = Reuse("other", "d_x_1", in_place=True)
    assert unread_behind(calls[1], steps, _plan("d_memory_0")) == {"d_x_0"}
    assert unread_behind(calls[1], steps, _plan("d_memory_0", "d_x_0")) == set()
    assert unread_behind(calls[0], [*steps[:2], read_by_the_next], _plan()) == set()
    assert unread_behind(calls[0], steps[:2], _plan()) == {"d_x_1"}


def _call(position: int, *says: str) -> CallText:
    return CallText(
        TurnCall(position, says, names_layer=True),
        lambda layer: (f"d_x, d_memory = backward(layers[{layer(0)}])",),
        (),
        lambda layer: (f"_, d_memory = backward(layers[{layer(0)}])",),
    )


def test_a_call_by_itself_names_what_is_read() -> None:
    assert write_rounds([_call(0, "backward")]) == ["_, d_memory = backward(layers[0])"]


def test_calls_in_a_loop_name_what_the_next_one_reads() -> None:
    lines = write_rounds([_call(position, "backward") for position in (0, 1, 2)])
    assert lines[-1] == "    d_x, d_memory = backward(layers[layer])"
