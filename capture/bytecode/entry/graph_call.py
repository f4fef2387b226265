"""How an entry calls its graph: what the graph raises, the modes that it set and the numbers that it drew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private
from longhand.capture.autocast_state import autocast_nesting, set_autocast
from longhand.capture.bytecode.entry.call_effects import draws, random_state, restore_random_state
from longhand.capture.bytecode.entry.written_inputs import keep_written, put_back
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.tracked import Value
from longhand.errors import LonghandError

__all__ = ["check_texts", "devices_drawn_on", "drop_unused_sizes", "graph_lines", "sharing"]

_MODES = (
    torch_private.set_grad_enabled,
    set_autocast,
    torch.set_autocast_enabled,
    torch.set_autocast_dtype,
    torch.set_autocast_cache_enabled,
    torch.autocast_increment_nesting,
    torch.autocast_decrement_nesting,
)


_LOST = (
    "longhand: this was raised by a graph that also writes into its inputs, so it was not run again in CPython: "
    "what the code changed in Python before is not there."
)


def graph_lines(
    trace: Trace,
    call: str,
    given: str,
    failed: Callable[..., Any] | None,
    namespace: dict[str, Any],
    loses_effects: bool,
    checks: Sequence[str] = (),
) -> list[str]:
    """The graph's call. What it raises the user's code may handle, after effects that come before it in eager:
    so CPython runs the whole frame again, where the graph wrote nothing, or what it wrote was kept; where it did, and
    effects are lost, the exception says so. Modes that the graph set, and random numbers that it drew, are put back.

    Args:
        trace: What was captured.
        call: The call as text.
        given: The entry's arguments as text.
        failed: What runs the frame again.
        namespace: Gets what the lines name.
        loses_effects: Whether effects come after the graph.
        checks: What must be true of the graph's results; else CPython runs the frame again, too.
    """
    written = trace.written()
    runs_again = failed is not None and (not written or bool(trace.may_raise))
    modes = [node.target for node in trace.graph.nodes if node.target in _MODES]
    restore: list[str] = []
    before: list[str] = []
    if modes:
        namespace["autocast_nesting"] = autocast_nesting
        before = ["before = autocast_settings(), autocast_nesting()"]
        restore = ["    set_grad_enabled(STATE[0])", "    set_autocast(*before)"]
    drawn = devices_drawn_on(trace.graph)
    if drawn and runs_again:
        namespace |= {"random_state": random_state, "restore_random_state": restore_random_state}
        namespace["DEVICES"] = drawn
        before.append("drawn = random_state(DEVICES)")
    if written and runs_again:
        namespace |= {"keep_written": keep_written, "put_back": put_back}
        names = ", ".join(f"i{trace.inputs.index(tensor)}" for tensor in written)
        before.append(f"kept = keep_written({names})")
    lines = [*before, "raised = None", "try:", f"    {call}"]
    if checks:
        lines.append(f"    raised = None if {' and '.join(checks)} else 'what a check found'")
    if runs_again:
        # A checkpoint around has all it wants; or longhand itself was told to raise.
        namespace["PASSED_ON"] = (torch_private.StopRecomputation, LonghandError)
        lines += ["except PASSED_ON:", *restore, "    raise"]
        lines += ["except Exception as error:", "    raised = type(error).__name__"]
    elif loses_effects:
        namespace["LOST"] = _LOST
        lines += ["except Exception as error:", "    error.add_note(LOST)", *restore, "    raise"]
    if modes:
        lines += ["except BaseException:", *restore, "    raise"]
    if runs_again:
        if drawn:
            restore = [*restore, "    restore_random_state(drawn)"]
        if written:
            restore = [*restore, "    put_back(kept)"]
        namespace["failed"] = failed
        lines += ["if raised is not None:", *restore, f"    return failed(raised, {given})"]
    return lines if runs_again or modes or loses_effects else [call]


def check_texts(trace: Trace, text: Callable[[Value], str]) -> list[str]:
    """What must be true of the graph's results; `text` makes a value a result."""
    return [f"bool({text(value)}) is {truth}" for value, truth in trace.assumed]


def devices_drawn_on(graph: fx.Graph) -> tuple[torch.device, ...]:
    """Whose generators the graph uses."""
    fakes = [
        fake
        for node in graph.nodes
        if draws(node)
        for fake in pytree.tree_leaves(node.meta.get("example_value"))
    ]
    return tuple(sorted({fake.device for fake in fakes if isinstance(fake, torch.Tensor)}, key=str))


def drop_unused_sizes(graph: fx.Graph) -> None:
    """Takes out sizes that were asked for and not used."""
    for node in reversed(list(graph.nodes)):
        value = node.meta.get("example_value")
        if not node.users and isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | tuple):
            graph.erase_node(node)


def sharing(*tensors: torch.Tensor) -> tuple[int, ...]:
    """For each tensor the first one that has the same storage."""
    first: dict[int, int] = {}
    return tuple(
        first.setdefault(torch_private.storage_key(tensor), position)
        for position, tensor in enumerate(tensors)
    )
