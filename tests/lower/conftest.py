"""A captured graph from any function, without the capture room, and its lowered program against eager."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch.fx.experimental.proxy_tensor import make_fx

from longhand.capture.graph import CapturedGraph, GraphInput, GraphOutput, InputKind, Literal, SymbolicSize
from longhand.lower.interpreter import results_of, run_program
from longhand.lower.ir import Extern, Nest, Program, in_parts
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target

OPTIONS = Options(Target(Device.CPU))


def traced(
    function: Callable[..., Any], args: Sequence[torch.Tensor], *, symbolic: bool = False
) -> CapturedGraph:
    """The graph of a function over tensors, without autograd. Composite ops stay whole, as capture keeps them."""
    mode = "symbolic" if symbolic else "fake"

    def over(*xs: torch.Tensor) -> Any:
        return function(*xs)

    with torch.no_grad():
        module = make_fx(over, tracing_mode=mode, pre_dispatch=True)(*args)
        if any(_mutates(node) for node in module.graph.nodes):
            module = make_fx(torch.func.functionalize(over), tracing_mode=mode)(*args)
    for node in list(module.graph.nodes):
        if node.target is torch._C._set_grad_enabled:
            module.graph.erase_node(node)
    constants = _lift_constants(module)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    output = next(node for node in module.graph.nodes if node.op == "output")
    leaves, out_spec = pytree.tree_flatten(output.args[0])
    _, in_spec = pytree.tree_flatten((tuple(args), {}))
    return CapturedGraph(
        name="traced",
        source="tests.traced",
        is_module=False,
        graph=module.graph,
        inputs=tuple(
            GraphInput(
                node.name, InputKind.CONSTANT if node.name in constants else InputKind.ARGUMENT, node.name
            )
            for node in placeholders
        ),
        outputs=tuple(
            GraphOutput(leaf.name if isinstance(leaf, torch.fx.Node) else Literal(leaf)) for leaf in leaves
        ),
        signature=tuple(node.name for node in placeholders),
        in_spec=in_spec,
        argument_leaves=tuple(node.name for node in placeholders),
        out_spec=out_spec,
        constants=constants,
        symbols=_symbols(placeholders) if symbolic else (),
    )


def _mutates(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _lift_constants(module: torch.fx.GraphModule) -> dict[str, torch.Tensor]:
    """Turns get_attr nodes into placeholders, as capture does."""
    graph, found = module.graph, {}
    for node in list(graph.nodes):
        if node.op == "get_attr":
            value = getattr(module, node.target)
            with graph.inserting_before(next(iter(graph.nodes))):
                lifted = graph.placeholder(node.name)
            lifted.meta["val"] = value
            node.replace_all_uses_with(lifted)
            graph.erase_node(node)
            found[lifted.name] = value
    return found


def _symbols(placeholders: Sequence[torch.fx.Node]) -> tuple[SymbolicSize, ...]:
    found: dict[Any, SymbolicSize] = {}
    words = iter(["batch", "seq", "width", "height", "depth"])
    for node in placeholders:
        for dim, size in enumerate(node.meta["val"].shape):
            if isinstance(size, torch.SymInt) and size.node.expr not in found:
                symbol = size.node.expr
                found[symbol] = SymbolicSize(symbol, next(words), node.name, dim, size.node.hint)
    return tuple(found.values())


@dataclasses.dataclass
class Lowered:
    """A program and the inputs that it was made for."""

    program: Program
    inputs: dict[str, torch.Tensor]

    @property
    def nests(self) -> list[Nest]:
        """The steps that are loops of ours."""
        return [step for step in self.program.steps if isinstance(step, Nest)]

    @property
    def externs(self) -> list[Extern]:
        """The steps that are library calls."""
        return [step for step in in_parts(self.program.steps) if isinstance(step, Extern)]

    def run(
        self, inputs: dict[str, torch.Tensor] | None = None, precision: torch.dtype | None = None
    ) -> list[Any]:
        """What the program returns."""
        given = inputs or self.inputs
        return results_of(self.program, run_program(self.program, given, precision=precision), given)


def lowered(function: Callable[..., Any], *args: torch.Tensor, symbolic: bool = False) -> Lowered:
    """A function's loop program."""
    graph = traced(function, args, symbolic=symbolic)
    names = [entry.node for entry in graph.inputs if entry.kind is InputKind.ARGUMENT]
    return Lowered(lower(graph, OPTIONS), dict(zip(names, args, strict=True)))


def compare(actual: Sequence[Any], expected: Sequence[Any], exact: Callable[[], Sequence[Any]]) -> None:
    """Equal dtypes, shapes and values up to rounding; 16-bit floats: at most twice as far from `exact` as eager."""
    assert len(actual) == len(expected)
    for position, (ours, eager) in enumerate(zip(actual, expected, strict=True)):
        if not isinstance(eager, torch.Tensor):
            assert ours == eager
            continue
        assert ours.dtype is eager.dtype
        assert ours.shape == eager.shape
        try:
            torch.testing.assert_close(ours, eager, equal_nan=True, check_stride=False)
        except AssertionError:
            if eager.dtype not in (torch.float16, torch.bfloat16):
                raise
            reference = exact()[position]
            assert error_of(ours, reference) <= 2 * error_of(eager, reference)


def error_of(value: torch.Tensor, reference: torch.Tensor) -> float:
    """The largest distance from a reference; infinite where one is NaN and the other is not."""
    distance = (value.double() - reference.double()).abs()
    distance[value.double() == reference.double()] = 0.0
    distance[value.isnan() & reference.isnan()] = 0.0
    return float(distance.nan_to_num(nan=float("inf")).max())


@pytest.fixture
def check() -> Callable[..., Lowered]:
    """Lowers a function, runs it through the interpreter and compares with eager; returns the program."""

    def run(
        function: Callable[..., Any], *args: torch.Tensor, externs: int | None = 0, symbolic: bool = False
    ) -> Lowered:
        result = lowered(function, *args, symbolic=symbolic)
        expected = pytree.tree_leaves(function(*args))

        def exact() -> Sequence[Any]:
            return pytree.tree_leaves(function(*(x.double() if x.is_floating_point() else x for x in args)))

        compare(result.run(), expected, exact)
        reasons = [(str(step.target), step.reason) for step in result.externs]
        made = [name for name, _ in reasons if name != "aten.empty.memory_format"]  # of no elements
        assert externs is None or len(made) == externs, reasons
        return result

    return run
