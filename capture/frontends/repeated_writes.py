"""Writes under torch.utils.checkpoint: eager makes them twice, in the call and again in its backward pass.

A unit has one graph for the call, which writes once. Statistics of a batch norm would be other numbers than eager's.
"""

from __future__ import annotations

import torch
from torch import fx

from longhand.capture import torch_private
from longhand.capture.frontends.data_dependence import place
from longhand.capture.frontends.dynamo_run import note_of
from longhand.errors import CaptureError

aten = torch.ops.aten

# What writes running statistics without saying so in its schema: (where they are, where it says that it trains).
_NORMS = {aten.batch_norm.default: (3, 5), aten.native_batch_norm.default: (3, 5)}


def refuse_repeated_writes(module: fx.GraphModule, name: str) -> None:
    """Looks at a call that is to be differentiated.

    Args:
        module: The traced calls; each node has its eager fake value.
        name: What is captured.

    Raises:
        CaptureError: A checkpointed region writes into memory that it did not make.
    """
    made_in: dict[int, int] = {}  # by storage, the region
    for node in module.graph.nodes:
        note = note_of(node)
        for written in _written_by(node) if note.checkpoint and not note.stops_gradients else ():
            if made_in.get(_storage(written), 0) != note.checkpoint:
                raise CaptureError(
                    f"{name} writes under torch.utils.checkpoint into a tensor from outside, such as the statistics "
                    "of a batch norm: eager does so a second time in the backward pass, a unit would not.",
                    where=place(node),
                    hint="Keep such layers out of the checkpointed part.",
                )
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:  # others share no memory
            made_in.setdefault(_storage(node), note.checkpoint)


def _written_by(node: fx.Node) -> list[fx.Node]:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return []
    if target in _NORMS:
        statistics, trains = _NORMS[target]
        written = [node.args[statistics]] if node.args[trains] else []
    else:
        places = {argument.name: place for place, argument in enumerate(target._schema.arguments)}
        names = torch_private.writes(target)
        written = [
            node.args[places[one]] if places[one] < len(node.args) else node.kwargs.get(one) for one in names
        ]
    return [
        one for one in written if isinstance(one, fx.Node) and isinstance(one.meta.get("val"), torch.Tensor)
    ]


def _storage(node: fx.Node) -> int:
    return int(node.meta["val"].untyped_storage()._cdata)
