"""Writes into what eager's backward pass still needs: eager raises for them, so a unit may not compute anything there.

A functional graph has both contents, before the write and after it, and its gradients are those of either. Whether
eager refuses is eager's to say: the traced calls are run once on values without memory, with autograd's own records,
and then backwards.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private
from longhand.capture.frontends.data_dependence import place
from longhand.capture.frontends.dynamo_run import note_of
from longhand.capture.trace_isolation import elsewhere
from longhand.errors import CaptureError

# Of a value that is needed, and of one of several views that are: ``a, b = y.chunk(2)``, and `y` is written.
_REFUSED = re.compile("modified by an inplace operation|has been modified inplace")
_COPY = torch.ops.aten.copy_.default


def refuse_overwritten(
    module: fx.GraphModule, leaves: Sequence[Any], grad_inputs: Sequence[str], name: str
) -> None:
    """Looks at a call that is to be differentiated.

    Args:
        module: The traced calls, which may write; each node has its eager fake value.
        leaves: What the call returns: nodes, or what is no tensor.
        grad_inputs: The placeholders that want gradients.
        name: What is captured.

    Raises:
        CaptureError: Eager's backward pass needs a value that the call has written over.
    """
    writing = [node for node in module.graph.nodes if _writes(node)]
    what = elsewhere(lambda: _refusal(module, leaves, frozenset(grad_inputs))) if writing else None
    if what is not None:
        raise CaptureError(
            f"{name} writes in place into a tensor that its backward pass needs ({what}): eager raises for it.",
            where=place(writing[0]) if len(writing) == 1 else None,
            hint="Write it without the underscore, or into a clone.",
        )


def _refusal(module: fx.GraphModule, leaves: Sequence[Any], grad_inputs: frozenset[str]) -> str | None:
    """What eager says was written, and when; None where it says nothing, or the calls cannot be run so."""
    try:
        with torch_private.FakeTensorMode() as mode:
            results = _Recorded(module, mode, grad_inputs).results(leaves)
            torch.autograd.backward(results, [torch.empty_like(result) for result in results])
    except Exception as error:  # as where sizes are data
        written = _REFUSED.search(str(error))
        return str(error)[written.end() :].strip(":. ").partition(". ")[0] if written else None
    return None


def _writes(node: fx.Node) -> bool:
    """Whether a call writes into a tensor; a count of batches is in no derivative."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or not torch_private.writes(target):
        return False
    value = node.args[0].meta.get("val") if node.args and isinstance(node.args[0], fx.Node) else None
    is_count = isinstance(value, torch.Tensor) and value.dim() == 0 and not value.dtype.is_floating_point
    return not is_count


def _in_place(node: fx.Node) -> torch._ops.OpOverload | None:
    """The op that writes its result over its argument, where that is what is traced as a value and a copy of it.

    A tracer takes ``hardswish_(x)`` apart into ``x.copy_(hardswish(x))``. Eager keeps the old `x` for the derivative of
    the first, and raises for the second.
    """
    users = [*node.users]
    if len(users) != 1 or users[0].target is not _COPY or not isinstance(node.target, torch._ops.OpOverload):
        return None
    written, value = users[0].args[:2]
    if value is not node or not node.args or node.args[0] is not written:
        return None
    packet = getattr(torch.ops.aten, f"{node.target._schema.name.partition('::')[2]}_", None)
    overload = getattr(packet, node.target._overloadname, None)
    return overload if isinstance(overload, torch._ops.OpOverload) else None


class _Recorded(fx.Interpreter):
    """Runs traced calls with autograd's records, at the sizes of the example."""

    def __init__(
        self, module: fx.GraphModule, mode: torch_private.FakeTensorMode, grad_inputs: frozenset[str]
    ) -> None:
        super().__init__(module)
        self._nodes = tuple(module.graph.nodes)
        self._mode = mode
        self._grad_inputs = grad_inputs

    def results(self, leaves: Sequence[Any]) -> list[torch.Tensor]:
        """Those that gradients may come back for."""
        by_node: dict[fx.Node, Any] = {}
        wanted = {leaf for leaf in leaves if isinstance(leaf, fx.Node)}
        for node in self._nodes:
            if node.op != "output":
                self.env[node] = self.run_node(node)
            if node in wanted:
                by_node[node] = self.env[node]
        tensors = (leaf for value in by_node.values() for leaf in pytree.tree_leaves(value))
        return [one for one in tensors if isinstance(one, torch.Tensor) and one.requires_grad]

    def run_node(self, node: fx.Node) -> Any:
        if node.op == "placeholder":
            return self._given(node)
        if node.target is _COPY and self._is_itself(node):
            return self.env[node.all_input_nodes[0]]
        with torch.no_grad() if note_of(node).stops_gradients else contextlib.nullcontext():
            if (in_place := _in_place(node)) is not None:
                args, kwargs = self.fetch_args_kwargs_from_env(node)
                return in_place(*args, **kwargs)
            return super().run_node(node)

    def _is_itself(self, copy: fx.Node) -> bool:
        """Whether a tensor is copied into itself, as torch.export writes of ``self.count += 1``: eager does not."""
        given = [self.env[argument] for argument in copy.args[:2] if isinstance(argument, fx.Node)]
        return len(given) == 2 and given[0] is given[1]

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        return self._mode.from_tensor(value) if isinstance(value, torch.Tensor) else value

    def _given(self, node: fx.Node) -> Any:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return _number(value)
        sizes, strides = ([_number(one) for one in given] for given in (value.shape, value.stride()))
        made = torch.empty_strided(sizes, strides, dtype=value.dtype, device=value.device)
        # Not a leaf: what eager says of writes into those is asked elsewhere.
        return made.requires_grad_().view_as(made) if node.name in self._grad_inputs else made


def _number(value: Any) -> Any:
    return torch_private.symbolic_hint(value) if isinstance(value, torch.SymInt) else value
