"""Forward and backward as one graph, by walking the captured graph: each op is followed by nothing, each gradient
comes from one op's derivative, in reverse order.

So every backward node belongs to the forward node that it differentiates: it quotes the same statement, and is named
after it. The walk needs no tape and no tracing of the whole model: a derivative is traced once for each kind of call.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture.autograd.carried import refuse_unsound, relevant
from longhand.capture.autograd.derivative import NAMED, Derivatives, NotDifferentiable, OnlyAutograd
from longhand.capture.autograd.eager_derivative import gradient_op
from longhand.capture.autograd.every_rule import rewritten
from longhand.capture.autograd.flows import Flows
from longhand.capture.autograd.gradient_names import name_gradient
from longhand.capture.autograd.joint_graph import Joint, fake_mode_of_graph, place_of
from longhand.capture.autograd.one_call import UNSPLIT, OneCall
from longhand.capture.autograd.product_rules import added_up
from longhand.capture.autograd.rules import Pullback, Setting
from longhand.capture.autograd.shared_results import is_shared
from longhand.capture.autograd.undefined import Undefined, tensor_arguments
from longhand.capture.devices import host_nodes, on_cpu
from longhand.capture.functionalize.canonicalize import RULES
from longhand.capture.functionalize.decompositions import packet_name
from longhand.capture.functionalize.functional_graph import CannotFunctionalize
from longhand.capture.functionalize.functional_proxies import Memory, Number, Proxy
from longhand.capture.functionalize.functionalize import Rewriter
from longhand.capture.functionalize.writes import bound, rule_for_write
from longhand.capture.graph import CapturedGraph, GradientPart, Provenance
from longhand.capture.known.ranges import range_of, tell_range
from longhand.capture.overwriting import overwriting_op
from longhand.capture.own_derivatives import given_op
from longhand.errors import CaptureError
from longhand.options import Target

aten = torch.ops.aten


def differentiate(captured: CapturedGraph, target: Target) -> Joint:
    """The joint graph of a captured call.

    Args:
        captured: A call whose `grad_inputs` say where gradients are wanted.
        target: What it is for: attention's kernels differ by device.

    Raises:
        CaptureError: Something of it cannot be differentiated ahead of time.
    """
    refuse_unsound(captured)
    return _Walk(captured, target).run()


class _Walk:
    def __init__(self, captured: CapturedGraph, target: Target) -> None:
        self.captured = captured
        self.target = target
        self.nodes: dict[str, fx.Node] = {node.name: node for node in captured.graph.nodes}
        self.fake_mode = fake_mode_of_graph(captured.graph)
        self.rewriter = Rewriter({**RULES, **UNSPLIT}, rule_for_write, self.fake_mode, device=target.device)
        self.derivatives = Derivatives(self.fake_mode, target.device)
        self.known: dict[fx.Node, Any] = {}
        self.relevant = relevant(captured)
        self.host = host_nodes(captured.graph)
        self.pullbacks: dict[fx.Node, Pullback] = {}
        self.undefined = Undefined()
        self.gradients: dict[fx.Node, Proxy] = {}  # by node of the joint graph
        self.flows = Flows()

    def run(self) -> Joint:
        for node in self.captured.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "call_function":
                self._forward(node)
        node_of = {
            node.name: value.node
            for node, value in self.known.items()
            if isinstance(value, Proxy | Number) and value.node is not None
        }
        tangents = self._tangents()
        for node in reversed(list(self.captured.graph.nodes)):
            if node in self.pullbacks:
                self._backward(node)
        gradients = tuple(self._final_gradients())
        flows = tuple(self.flows.of(self.known[self.nodes[name]].node) for name, _ in gradients)
        without = self.flows.without_copies(self.rewriter.graph)
        node_of = {name: without.get(node, node) for name, node in node_of.items()}
        return Joint(self.captured, self.rewriter.graph, node_of, tuple(tangents), gradients, flows)

    # The forward pass.

    def _placeholder(self, node: fx.Node) -> None:
        # Not graph.placeholder(): that turns LayerNorm into layer_norm.
        copy = self.rewriter.graph.create_node("placeholder", node.name, name=node.name)
        value = on_cpu(node.meta["val"])
        copy.meta = {
            "val": value,
            "word": node.name,
            "provenance": Provenance(),
            "on_host": node in self.host,
        }
        tell_range(copy, range_of(node))
        if isinstance(value, torch.Tensor):
            self.known[node] = Proxy(copy, value, Memory(placeholder=copy))
        else:
            self.known[node] = Number(copy, value)

    def _forward(self, node: fx.Node) -> None:
        target = node.target
        args, kwargs = self._arguments(node)
        if target is operator.getitem and isinstance(args[0], list | tuple):
            self.known[node] = args[0][args[1]]
            self._mark(node, self.known[node])
            return
        if target is aten.detach.default:
            self.known[node] = args[0]
            self._rename(node, args[0])
            return
        value = pytree.tree_map(on_cpu, node.meta["val"])
        if target is overwriting_op:
            made = self._overwriting(node, args[0])
        elif node in self.relevant and isinstance(target, torch._ops.OpOverload):
            made = self._differentiated(node, target, args, kwargs, value)
        else:
            made = self._copied(node, args, kwargs, value)
        self.known[node] = made
        self._mark(node, made)

    def _overwriting(self, node: fx.Node, value: Proxy) -> Proxy:
        """The value, as a node of its own until all gradients are known; `_backward` knows of what it overwrites."""
        wants = node.args[0] in self.relevant
        self.pullbacks[node] = lambda grads: [(value, grads[0])] if wants else []
        self._rename(node, value)
        return self.rewriter.fresh(self.flows.copy_of(self.rewriter, value), value.fake)

    def _copied(self, node: fx.Node, args: Any, kwargs: Any, value: Any) -> Any:
        if node.target is given_op:  # nobody asks for its derivative
            return list(args[0])
        emitted = self.rewriter.emit(node.target, args, kwargs, value=value)
        emitted.meta["on_host"] = node in self.host
        if isinstance(value, list | tuple):
            return [
                None if part is None else self._item(emitted, position, part)
                for position, part in enumerate(value)
            ]
        return (
            self.rewriter.fresh(emitted, value) if isinstance(value, torch.Tensor) else Number(emitted, value)
        )

    def _item(self, node: fx.Node, position: int, value: Any) -> Any:
        item = self.rewriter.emit(operator.getitem, (node, position), value=value)
        item.meta["on_host"] = node.meta.get("on_host", False)
        return self.rewriter.fresh(item, value) if isinstance(value, torch.Tensor) else Number(item, value)

    def _differentiated(self, node: fx.Node, target: Any, args: Any, kwargs: Any, value: Any) -> Any:
        """The op's results, with its pullback noted."""
        sources = tensor_arguments(node)
        nodes = frozenset(self.known[one].node for one in sources if one in self.relevant)
        made = rewritten(self.rewriter, target, args, kwargs, value, Setting(self.target, nodes))
        if made is not None:
            self.pullbacks[node] = made.pullback
            return list(made.results) if isinstance(value, list | tuple) else made.results[0]
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Proxy)]
        wanted = tuple(place for place, source in enumerate(sources) if source in self.relevant)
        given = self._given(node, value)
        fake_args, fake_kwargs = pytree.tree_map(
            lambda leaf: (
                leaf.fake if isinstance(leaf, Proxy) else leaf.value if isinstance(leaf, Number) else leaf
            ),
            (tuple(args), dict(kwargs)),
        )
        try:
            derivative = self.derivatives.of(target, fake_args, fake_kwargs, wanted, given)
        except (NotDifferentiable, RuntimeError, NotImplementedError) as error:
            if isinstance(error, OnlyAutograd) and self._differentiated_by_autograd(
                node, target, args, kwargs
            ):
                return self._copied(node, args, kwargs, value)
            raise CaptureError(
                f"{node.name} cannot be differentiated: {str(error).splitlines()[0]}.",
                where=place_of(node),
            ) from None
        one = OneCall(self.rewriter, derivative, tensors)
        results = one.forward(lambda: self._copied(node, args, kwargs, value))
        self.pullbacks[node] = lambda grads: [
            (tensors[place], gradient)
            for place, gradient in zip(wanted, one.backward([grads[i] for i in given]), strict=True)
        ]
        return results if isinstance(value, list | tuple) else results[0]

    def _differentiated_by_autograd(self, node: fx.Node, target: Any, args: Any, kwargs: Any) -> bool:
        """Notes a pullback that runs the op once more, with autograd; whether there can be one."""
        given = self._given(node, node.meta["val"])
        every, sources = (
            list(bound(target, *call).values()) for call in ((args, kwargs), (node.args, node.kwargs))
        )
        wanted = tuple(place for place, source in enumerate(sources) if source in self.relevant)
        n_tensors = sum(source in self.relevant for source in tensor_arguments(node))
        op = gradient_op(target, wanted, given) if len(wanted) == n_tensors else None
        if op is None:
            return False

        def pullback(grads: Sequence[Proxy | None]) -> list[tuple[Proxy, Proxy | None]]:
            returned = self.rewriter.call(op, (*every, *(grads[place] for place in given)), {})
            gradients = returned if len(wanted) > 1 else [returned]
            return [(every[place], gradient) for place, gradient in zip(wanted, gradients, strict=True)]

        self.pullbacks[node] = pullback
        return True

    def _given(self, node: fx.Node, value: Any) -> tuple[int, ...]:
        """Which results of an op gradients come for."""
        if not isinstance(value, list | tuple):
            return (0,)
        return tuple(
            sorted({int(user.args[1]) for user in node.users if user in self.relevant})  # type: ignore[arg-type]
        )

    def _arguments(self, node: fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        known = self.known.__getitem__
        return fx.node.map_arg(node.args, known), dict(fx.node.map_arg(node.kwargs, known))

    def _mark(self, node: fx.Node, made: Any) -> None:
        """Gives the nodes that were just emitted the words of the node that they came from."""
        origin: Provenance = Provenance.of(node)
        main = made.node if isinstance(made, Proxy | Number) else None
        new_nodes = self._new_nodes()
        for new in new_nodes:
            role = new.meta.get("role")
            new.meta["provenance"] = dataclasses.replace(origin, local=None, role=role)
        if main is not None and (main in new_nodes or node.target is operator.getitem):
            main.meta["provenance"] = origin
            main.meta["word"] = node.name

    def _rename(self, node: fx.Node, made: Any) -> None:
        """A value that has no name of its own takes over that of a node which is nothing but it."""
        origin: Provenance = Provenance.of(node)
        if origin.local is None or not isinstance(made, Proxy) or made.node.op == "placeholder":
            return
        before: Provenance = made.node.meta["provenance"]
        if before.local is None:
            made.node.meta["provenance"] = dataclasses.replace(before, local=origin.local)
            made.node.meta["word"] = node.name

    def _new_nodes(self) -> list[fx.Node]:
        new_nodes = []
        for node in reversed(self.rewriter.graph.nodes):
            if "provenance" in node.meta:
                break
            new_nodes.append(node)
        return new_nodes

    # The backward pass.

    def _tangents(self) -> list[tuple[int, fx.Node]]:
        """A placeholder for the gradient of each differentiable result, once for each value."""
        tangents: list[tuple[int, fx.Node]] = []
        last = [node for node in self.rewriter.graph.nodes if node.op == "placeholder"][-1]
        for position, output in enumerate(self.captured.outputs):
            node = self.nodes.get(output.value) if isinstance(output.value, str) else None
            if node is None or node not in self.relevant or is_shared(output):
                continue
            handle: Proxy = self.known[node]
            with self.rewriter.graph.inserting_after(last):
                tangent = self.rewriter.graph.placeholder(f"d_{node.name}")
            with self.fake_mode:
                value = torch.empty(handle.fake.shape, dtype=handle.fake.dtype, device="cpu")
            origin: Provenance = Provenance.of(node)
            tangent.meta = {
                "val": value,
                "word": f"d_{node.name}",
                "provenance": dataclasses.replace(origin, local=origin.local and f"d_{origin.local}"),
            }
            last = tangent
            self.flows.add(handle.node, {len(tangents)})
            tangents.append((position, tangent))
            self._accumulate(handle, self.rewriter.fresh(tangent, value))
        return tangents

    def _backward(self, node: fx.Node) -> None:
        made = self.known[node]
        results: Sequence[Any] = made if isinstance(made, list) else [made]
        grads = [self.gradients.get(result.node) if isinstance(result, Proxy) else None for result in results]
        sources = (self.known[one] for one in tensor_arguments(node) if one in self.relevant)
        made_nodes = {result.node for result in results if isinstance(result, Proxy)}
        flow = self.flows.of(*made_nodes) or self.undefined.calls(node, results, sources)
        if not flow:
            return
        for result, grad in zip(results, grads, strict=True):
            if grad is not None:
                name_gradient(result.node, grad.node)
        filled = [
            _zeros(self.rewriter, result) if grad is None and isinstance(result, Proxy) else grad
            for result, grad in zip(results, grads, strict=True)
        ]
        try:
            pairs = self.pullbacks[node](filled)
        except CannotFunctionalize as error:
            raise CaptureError(f"{error}.", where=place_of(node), hint=error.hint) from None
        self._mark_backward(node)
        # Where a call turned out to change nothing, its result is its argument, and has the gradient already.
        self.undefined.note(node, pairs, flow)
        if node.target is overwriting_op:
            self.flows.add(self.known[node.all_input_nodes[-1]].node, flow)
        is_nothing = all(map(_is_empty, results))  # x[..., n:] of n: all that it adds is zeros
        for source, gradient in pairs:
            if gradient is not None and source.node not in made_nodes:
                self.flows.add(source.node, flow)
                if is_nothing and not _is_empty(source):
                    continue
                self._accumulate(source, gradient)
                self._mark_backward(node, is_sum=True)

    def _accumulate(self, source: Proxy, gradient: Proxy) -> None:
        before = self.gradients.get(source.node)
        if before is not None:
            for summand in (before, gradient):
                name_gradient(source.node, summand.node, GradientPart.SUMMAND)
            gradient = added_up(self.rewriter, source.node, before, gradient)
        self.gradients[source.node] = gradient

    def _mark_backward(self, node: fx.Node, is_sum: bool = False) -> None:
        origin: Provenance = Provenance.of(node)
        is_math = isinstance(node.target, torch._ops.OpOverload) and not is_sum
        name = packet_name(node.target) if is_math else ""  # type: ignore[arg-type]
        for new in self._new_nodes():
            new.meta["provenance"] = dataclasses.replace(
                origin,
                local=None,
                differentiates=node.name,
                differentiated=name if name in NAMED else "",
                role=new.meta.get("role"),
            )

    def _final_gradients(self) -> list[tuple[str, fx.Node]]:
        gradients = []
        for name in self.captured.grad_inputs:
            value = self.known[self.nodes[name]]
            gradient = self.gradients.get(value.node)
            if gradient is None and self.flows.of(value.node):  # all of it was overwritten
                gradient = _zeros(self.rewriter, value)
                self._mark_backward(self.nodes[name])
            if gradient is not None:
                name_gradient(value.node, gradient.node)
                gradients.append((name, gradient.node))
        return gradients


def _zeros(rewriter: Rewriter, result: Proxy) -> Proxy:
    """For a result that nothing differentiable reads; it vanishes where the derivative does not use it."""
    like = {"dtype": result.fake.dtype, "device": result.fake.device}
    made: Proxy = rewriter.call(aten.full.default, (list(result.fake.shape), 0), like)
    return made


def _is_empty(value: Any) -> bool:
    """Whether a tensor has no elements, whatever its symbolic sizes are."""
    return isinstance(value, Proxy) and any(type(size) is int and not size for size in value.fake.shape)
