"""Ops that write their arguments, as what they compute plus a write.

``add_`` is ``add`` and a write; ``copy_`` is its source in the destination's shape and dtype and a write; ``out=``
variants likewise. Names of the functional counterparts follow from ATen's own naming.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from longhand.capture import torch_private
from longhand.capture.functionalize.functional_graph import CannotFunctionalize
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter, Rule

aten = torch.ops.aten

# In-place ops whose functional counterpart has another name.
_RENAMED: dict[str, str] = {
    "__iand__": "bitwise_and",
    "__ior__": "bitwise_or",
    "__ixor__": "bitwise_xor",
    "__ilshift__": "__lshift__",
    "__irshift__": "__rshift__",
    "normal_": "normal_functional",
}

# In-place ops that change a tensor's memory itself.
_REFUSED = frozenset(["resize_", "resize_as_", "set_", "as_strided_", "set_data"])

# In-place ops that change what a tensor object looks at, not the memory.
_METADATA = frozenset(["t_", "transpose_", "squeeze_", "unsqueeze_", "swapaxes_", "swapdims_"])


def bound(target: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, defaults filled in, in the schema's order."""
    given: dict[str, Any] = {}
    for position, argument in enumerate(target._schema.arguments):
        if position < len(args):
            given[argument.name] = args[position]
        else:
            given[argument.name] = kwargs.get(argument.name, argument.default_value)
    return given


