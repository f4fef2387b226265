"""Makes a graph functional, canonical and small, in one pass and without tracing again.

torch's own way (functionalize under a tracer, once or twice) runs every op through several dispatch layers. Here the
traced graph is walked once: an op that is fine is copied with the fake value it already has; only what must be
decomposed is traced, once for each kind of call.

Nodes and the model of memory are `FunctionalGraph`'s.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private, whole_calls
from longhand.capture.data_sizes import depends_on_data
from longhand.capture.functionalize.decompositions import (
    CASTS,
    CHECKS,
    decomposition_table,
    is_kept,
    packet_name,
)
from longhand.capture.functionalize.functional_graph import CannotFunctionalize, FunctionalGraph
from longhand.capture.functionalize.functional_proxies import (
    Number,
    Proxy,
    fake_of,
    is_composite_view,
    number_behind,
    on_storage_of,
    signature,
    without_defaults,
)
from longhand.capture.functionalize.gradient_tracking import GradientTracking, detach
from longhand.capture.functionalize.real_types import with_real_types
from longhand.capture.functionalize.returned_arguments import may_be_argument, returned_argument
from longhand.options import Device

aten = torch.ops.aten


Rule = Callable[["Rewriter", torch._ops.OpOverload, tuple[Any, ...], dict[str, Any], Any], Any]


class Rewriter(FunctionalGraph):
    """Copies a graph of ATen calls into a functional one; see the module's docstring.

    Args:
        rules: What to do with ops of a packet name, before anything else is tried. NotImplemented means: nothing.
        rule_for_write: What to do with an op that writes its arguments and has no rule.
        fake_mode: The mode of the graph's fake values.
        gradients: What carries gradients, in a graph that is to be differentiated.
        device: Where the graph will run, which may be another device than that of its values (see `devices`).
    """

    def __init__(
        self,
        rules: dict[str, Rule],
        rule_for_write: Callable[[torch._ops.OpOverload], Rule],
        fake_mode: torch_private.FakeTensorMode,
        gradients: GradientTracking | None = None,
        *,
        device: Device,
    ) -> None:
        super().__init__(fake_mode, gradients)
        self.rules = rules
        self.rule_for_write = rule_for_write
        self.device = device
        self._traced: dict[Any, fx.GraphModule | None] = {}
        self._arguments: dict[Any, int | None] = {}  # by call: which it returns

    # -- calls ---------------------------------------------------------------------------------------------------

    def call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], eager: Any = None) -> Any:
        """Rewrites one call. `eager` is its traced value, None where it has to be computed."""
        if target is operator.getitem and isinstance(args[0], list | tuple):
            return args[0][args[1]]
        if not isinstance(target, torch._ops.OpOverload):
            return self._python(target, args, kwargs, eager)
        if (whole := whole_calls.original(target)) is not None:
            return self.keep(whole, args, kwargs, eager)
        name = packet_name(target)
        if target.namespace == "aten" and name in CHECKS:
            return None
        is_write = bool(torch_private.writes(target))
        of_data = not is_write and depends_on_data((eager, *map(fake_of, pytree.tree_leaves((args, kwargs)))))
        if eager is None and not is_write:
            eager = self.evaluate(target, args, kwargs)
        if of_data and name in CASTS and _looks_alike(eager, args[0].fake):
            return self.same(args[0], eager)
        if of_data:
            return self.keep(target, args, kwargs, with_real_types(target, args, kwargs, eager))
        if eager is not None and (argument := self._returned(target, args, kwargs, eager)) is not None:
            return argument
        is_ruled = (
            target.namespace in ("aten", whole_calls.NAMESPACE) or name == "convert_element_type"
        )  # prims' names mean other things
        if is_ruled and name in self.rules:
            result = self.rules[name](self, target, args, kwargs, eager)
            if result is not NotImplemented:
                return on_storage_of(eager, result, (args, kwargs))
        if is_write:
            return self.rule_for_write(target)(self, target, args, kwargs, eager)
        if not is_kept(target) or is_composite_view(target, args):
            try:
                result = self.inlined(target, args, kwargs, eager)
            except torch_private.LOOKS_AT_DATA:  # what it is made of asks for a number: it stays one call
                return self.keep(target, args, kwargs, eager)
            if result is not NotImplemented:
                return result
        return self.keep(target, args, kwargs, eager)

    def _returned(self, target: Any, args: Any, kwargs: Any, eager: Any) -> Proxy | None:
        """The argument that eager's call returns, where the trace shows a copy of it."""
        if not may_be_argument(target, args, kwargs, eager):
            return None
        leaves, spec = pytree.tree_flatten((args, kwargs))
        key = (target, str(spec), tuple(signature(leaf) for leaf in leaves))
        if key not in self._arguments:
            self._arguments[key] = returned_argument(target, args, kwargs)
        if (place := self._arguments[key]) is None:
            return None
        argument: Proxy = leaves[place]
        self.join_memory(eager, argument.fake)
        return argument

    def inlined(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], eager: Any
    ) -> Any:
        """What a function does, or what an op is made of, call by call; NotImplemented if it is not made of any."""
        traced = self._decomposed(function, args, kwargs)
        if traced is None:
            return NotImplemented
        return on_storage_of(eager, self._inline(traced, args, kwargs), (args, kwargs))

    def keep(
        self, target: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], eager: Any
    ) -> Any:
        """The call as it is: its results are fresh, or views where eager's are."""
        sources = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Proxy)]
        args, kwargs = without_defaults(target, args, kwargs)
        node = self.emit(target, args, kwargs, value=eager)
        if not isinstance(eager, list | tuple):
            return self._wrap(node, eager, sources, _bind(self._again, node, None))
        results = []
        for position, value in enumerate(eager):
            item = None if value is None else self.emit(operator.getitem, (node, position), value=value)
            take = _bind(self._again, node, position)
            results.append(None if item is None else self._wrap(item, value, sources, take))
        return results

    def _wrap(
        self, node: fx.Node, value: Any, sources: list[Proxy], take: Callable[[fx.Node], fx.Node]
    ) -> Any:
        if not isinstance(value, torch.Tensor):
            return (
                Number(node, value)
                if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)
                else value
            )
        for source in sources:
            if self.share_memory(source.fake, value):
                memory = source.memory
                put = _bind(self._put, take, source, value)
                return Proxy(node, value, memory, memory.version, source, take, put)
        return self.fresh(node, value)

    def _again(self, node: fx.Node, position: int | None, parent: fx.Node) -> fx.Node:
        """The view `node` (or one of its items) taken of another value of its first argument."""
        if not node.args or not isinstance(node.args[0], fx.Node):
            raise CannotFunctionalize(f"{node.target} shows memory that is written")
        copy = self.emit(node.target, (parent, *node.args[1:]), dict(node.kwargs))
        return copy if position is None else self.emit(operator.getitem, (copy, position))

    def _put(
        self,
        take: Callable[[fx.Node], fx.Node],
        source: Proxy,
        view: torch.Tensor,
        parent: fx.Node,
        child: fx.Node,
    ) -> fx.Node:
        """The inverse of any view that only moves elements: take the same view of their positions, and write there."""
        if _shows_all(source.fake, view):
            return child
        if not all(isinstance(size, int) for size in source.fake.shape):
            raise CannotFunctionalize("a view of symbolic size is written that cannot be written back")
        shape, device = list(source.fake.shape), source.fake.device
        count = source.fake.numel()
        flat_positions = self.emit(aten.arange.default, (count,), {"device": device})
        positions = take(self.emit(aten.reshape.default, (flat_positions, shape)))
        if positions.meta["val"].numel() > count:
            raise CannotFunctionalize("a view whose elements overlap is written")
        flat = self.emit(aten.reshape.default, (parent, [-1]))
        put_at = self.emit(aten.reshape.default, (positions, [-1]))
        values = self.emit(aten.reshape.default, (child, [-1]))
        return self.emit(
            aten.reshape.default, (self.emit(aten.index_put.default, (flat, [put_at], values)), shape)
        )

    def _python(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], eager: Any) -> Any:
        """Arithmetic on symbolic sizes."""
        if not any(isinstance(leaf, Number) for leaf in pytree.tree_leaves((args, kwargs))):
            return target(*args, **kwargs)
        value = self.evaluate(target, args, kwargs) if eager is None else eager
        if not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return value
        return self.number(target, args, kwargs, value)

    def without_gradients(self, results: Any) -> Any:
        """The results of what ran while no gradients were recorded."""

        def stop(leaf: Any) -> Any:
            if not isinstance(leaf, Proxy) or self.gradients is None or self.read(leaf) not in self.gradients:
                return leaf
            return self.keep(detach, (leaf,), {}, self.evaluate(detach, (leaf,), {}))

        return fx.node.map_aggregate(results, stop)

    # -- decomposition -------------------------------------------------------------------------------------------

    def _decomposed(self, target: Callable[..., Any], args: Any, kwargs: Any) -> fx.GraphModule | None:
        """The op or function as a graph of smaller ones; None if it is not made of any."""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        key = (target, str(spec), tuple(signature(leaf) for leaf in leaves))
        if key not in self._traced:
            self._traced[key] = self._trace(target, leaves, spec)
        return self._traced[key]

    def _trace(self, target: Callable[..., Any], leaves: list[Any], spec: Any) -> fx.GraphModule | None:
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Proxy | Number)]

        def run(*values: Any) -> Any:
            filled = list(leaves)
            for place, value in zip(places, values, strict=True):
                filled[place] = value
            args, kwargs = pytree.tree_unflatten(filled, spec)
            return target(*args, **kwargs)

        values = [leaves[p].fake if isinstance(leaves[p], Proxy) else leaves[p].value for p in places]
        with self.fake_mode, torch.no_grad():
            values = [value.detach() if isinstance(value, torch.Tensor) else value for value in values]
            try:
                traced = torch_private.make_fx(run, decomposition_table=decomposition_table())(*values)
            except torch_private.LOOKS_AT_DATA:
                return None  # torch's decomposition looks at data; the op itself does not ask
        calls = [node for node in traced.graph.nodes if node.op == "call_function"]
        if any(node.target is target for node in calls):
            return None
        for node in traced.graph.nodes:
            if node.op == "get_attr" and number_behind(getattr(traced, node.target)) is None:
                return None
        return traced

    def _inline(self, traced: fx.GraphModule, args: Any, kwargs: Any) -> Any:
        given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Proxy | Number)]
        return self.inline(traced, given)

    def inline(self, module: fx.GraphModule, given: list[Any], traced_values: bool = False) -> Any:
        """Runs a graph's calls through this rewriter; its placeholders stand for `given`."""
        known: dict[fx.Node, Any] = {}
        inputs = iter(given)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                known[node] = next(inputs)
            elif node.op == "get_attr":
                known[node] = self._attribute(module, node)
            elif node.op == "output":
                return fx.node.map_aggregate(
                    node.args[0], lambda leaf: known.get(leaf, leaf) if isinstance(leaf, fx.Node) else leaf
                )
            else:
                known[node] = self.copy(node, known, traced_values)
        return None

    def _attribute(self, module: fx.GraphModule, node: fx.Node) -> Any:
        value = getattr(module, str(node.target))
        if isinstance(value, fx.GraphModule):
            return value
        number, dtype, device = number_behind(value) or (0, value.dtype, value.device)
        return self.call(aten.full.default, ([], number), {"dtype": dtype, "device": device})

    def copy(self, node: fx.Node, known: dict[fx.Node, Any], traced_values: bool) -> Any:
        """Rewrites one traced node; `known` holds the results of those before it."""

        def lookup(leaf: Any) -> Any:
            return known[leaf] if isinstance(leaf, fx.Node) else leaf

        args = fx.node.map_aggregate(node.args, lookup)
        kwargs = fx.node.map_aggregate(node.kwargs, lookup)
        return self.call(node.target, args, dict(kwargs), node.meta.get("val") if traced_values else None)


def _looks_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype is other.dtype and one.device == other.device


def _shows_all(source: torch.Tensor, view: torch.Tensor) -> bool:
    """Whether a view's elements are those of its source, each at its place: ``detach()``, say."""
    shown, whole = ((*one.shape, *one.stride(), one.storage_offset()) for one in (view, source))
    is_known = all(isinstance(number, int) for number in (*shown, *whole))
    return is_known and shown == whole and view.dtype is source.dtype


def _bind(function: Callable[..., Any], *first: Any) -> Callable[..., Any]:
    """functools.partial, as a plain closure that mypy and readers follow."""
    return lambda *rest: function(*first, *rest)
