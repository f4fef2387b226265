"""Runs Dynamo's graph while it is traced, and notes on each traced call what autograd makes of it.

Two things do not show in the ops: that gradients are off (Dynamo switches them with calls of their own), and that a
call stands in a checkpointed region, whose values the backward pass shall compute again. Dynamo's own fake values are
a second witness: where none of a call's results requires grad although an argument does, gradients stop there too.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import fx
from torch.utils.checkpoint import checkpoint

from longhand.capture import torch_private, torch_transforms
from longhand.capture.autograd.kept.checkpoints import enter_checkpoint, leave_checkpoint
from longhand.capture.frontends.data_attributes import is_data
from longhand.capture.functionalize.foreach import for_each
from longhand.capture.functionalize.gradient_tracking import can_carry
from longhand.capture.tensor_leaves import tensors_in

_KEY = "longhand"


@dataclasses.dataclass(frozen=True)
class CallNote:
    """What is known of a traced call.

    Attributes:
        stops_gradients: What it computes carries no gradients, what it writes neither.
        checkpoint: The number of the innermost checkpointed region around it; 0 outside of any.
    """

    stops_gradients: bool = False
    checkpoint: int = 0


def note_of(traced: fx.Node | None) -> CallNote:
    """The note on a traced call."""
    custom = traced.meta.get("custom") if traced is not None else None
    note = custom.get(_KEY) if isinstance(custom, dict) else None
    return note if isinstance(note, CallNote) else CallNote()


def checkpoint_marks() -> Iterator[dict[str, Any]]:
    """For each checkpointed region that a trace enters, what makes a note on the calls in it."""
    return ({_KEY: CallNote(checkpoint=number)} for number in itertools.count(1))


@dataclasses.dataclass
class _RunningCall:
    """What holds at the call that runs.

    Attributes:
        records: Gradients are recorded.
        n_regions: Checkpointed regions met so far.
        given: For calls that bring a derivative of the user's, what makes the op's call.
    """

    records: bool
    n_regions: int = 0
    given: Mapping[Any, Callable[..., Any]] = dataclasses.field(default_factory=dict)


class DynamoRun(fx.Interpreter):
    """Runs Dynamo's graph; to be used under ``fx.traceback.preserve_node_meta()``.

    Args:
        module: The graph.
        held: The values of tensors that it holds, by path.
        records: Whether gradients are recorded when it is called.
        given: For calls that bring a derivative of the user's, what makes the op's call.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        held: dict[str, Any],
        records: bool,
        given: Mapping[Any, Callable[..., Any]],
        *,
        state: _RunningCall | None = None,
        checkpoint: int = 0,
    ) -> None:
        super().__init__(module)
        self._held = held
        self._state = state or _RunningCall(records, given=given)
        self._regions = [checkpoint]

    def run_node(self, node: fx.Node) -> Any:
        if node.target is torch_private.set_grad_enabled:
            self._state.records = bool(node.args[0])
            return None
        if node.target is enter_checkpoint:
            self._regions.append(self._next_region())
            return None
        if node.target is leave_checkpoint:
            self._regions.pop()
            return None
        if node.op.startswith("call_"):
            note = CallNote(not self._state.records or _stops(node), self._regions[-1])
            before = node.meta.get("custom")
            node.meta["custom"] = {**(before if isinstance(before, dict) else {}), _KEY: note}
        return super().run_node(node)

    def _next_region(self) -> int:
        self._state.n_regions += 1
        return self._state.n_regions

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self._held[target] if target in self._held else super().get_attr(target, args, kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if torch_private.is_checkpoint(target):
            body, *operands = args
            region = DynamoRun(body, {}, True, {}, state=self._state, checkpoint=self._next_region())
            return region.run(*operands)
        if target in self._state.given:
            return self._state.given[target](*args)
        if is_data(target, args):
            return args[0].detach() if args[0].requires_grad else args[0].view_as(args[0])
        if (written_out := for_each(target)) is not None:
            return written_out(*args, **kwargs)
        if isinstance(target, torch._ops.OpOverload) and target._schema.name == "prims::fma":
            return args[0] * args[1] + args[2]  # what Dynamo makes of addcmul and addcdiv
        return super().call_function(target, args, kwargs)


def records_gradients(module: fx.GraphModule) -> bool:
    """Whether any call of Dynamo's graph runs while gradients are recorded, if it is called now."""
    records = torch.is_grad_enabled()
    for node in module.graph.nodes:
        if node.target is torch_private.set_grad_enabled:
            records = bool(node.args[0])
        elif records and node.op.startswith("call_"):
            return True
    return False


def eager_function(module: fx.GraphModule) -> Callable[..., Any]:
    """A graph as eager runs it: what stands in checkpointed regions is done again in the backward pass."""
    if any(n.target is enter_checkpoint or torch_private.is_checkpoint(n.target) for n in module.graph.nodes):
        return lambda *inputs: _Checkpointing(module, garbage_collect_values=False).run(*inputs)
    return module.forward


class _Checkpointing(fx.Interpreter):
    """Gives torch.utils.checkpoint the regions: sub-graphs of Dynamo's, or what longhand's own capture marks."""

    def run_node(self, node: fx.Node) -> Any:
        if node.target is enter_checkpoint:
            return self._run_region(_region_from(node))
        return super().run_node(node)

    def _run_region(self, region: list[fx.Node]) -> None:
        for node in region:
            if node.op == "placeholder":  # made where it is first read, which may be here
                self.env[node] = super().run_node(node)
        region = [node for node in region if node.op != "placeholder"]
        inside = set(region)
        read = {source: None for node in region for source in node.all_input_nodes if source not in inside}
        wanted = [node for node in region if any(user not in inside for user in node.users)]

        def again(*values: Any) -> tuple[Any, ...]:
            inner = _Checkpointing(self.module, garbage_collect_values=False)
            inner.env = held | dict(zip(given, values, strict=True))
            for node in region:
                if node not in inner.env:
                    inner.env[node] = inner.run_node(node)
            return tuple(inner.env[node] for node in wanted)

        # What is an argument of checkpoint may not be written inside, as a buffer may that the function holds.
        given = [node for node in read if _requires_grad(self.env[node])]
        held = {node: self.env[node] for node in read}
        results = checkpoint(again, *map(held.get, given), use_reentrant=False, preserve_rng_state=True)
        # The interpreter passes over what has a value.
        self.env |= dict.fromkeys(region) | dict(zip(wanted, results, strict=True))

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if torch_private.is_checkpoint(target):
            body, *operands = args
            return checkpoint(
                _Checkpointing(body).run, *operands, use_reentrant=False, preserve_rng_state=True
            )
        return super().call_function(target, args, kwargs)


def _region_from(start: fx.Node) -> list[fx.Node]:
    """The nodes after the one that enters a region, to the one that leaves it."""
    region, depth, node = list[fx.Node](), 1, start
    while depth:
        node = node.next
        depth += (node.target is enter_checkpoint) - (node.target is leave_checkpoint)
        region.append(node)
    return region


def _stops(node: fx.Node) -> bool:
    """Whether Dynamo saw gradients come in and none go out."""
    value = node.meta.get("example_value")
    if not can_carry(value):
        return False
    return not _requires_grad(value) and any(
        _requires_grad(source.meta.get("example_value")) for source in node.all_input_nodes
    )


def _requires_grad(value: Any) -> bool:
    tensors = tensors_in(value)
    return any(torch_transforms.unbatched(tensor).requires_grad for tensor in tensors)
