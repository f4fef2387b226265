"""A graph whose sizes vary and that gradients flow through: compiled for the sizes of a call, each set of sizes once.

A backward pass is derived ahead of time for sizes that are numbers. Dynamo makes a size a symbol when a second value of
it comes (the last batch of an epoch is smaller), and its guards then let every size through: so each call's own sizes
choose the unit here.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from longhand.capture import torch_private, torch_transforms
from longhand.capture.bytecode.hook import frame_hook, is_available
from longhand.compiled.call_state import GraphFunction
from longhand.errors import CaptureError, EagerWarning

__all__ = ["MOST_SETS", "can_be_fixed", "for_each_set_of_sizes", "has_symbols"]

MOST_SETS = 8  # of sizes that are compiled; as many as torch's Dynamo compiles versions of a function
_PAST_LIMIT = f"gradients must flow through it, and it was compiled for {MOST_SETS} other sets of sizes"

_compiling = threading.RLock()  # torch's tracers keep state that all threads share


def can_be_fixed(module: fx.GraphModule) -> bool:
    """Whether a graph's inputs have symbols, all of them whole numbers."""
    values = _captured_with(module)
    if any(isinstance(value, torch.SymFloat | torch.SymBool) for value in values):
        return False
    return has_symbols(module)


def has_symbols(module: fx.GraphModule) -> bool:
    """Whether a graph's inputs have symbols."""
    return any(map(_varies, _captured_with(module)))


def for_each_set_of_sizes(
    module: fx.GraphModule,
    compile_fixed: Callable[[fx.GraphModule, list[Any]], GraphFunction],
    left_in_eager: Callable[[str], GraphFunction],
    *,
    strict: bool,
) -> GraphFunction:
    """A function that compiles the graph when sizes come that it does not know; from the ninth on it runs in eager.

    Args:
        module: The graph.
        compile_fixed: Compiles a graph without symbols, given fake inputs.
        left_in_eager: Given the reason, makes the graph in eager, of all sizes.
        strict: What would run in eager is an error.
    """
    values = _captured_with(module)
    numbers = _numbers(module)
    varying = [place for place, value in enumerate(values) if place not in numbers and _varies(value)]
    tensors = [place for place in range(len(values)) if place not in numbers]
    made: dict[tuple[Any, ...], GraphFunction] = {}
    past_limit: list[GraphFunction] = []

    def compiled_for(inputs: tuple[Any, ...]) -> GraphFunction:
        try:
            fixed, fakes = _fixed_graph(module, inputs, numbers)
        except Exception as error:
            if strict:
                raise
            reason = f"its sizes cannot be made numbers: {type(error).__name__}: {error}".splitlines()[0]
            warnings.warn(f"longhand runs calls of a graph in eager: {reason}", EagerWarning, stacklevel=4)
            return left_in_eager(reason)
        function = compile_fixed(fixed, fakes)
        return lambda *inputs: function(*[inputs[place] for place in tensors])

    def run(*inputs: Any) -> Any:
        # Numbers as text: -0.0 is not 0.0, and NaN is NaN.
        sizes = (
            *[_sizes(inputs[place]) for place in varying],
            *[repr(_number(inputs[place])) for place in numbers],
        )
        function = made.get(sizes)
        if function is None:
            with _compiling, _uncaptured():
                if sizes not in made and len(made) < MOST_SETS:
                    made[sizes] = compiled_for(inputs)
                function = made.get(sizes)
        if function is not None:
            return function(*inputs)
        if strict:
            raise CaptureError(f"A call would run in eager: {_PAST_LIMIT}.")
        if not past_limit:
            text = f"longhand runs calls of a graph in eager: {_PAST_LIMIT}. Pad inputs to fewer sizes."
            warnings.warn(text, EagerWarning, stacklevel=2)
            past_limit.append(left_in_eager(_PAST_LIMIT))
        return past_limit[0](*inputs)

    return run