def write_in_place(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """``x.add_(y)``: computes add(x, y), casts to x's dtype, writes it into x."""
    name = target._schema.name.split("::")[1]
    if name == "as_strided_" and _sees_the_same(bound(target, args, kwargs)):
        return args[0]
    if name in _REFUSED:
        raise CannotFunctionalize(
            f"`{name}` changes which memory a tensor uses", "Make a new tensor instead."
        )
    destination: Proxy = args[0]
    if name in _METADATA:
        before, seen = destination.fake, rewriter.call(_functional(target, name[:-1]), args, kwargs)
        is_argument = destination.parent is None and destination.memory.placeholder is not None
        if is_argument and (before.shape, before.stride()) != (seen.fake.shape, seen.fake.stride()):
            raise CannotFunctionalize(
                f"`{name}` changes how an argument lies, for the caller, too", f"Write `{name[:-1]}` instead."
            )
        return seen
    result = rewriter.call(_functional(target, _RENAMED.get(name, name[:-1])), args, kwargs)
    return _store(rewriter, destination, result)


def _sees_the_same(given: dict[str, Any]) -> bool:
    """Whether the new strides differ only along dimensions of size 1: every index is where it was.

    Pooling to one pixel gives a tensor of channels-last its layout's name so.
    """
    seen = given["self"].fake
    if tuple(seen.shape) != tuple(given["size"]) or given["storage_offset"] not in (
        None,
        seen.storage_offset(),
    ):
        return False
    strides = zip(seen.shape, seen.stride(), given["stride"], strict=True)
    return all(size == 1 or old == new for size, old, new in strides)


def copy_into(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """``x.copy_(y)``: y, broadcast and cast, is x's new value."""
    given = bound(target, args, kwargs)
    destination, source = given["self"], given["src"]
    if not isinstance(source, Proxy):
        return fill(rewriter, target, (destination, source), {}, eager)
    return _store(rewriter, destination, source)


def fill(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """``x.fill_(v)``, ``x.zero_()``."""
    destination: Proxy = args[0]
    value = args[1] if len(args) > 1 else kwargs.get("value", 0)
    if isinstance(value, Proxy):
        return _store(rewriter, destination, value)
    return _store(rewriter, destination, rewriter.call(aten.full_like.default, (destination, value), {}))


def write_out(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """``op(..., out=t)``: computes the functional overload and writes the result into t."""
    outs = torch_private.writes(target)
    name = target._schema.name.split("::")[1]
    packet = getattr(aten, name)
    if (functional := _with_new_values(name, target)) is not None:
        return _store_new_values(rewriter, functional, bound(target, args, kwargs), outs, eager)
    wanted = [argument.name for argument in target._schema.arguments if argument.name not in outs]
    for overload in packet.overloads():
        candidate = getattr(packet, overload)
        if [argument.name for argument in candidate._schema.arguments] == wanted and not torch_private.writes(
            candidate
        ):
            break
    else:
        raise CannotFunctionalize(f"{target} has no overload without out=")
    rest = {name: value for name, value in kwargs.items() if name not in outs}
    result = rewriter.call(candidate, args, rest)
    results = list(result) if isinstance(result, list | tuple) else [result]
    stored = [_store(rewriter, kwargs[name], value) for name, value in zip(outs, results, strict=True)]
    return stored if isinstance(result, list | tuple) else stored[0]


def _with_new_values(name: str, target: torch._ops.OpOverload) -> torch._ops.OpOverload | None:
    """``rrelu_with_noise_functional``: ATen's own overload that returns what the op writes, behind its results."""
    packet = getattr(aten, f"{name}_functional", None)
    overload: torch._ops.OpOverload | None = None if packet is None else packet.default
    return overload if overload is not None and _types(overload) == _types(target) else None


def _store_new_values(
    rewriter: Rewriter, functional: Any, given: dict[str, Any], outs: tuple[str, ...], eager: Any
) -> Any:
    written = [given[name] for name in outs]
    if not all(isinstance(handle, Proxy) for handle in written):
        raise CannotFunctionalize(f"{functional} is given nothing to write into")
    is_several = len(functional._schema.returns) - len(outs) > 1
    results = list(eager) if isinstance(eager, list | tuple) else [eager]
    if eager is None:
        results = list(rewriter.evaluate(functional, tuple(given.values()), {}))[: -len(outs)]
    with rewriter.fake_mode:
        after = [torch.empty_like(handle.fake) for handle in written]
    made = list(rewriter.call(functional, tuple(given.values()), {}, [*results, *after]))
    with contextlib.nullcontext() if rewriter.gradients is None else rewriter.gradients.stopped():
        for handle, value in zip(written, made[len(results) :], strict=True):
            _store(rewriter, handle, value)
    return made[: len(results)] if is_several else made[0]


def _store(rewriter: Rewriter, destination: Proxy, value: Proxy) -> Proxy:
    """Writes a value into a tensor in that tensor's dtype and shape."""
    into = destination.fake
    if value.fake.dtype != into.dtype or value.fake.device != into.device:
        value = rewriter.call(aten._to_copy.default, (value,), _difference(value.fake, into))
    if tuple(value.fake.shape) != tuple(into.shape):
        sizes = [
            (
                rewriter.number(aten.sym_size.int, (destination, dim), {}, size)
                if isinstance(size, torch.SymInt)
                else size
            )
            for dim, size in enumerate(into.shape)
        ]
        value = rewriter.call(aten.expand.default, (value, sizes), {})
    rewriter.write(destination, rewriter.read(value))
    return destination


def _difference(source: torch.Tensor, into: torch.Tensor) -> dict[str, Any]:
    options: dict[str, Any] = {"dtype": into.dtype} if source.dtype != into.dtype else {}
    return options if source.device == into.device else {**options, "device": into.device}


def _functional(target: torch._ops.OpOverload, name: str) -> torch._ops.OpOverload:
    """The overload of an op that takes what the op in place takes: ``pow.Tensor_Scalar`` for ``pow_.Scalar``."""
    packet = getattr(aten, name, None)
    wanted = _types(target)
    candidates = [getattr(packet, overload) for overload in packet.overloads()] if packet is not None else []
    fitting = [one for one in candidates if _types(one) == wanted and not torch_private.writes(one)]
    fitting.sort(key=lambda one: one._overloadname != target._overloadname)
    if not fitting:
        raise CannotFunctionalize(f"aten.{name}_ has no functional counterpart")
    return fitting[0]


def _types(target: torch._ops.OpOverload) -> list[str]:
    return [str(argument.type) for argument in target._schema.arguments]


def fill_diagonal(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """``x.fill_diagonal_(v)`` of a matrix, where nothing wraps."""
    given = bound(target, args, kwargs)
    destination: Proxy = given["self"]
    rows, *others = destination.fake.shape
    if len(others) != 1 or (given["wrap"] and not rows <= others[0] + 1):
        raise CannotFunctionalize("`fill_diagonal_` wraps, or its tensor is no matrix")
    diagonal = rewriter.call(aten.diagonal.default, (destination,), {})
    rewriter.call(aten.fill_.Scalar, (diagonal, given["fill_value"]), {})
    return destination


# By packet name; ops not named here go by their schema (`rule_for_write`).
WRITE_RULES: dict[str, Rule] = {
    "copy_": copy_into,
    "fill_": fill,
    "zero_": fill,
    "fill_diagonal_": fill_diagonal,
}


def rule_for_write(target: torch._ops.OpOverload) -> Rule:
    """What to do with an op that writes, when no rule names it."""
    name = target._schema.name.split("::")[1]
    if target.namespace != "aten":
        return custom_write
    if torch_private.writes_into_a_list(target):
        return refuse_list
    return write_in_place if name.endswith("_") else write_out


def refuse_list(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """``torch._fused_adam_(parameters, ...)`` and others of ATen that are no loop over one tensor's op."""
    raise CannotFunctionalize(f"{target} writes into a list of tensors", "Write into the tensors one by one.")


def custom_write(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """A custom op that writes works on clones that nobody else reads before it ran; they are then the new values."""
    given = bound(target, args, kwargs)
    written = [given[name] for name in torch_private.writes(target) if given[name] is not None]
    if not all(isinstance(handle, Proxy) for handle in written):
        raise CannotFunctionalize(f"{target} writes into a list of tensors")
    clones = {id(handle): rewriter.emit(aten.clone.default, (handle,)) for handle in written}
    call_args = tuple(clones.get(id(value), value) for value in given.values())
    positional = [
        a for a, info in zip(call_args, target._schema.arguments, strict=True) if not info.kwarg_only
    ]
    keywords = {i.name: a for a, i in zip(call_args, target._schema.arguments, strict=True) if i.kwarg_only}
    result = rewriter.keep(target, tuple(positional), keywords, eager)
    for handle in written:
        rewriter.write(handle, clones[id(handle)])
    return result
