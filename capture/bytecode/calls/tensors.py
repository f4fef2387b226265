"""Calls of torch functions, tensor methods and operators: one node each, run once on fake values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from longhand.capture import torch_private
from longhand.capture.bytecode.calls.derivative_calls import refuse_backward
from longhand.capture.bytecode.calls.leaves import is_numpy_scalar
from longhand.capture.bytecode.entry.breaks import CallRaises, NeedsData, Unsupported
from longhand.capture.bytecode.entry.call_effects import statistics_written
from longhand.capture.bytecode.entry.raising import check_order
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.tracked import (
    BoundMethod,
    Const,
    Dict,
    Func,
    IntRange,
    Lazy,
    New,
    Obj,
    PartialCall,
    Seq,
    SetOf,
    Slice,
    Sym,
    Tensor,
    Value,
    kind_word,
)
from longhand.capture.frontends.written_out import WrittenOut

__all__ = ["has_tensor", "operate", "takes_code", "tensor_attribute", "tensor_method", "torch_call"]

# Leave the graph, change what a tensor is, or attach something to it.
_REFUSED = frozenset(
    [
        "item",
        "tolist",
        "numpy",
        "backward",
        "register_hook",
        "register_post_accumulate_grad_hook",
        "data_ptr",
        "requires_grad_",
        "retain_grad",
        "share_memory_",
        "set_",
        "resize_",
        "resize_as_",
        "apply_",
        "map_",
        "map2_",
        "storage",
        "untyped_storage",
        "detach_",
        "t_",
        "transpose_",
        "squeeze_",
        "unsqueeze_",
        "swapdims_",
        "swapaxes_",
        "as_strided_",
        "pin_memory",
        "to_sparse",
        "to_sparse_csr",
        "coalesce",
        "__array__",
        "__iter__",
        "__bool__",
        "__int__",
        "__float__",
        "__index__",
        "__contains__",
        "__dlpack__",
        "rename_",
        "names",
        "refine_names",
        "align_to",
        "module_load",
        "storage_type",
        "type_as_",
        "__setstate__",
        "__reduce_ex__",
        "nonzero_static",
        "is_shared",
        "_typed_storage",
        "record_stream",
        "__deepcopy__",
        "__repr__",
        "__format__",
        "__hash__",
        "__torch_function__",
        "as_subclass",
        "swap_tensors",
    ]
)
# What is no result of a graph and differs between tensors that the same guards let through.
_UNGUARDED = frozenset(["storage_offset", "is_set_to", "_is_view", "is_pinned"])
# What fake tensors raise then.
_ASKS_FOR_DATA = frozenset(
    ["GuardOnDataDependentSymNode", "DataDependentOutputException", "DynamicOutputShapeException"]
)
_READS = frozenset(["item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__"])
_CONSTANTS = frozenset(
    [
        "dtype",
        "device",
        "ndim",
        "requires_grad",
        "layout",
        "is_cuda",
        "is_cpu",
        "itemsize",
        "is_sparse",
        "is_quantized",
        "is_meta",
        "is_mps",
        "is_xpu",
        "is_nested",
        "is_leaf",
        "is_mkldnn",
    ]
)
# Eager refuses operands of different types, fakes do not: CPython is to raise, before what the graph writes later.
_PRODUCTS = frozenset(
    ["matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "linear", "einsum"]
)
_VIEWS = frozenset(["T", "mT", "H", "mH", "real", "imag"])


def to_graph(trace: Trace, value: Value) -> tuple[Any, Any]:
    """(what goes into the node, the fake value)."""
    value = trace.force(value)
    if isinstance(value, Sym) and isinstance(value.fake, torch.SymBool):
        # Decided as a branch is: kernels take numbers, and these two are graphs of their own.
        plain = bool(value.fake)
        return plain, plain
    if isinstance(value, Tensor | Sym):
        return value.node, value.fake
    if isinstance(value, Const):
        if isinstance(value.value, torch.nn.Module):
            raise Unsupported("a module is an argument of a torch function")
        plain = value.value.item() if is_numpy_scalar(value.value) else value.value
        return plain, plain
    if isinstance(value, Seq):
        pairs = [to_graph(trace, part) for part in value.items]
        kind = list if value.kind is list else tuple
        is_tuple = issubclass(value.kind, tuple)  # a named one, too: torch's functions take it by position
        if not is_tuple and value.kind is not list:
            raise Unsupported(f"a {value.kind.__qualname__} is an argument of a torch function")
        return kind(pair[0] for pair in pairs), kind(pair[1] for pair in pairs)
    if isinstance(value, Slice):
        pairs = [_bound(trace, to_graph(trace, part)) for part in value.parts]
        return slice(*(pair[0] for pair in pairs)), slice(*(pair[1] for pair in pairs))
    if isinstance(value, IntRange):
        return list(value.value), list(value.value)
    if isinstance(value, Dict):
        trace.guard_keys(value)
        pairs_by_key = {key: to_graph(trace, part) for key, part in value.items.items()}
        return (
            {k: pair[0] for k, pair in pairs_by_key.items()},
            {k: pair[1] for k, pair in pairs_by_key.items()},
        )
    raise Unsupported(f"a torch function is called with a {kind_word(value)} value")


def _bound(trace: Trace, pair: tuple[Any, Any]) -> tuple[Any, Any]:
    """The end of a slice: of a tensor that is made of constants, its number."""
    known: torch.Tensor | None = getattr(pair[1], "constant", None)  # what fake tensors know
    if known is None and isinstance(pair[1], torch.Tensor):
        known = trace.values.value(pair[1])
    if known is None or known.dim() or known.dtype.is_floating_point or known.dtype is torch.bool:
        return pair
    return int(known), int(known)


def has_tensor(trace: Trace, *values: Value) -> bool:
    """Whether a tensor or symbolic size is among the values or in their containers."""
    for value in values:
        value = trace.force(value) if isinstance(value, Lazy) else value
        if isinstance(value, Tensor | Sym):
            return True
        if isinstance(value, Seq) and has_tensor(trace, *value.items):
            return True
        if isinstance(value, Slice) and has_tensor(trace, *value.parts):
            return True
        if isinstance(value, SetOf):
            continue
    return False


def takes_code(trace: Trace, function: Any, args: list[Value], kwargs: dict[str, Value]) -> bool:
    """Whether a torch function is given what no graph can be given: its Python is read then, as a user's is."""
    given = (
        [trace.force(value) for value in (*args, *kwargs.values())] if hasattr(function, "__code__") else []
    )
    return any(isinstance(value, BoundMethod | Func | New | Obj | PartialCall) for value in given)