def _fixed_graph(
    module: fx.GraphModule, inputs: Sequence[Any], numbers: Sequence[int]
) -> tuple[fx.GraphModule, list[Any]]:
    """The graph for the sizes of a call, and fake tensors for its placeholders.

    Args:
        module: The graph.
        inputs: The call's.
        numbers: The places of those that are numbers: they become constants.
    """
    mode = torch_private.FakeTensorMode()
    graph = fx.Graph()
    known: dict[fx.Node, Any] = {}
    fakes: list[Any] = []
    for place, node in enumerate(module.graph.find_nodes(op="placeholder")):
        if place in numbers:
            known |= dict.fromkeys([node, *node.users] if _is_boxed(node) else [node], _number(inputs[place]))
            continue
        value = inputs[place]
        fakes.append(
            mode.from_tensor(value, static_shapes=True) if isinstance(value, torch.Tensor) else value
        )
        known[node] = graph.node_copy(node)
        known[node].meta["example_value"] = fakes[-1]
    for node in module.graph.nodes:
        if node not in known:
            known[node] = graph.node_copy(node, known.__getitem__)
    fixed = fx.GraphModule(module, graph)
    fixed.meta.update(module.meta)
    with mode, torch.set_grad_enabled(torch.is_grad_enabled()), torch_transforms.keeping_transforms():
        _Faking(fixed, mode).run(*fakes)
    return fixed, fakes


class _Faking(fx.Interpreter):
    """Gives each call its fake value, as Dynamo does: with whether it requires grad, and whose memory it looks at.

    Args:
        module: The graph.
        mode: Makes fake tensors of what the graph holds.
    """

    def __init__(self, module: fx.GraphModule, mode: torch_private.FakeTensorMode) -> None:
        super().__init__(module)
        self._mode = mode

    def run_node(self, node: fx.Node) -> Any:
        value = super().run_node(node)
        if node.op.startswith("call_"):
            node.meta.pop("example_value", None)
            if value is not None:
                node.meta["example_value"] = value
        return value

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if torch_private.is_checkpoint(target):
            body, *operands = args
            return _Faking(body, self._mode).run(*operands)
        return super().call_function(target, args, kwargs)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        return self._mode.from_tensor(value, static_shapes=True) if isinstance(value, torch.Tensor) else value


@contextlib.contextmanager
def _uncaptured() -> Iterator[None]:
    """Our own capture looks away: the call that compiles is one of the user's."""
    if not is_available():
        yield
        return
    hook = frame_hook()
    paused = hook.pause()
    try:
        yield
    finally:
        hook.resume(paused)


def _captured_with(module: fx.GraphModule) -> list[Any]:
    """The fake values of the graph's inputs, which have the symbols."""
    return [node.meta.get("example_value") for node in module.graph.find_nodes(op="placeholder")]


def _numbers(module: fx.GraphModule) -> tuple[int, ...]:
    """The places of the inputs that are whole numbers, or numbers in a tensor."""
    nodes = module.graph.find_nodes(op="placeholder")
    return tuple(
        place
        for place, node in enumerate(nodes)
        if isinstance(node.meta.get("example_value"), torch.SymInt) or _is_boxed(node)
    )


def _is_boxed(node: fx.Node) -> bool:
    """Whether an input is a tensor in which Dynamo passes a float, for the graph to take it out again."""
    value = node.meta.get("example_value")
    if (
        not isinstance(value, torch.Tensor)
        or value.dim()
        or value.requires_grad
        or value.device.type != "cpu"
    ):
        return False
    takes_out = (user.op == "call_method" and user.target == "item" for user in node.users)
    return bool(node.users) and all(takes_out)


def _number(value: Any) -> int | float | bool:
    return value.item() if isinstance(value, torch.Tensor) else value


def _varies(value: Any) -> bool:
    """Whether an input is a size, or a tensor that has a symbol in its sizes, strides or offset."""
    if isinstance(value, torch.SymInt):
        return True
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return False
    facts = (*value.shape, *value.stride(), value.storage_offset())
    return any(isinstance(fact, torch.SymInt) for fact in facts)


def _sizes(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What a unit is compiled for of an input."""
    return tensor.shape, tensor.stride(), tensor.storage_offset()
