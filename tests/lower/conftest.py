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
from longhand.lower.ir import Extern, Nest, Program
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target

OPTIONS = Options(Target(Device.CPU))


def traced(
    function: Callable[..., Any], args: Sequence[torch.Tensor], *, symbolic: bool = False
) -> CapturedGraph:
    """The graph of a function over tensors; decomposed to what the tracer gives, without autograd."""
    mode = "symbolic" if symbolic else "fake"
    with torch.no_grad():
        module = make_fx(torch.func.functionalize(function), tracing_mode=mode)(*args)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    output = next(node for node in module.graph.nodes if node.op == "output")
    leaves, out_spec = pytree.tree_flatten(output.args[0])
    _, in_spec = pytree.tree_flatten((tuple(args), {}))
    return CapturedGraph(
        name="traced",
        source="tests.traced",
        is_module=False,
        graph=module.graph,
        inputs=tuple(GraphInput(node.name, InputKind.ARGUMENT, node.name) for node in placeholders),
        outputs=tuple(
            GraphOutput(leaf.name if isinstance(leaf, torch.fx.Node) else Literal(leaf)) for leaf in leaves
        ),
        signature=tuple(node.name for node in placeholders),
        in_spec=in_spec,
        argument_leaves=tuple(node.name for node in placeholders),
        out_spec=out_spec,
        symbols=_symbols(placeholders) if symbolic else (),
    )


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
        return [step for step in self.program.steps if isinstance(step, Extern)]

    def run(
        self, inputs: dict[str, torch.Tensor] | None = None, precision: torch.dtype | None = None
    ) -> list[Any]:
        """What the program returns."""
        given = inputs or self.inputs
        return results_of(self.program, run_program(self.program, given, precision=precision), given)


def lowered(function: Callable[..., Any], *args: torch.Tensor, symbolic: bool = False) -> Lowered:
    """A function's loop program."""
    graph = traced(function, args, symbolic=symbolic)
    names = [entry.node for entry in graph.inputs]
    return Lowered(lower(graph, OPTIONS), dict(zip(names, args, strict=True)))


def compare(actual: Sequence[Any], expected: Sequence[Any]) -> None:
    """Equal dtypes, shapes and values up to rounding."""
    assert len(actual) == len(expected)
    for ours, eager in zip(actual, expected, strict=True):
        if not isinstance(eager, torch.Tensor):
            assert ours == eager
            continue
        assert ours.dtype is eager.dtype
        assert ours.shape == eager.shape
        torch.testing.assert_close(ours, eager, equal_nan=True, check_stride=False)


@pytest.fixture
def check() -> Callable[..., Lowered]:
    """Lowers a function, runs it through the interpreter and compares with eager; returns the program."""

    def run(
        function: Callable[..., Any], *args: torch.Tensor, externs: int = 0, symbolic: bool = False
    ) -> Lowered:
        result = lowered(function, *args, symbolic=symbolic)
        expected = pytree.tree_leaves(function(*args))
        compare(result.run(), expected)
        reasons = [(str(step.target), step.reason) for step in result.externs]
        assert len(result.externs) == externs, reasons
        return result

    return run