def torch_call(trace: Trace, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A call of a torch function."""
    name = getattr(function, "__name__", str(function))
    if name in _REFUSED:
        raise Unsupported(f"Tensor.{name} leaves the graph")
    return _record_with_numbers(trace, "call_function", function, name, args, kwargs)


def tensor_method(trace: Trace, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``args[0].name(*args[1:])``."""
    if name in _READS:
        known = trace.values.value(args[0].fake)  # type: ignore[attr-defined]
        if (
            known is not None
            and len(args) == 1
            and name != "numpy"
            and (name == "tolist" or known.numel() == 1)
        ):
            return _plain(getattr(known, name)())
        raise NeedsData(f"Tensor.{name} leaves the graph")
    if name == "backward":
        refuse_backward(trace, args, kwargs)
    if name == "requires_grad_" and _requires_it_already(trace, args, kwargs):
        return args[0]
    if name in _REFUSED or not hasattr(torch.Tensor, name):
        raise Unsupported(f"Tensor.{name} leaves the graph")
    if name in ("dim", "ndimension") and len(args) == 1:
        return Const(args[0].fake.dim())  # type: ignore[attr-defined]
    return _record_with_numbers(trace, "call_method", name, name, args, kwargs)


def _requires_it_already(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> bool:
    """Whether ``requires_grad_()`` changes nothing."""
    tensor, *given = (trace.force(value) for value in (*args, *kwargs.values()))
    asked = given[0] if given else Const(True)
    is_known = isinstance(tensor, Tensor) and isinstance(asked, Const) and len(given) < 2
    return is_known and asked.value is tensor.fake.requires_grad  # type: ignore[attr-defined]


def _plain(value: Any) -> Value:
    """A number, or lists of them."""
    return Seq(list, [_plain(part) for part in value]) if isinstance(value, list) else Const(value)


def operate(trace: Trace, function: Callable[..., Any], args: list[Value]) -> Value:
    """An operator, where a tensor or a symbolic size takes part."""
    return _record(trace, "call_function", function, function.__name__, args, {})


def _record_with_numbers(
    trace: Trace, op: str, target: Any, name: str, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """Where a size is a tensor whose value is known, it is that number."""
    try:
        return _record(trace, op, target, name, args, kwargs)
    except (NeedsData, Unsupported):
        numbered = [_numbered(trace, argument) for argument in args]
        named = {key: _numbered(trace, argument) for key, argument in kwargs.items()}
        if numbered == args and named == kwargs:
            raise
    return _record(trace, op, target, name, numbered, named)


def _numbered(trace: Trace, value: Value) -> Value:
    """The number that a tensor is, or a sequence of such."""
    value = trace.force(value)
    if isinstance(value, Seq):
        parts = [_numbered(trace, part) for part in value.items]
        return value if parts == [trace.force(part) for part in value.items] else Seq(value.kind, parts)
    number = trace.values.number(value.fake) if isinstance(value, Tensor) else None
    return value if number is None else Const(number)


def _break_of(error: Exception) -> type[Unsupported]:
    """The kind of break that an operation's error on fakes is."""
    if type(error).__name__ in _ASKS_FOR_DATA:
        return NeedsData
    return CallRaises if type(error) in (RuntimeError, ValueError, IndexError) else Unsupported


def _record(
    trace: Trace, op: str, target: Any, name: str, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    pairs = [to_graph(trace, argument) for argument in args]
    keyword_pairs = {key: to_graph(trace, argument) for key, argument in kwargs.items()}
    fake_args = [pair[1] for pair in pairs]
    fake_kwargs = {key: pair[1] for key, pair in keyword_pairs.items()}
    outs = _outs(fake_kwargs.get("out"))
    sizes = [out.shape for out in outs]
    run = target if op == "call_function" else getattr(fake_args[0], name)
    try:
        with trace.mode, torch_private.quiet_fakes(), torch_private.symbolic_rules(), WrittenOut():
            fake = (
                run(*fake_args, **fake_kwargs)
                if op == "call_function"
                else run(*fake_args[1:], **fake_kwargs)
            )
    except Exception as error:
        torch_private.forget_fresh_sizes(trace.environment)
        first = (str(error).strip().splitlines() or [""])[0]
        raise _break_of(error)(
            f"{name} cannot be run without data ({type(error).__name__}: {first[:150]})"
        ) from None
    if [out.shape for out in outs] != sizes:
        raise Unsupported(f"{name} gives what it writes into other sizes")
    for written in statistics_written(target, tuple(fake_args), fake_kwargs):
        if not written.is_inference():
            torch_private.set_version(written, torch_private.version(written) + 1)
    trace.data_views.count_writes()
    trace.refuse_writes()
    types = {value.dtype for value in fake_args if isinstance(value, torch.Tensor)}
    if name in _PRODUCTS and len(types) > 1 and not torch_private.is_any_autocast_enabled():
        raise Unsupported(f"{name} of different types")
    if _depends_on_data(fake):
        torch_private.forget_fresh_sizes(trace.environment)
        raise NeedsData(f"the size of what {name} gives depends on data")
    if not _has_graph_value(fake) and fake is not None:
        if name in _UNGUARDED:
            raise Unsupported(f"Tensor.{name} is asked for, which no guard holds")
        return trace.result(None, fake)  # type: ignore[arg-type]
    node = trace.call(
        op, target, tuple(pair[0] for pair in pairs), {key: pair[0] for key, pair in keyword_pairs.items()}
    )
    check_order(trace, target, [*fake_args, *fake_kwargs.values()])
    trace.values.follow(target, fake_args, fake_kwargs, fake)
    return trace.result(node, fake)


def _outs(given: Any) -> list[torch.Tensor]:
    """The tensors of an argument ``out``."""
    return [part for part in (given if isinstance(given, tuple | list) else [given]) if part is not None]


def _depends_on_data(fake: Any) -> bool:
    """Whether a result has sizes that nobody knows before it is computed: no backend of ours has kernels for those."""
    if isinstance(fake, tuple | list):
        return any(_depends_on_data(part) for part in fake)
    if isinstance(fake, torch.Tensor):
        return any(_depends_on_data(size) for size in fake.shape)
    return isinstance(fake, torch.SymInt) and bool(torch_private.free_unbacked_symbols(fake))


def _has_graph_value(fake: Any) -> bool:
    if isinstance(fake, tuple | list):
        return any(_has_graph_value(part) for part in fake)
    return isinstance(fake, torch.Tensor | torch.SymInt | torch.SymFloat | torch.SymBool)


def tensor_attribute(trace: Trace, value: Tensor, name: str) -> Value | None:
    """A plain attribute of a tensor; None if it is a method."""
    fake = value.fake
    if name == "shape":
        return (
            tensor_method(trace, "size", [value], {})
            if _is_dynamic(fake)
            else Seq(torch.Size, trace.constants(fake.shape))
        )
    if name == "is_leaf" and value.source is not None:
        trace.guards.add(value.source, f"{{}}.is_leaf is {fake.is_leaf}", f"{value.source.name}: is_leaf")
    if name in _CONSTANTS:
        return Const(getattr(fake, name))
    if name in _VIEWS:
        with trace.mode:
            result = getattr(fake, name)
        return trace.result(trace.call("call_function", getattr, (value.node, name), {}), result)
    if name in ("nbytes",) and not _is_dynamic(fake):
        return Const(fake.nbytes)
    if name == "data":
        with trace.mode:
            seen = fake.data
        trace.data_views.follow(seen, fake)
        return trace.result(trace.call("call_function", getattr, (value.node, name), {}), seen)
    if name in (
        "grad",
        "grad_fn",
        "_version",
        "names",
        "_grad_fn",
        "__dict__",
        "_base",
        "_backward_hooks",
    ):
        raise Unsupported(f"Tensor.{name} is read")
    if name == "__class__":
        return Const(value.kind)
    if not hasattr(torch.Tensor, name):
        return None
    return None


def _is_dynamic(fake: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for size in fake.shape)
