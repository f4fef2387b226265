"""The check that most tests of capture make: the printed graph, run as Python, does what eager does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch import nn

from longhand.capture.frontends.export import capture_export
from longhand.capture.graph import AliasKind, CapturedGraph, InputKind, Literal
from longhand.options import Device, Target

CPU = Target(Device.CPU)


def run_printed(
    graph: CapturedGraph, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, dict]:
    """(result, value after the call by placeholder) of the graph's own text."""
    namespace: dict[str, Any] = {}
    exec(compile(str(graph), "<graph>", "exec"), namespace)
    state = dict(model.named_parameters(remove_duplicate=False)) if graph.is_module else {}
    state |= dict(model.named_buffers(remove_duplicate=False)) if graph.is_module else {}
    given = dict(zip(graph.argument_leaves, pytree.tree_leaves((args, kwargs)), strict=True))
    fed = []
    for entry in graph.inputs:
        if entry.kind in (InputKind.ARGUMENT, InputKind.SIZE):
            fed.append(given[entry.node])
        else:
            fed.append(state[entry.target] if entry.target in state else graph.constants[entry.target])
    with torch.no_grad():
        results = list(namespace["forward"](*fed))
    outside = {value.untyped_storage().data_ptr() for value in fed if isinstance(value, torch.Tensor)}
    made = [leaf for leaf in graph.outputs if not isinstance(leaf.value, Literal)]
    for output, value in zip(made, results, strict=False):
        if output.alias is AliasKind.FRESH and isinstance(value, torch.Tensor) and value.numel():
            assert value.untyped_storage().data_ptr() not in outside
            outside.add(value.untyped_storage().data_ptr())
    leaves = [o.value.value if isinstance(o.value, Literal) else results.pop(0) for o in graph.outputs]
    written = {m.input_node: value for m, value in zip(graph.mutations, results, strict=True)}
    return pytree.tree_unflatten(leaves, graph.out_spec), written


def check(
    model: nn.Module | Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    fresh: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
    **options: Any,
) -> CapturedGraph:
    """Captures a call, and compares the graph with eager: results, what is written, what shares memory.

    Args:
        fresh: Arguments to compare on, where not those of the capture (other sizes).
    """
    kwargs = kwargs or {}
    before = copy.deepcopy((model, args, kwargs))
    graph = capture_export(model, args, kwargs, target=CPU, **options)
    args, kwargs = fresh or (args, kwargs)
    kwargs = {name: kwargs[name] for name in graph.signature if name in kwargs}
    result, written = run_printed(graph, *copy.deepcopy((model, args, kwargs)))

    eager_model, eager_args, eager_kwargs = copy.deepcopy((before[0], args, kwargs))
    with torch.no_grad():
        expected = eager_model(*eager_args, **eager_kwargs)
    found, found_spec = pytree.tree_flatten(result)
    wanted, wanted_spec = pytree.tree_flatten(expected)
    assert found_spec == wanted_spec
    for value, want in zip(found, wanted, strict=True):
        if isinstance(want, torch.Tensor):
            torch.testing.assert_close(value, want, equal_nan=True)
        else:
            assert value == want

    leaves = pytree.tree_leaves((eager_args, eager_kwargs))
    tensors = {
        name: leaf for name, leaf in zip(graph.argument_leaves, leaves, strict=True) if isinstance(name, str)
    }
    if graph.is_module:
        state = dict(eager_model.named_parameters(remove_duplicate=False))
        state |= dict(eager_model.named_buffers(remove_duplicate=False))
        tensors |= {entry.node: state[entry.target] for entry in graph.inputs if entry.target in state}
    originals = pytree.tree_leaves((args, kwargs))
    unchanged = {
        n: leaf for n, leaf in zip(graph.argument_leaves, originals, strict=True) if isinstance(n, str)
    }
    for name, value in unchanged.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(written.get(name, value), tensors[name], equal_nan=True)
    for name, value in written.items():
        torch.testing.assert_close(value, tensors[name], equal_nan=True)
    _check_aliases(graph, pytree.tree_leaves(expected), tensors)
    return graph


def _check_aliases(graph: CapturedGraph, results: list[Any], tensors: dict[str, Any]) -> None:
    storage = {
        name: t.untyped_storage().data_ptr() for name, t in tensors.items() if isinstance(t, torch.Tensor)
    }
    for position, (output, result) in enumerate(zip(graph.outputs, results, strict=True)):
        if not isinstance(result, torch.Tensor):
            assert isinstance(output.value, Literal) or isinstance(result, int)
            continue
        memory = result.untyped_storage().data_ptr()
        earlier = [i for i, r in enumerate(results[:position]) if isinstance(r, torch.Tensor)]
        if output.alias is AliasKind.INPUT:
            assert storage[output.base] == memory
        elif output.alias is AliasKind.OUTPUT:
            assert results[output.base].untyped_storage().data_ptr() == memory
        else:
            assert memory not in storage.values()
            assert all(results[i].untyped_storage().data_ptr() != memory for i in earlier)


@pytest.fixture
def captured() -> Callable[..., CapturedGraph]:
    """`check`, as a fixture."""
    return check
