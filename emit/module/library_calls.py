"""Library calls as a person writes them: ``F.linear(x, self.c_proj.weight)``; any other as torch.ops names it."""

from __future__ import annotations

import dataclasses
import keyword
import types
from collections.abc import Callable, Mapping
from typing import Any

import sympy
import torch

from longhand.capture.graph import Differentiated, differentiated, registered_by
from longhand.emit.module import attention_calls
from longhand.emit.module.launch_lines import AllocationWriter
from longhand.emit.module.module_place import all_of_a_name
from longhand.emit.module.paragraphs import CallOfLibrary, functional
from longhand.emit.module.told_arguments import TOLD, told_argument
from longhand.emit.module.view_calls import argument, write_view
from longhand.emit.text.python_code import (
    NO_CODE,
    CallCode,
    Code,
    InfixCode,
    ItemCode,
    KeywordCode,
    LiteralCode,
    MethodCode,
    NameCode,
    OperatorCode,
    SeveralCode,
    SliceCode,
    whole_number,
)
from longhand.emit.text.sizes import SizeWriter
from longhand.lower.ir import Extern, View

# torch functions that take the same arguments in the same order as the ATen op of that name.
_SAME_IN_TORCH_TEXT = """
    mm bmm addmm baddbmm addbmm addmv mv dot vdot matmul sort argsort topk kthvalue cumsum cumprod logcumsumexp
    cummax cummin searchsorted bucketize index_select index_add scatter scatter_add gather cat stack flip roll
    where masked_fill nonzero clone argmax argmin einsum histc bincount multinomial outer cross trace complex
    native_batch_norm polar view_as_real_copy view_as_complex_copy relu_ neg_ abs_ floor_ ceil_ trunc_
"""
_SAME_IN_TORCH = frozenset(_SAME_IN_TORCH_TEXT.split())
_IN_FUNCTIONAL_TEXT = """
    linear max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d
    adaptive_avg_pool2d conv1d conv2d conv3d conv_transpose1d bilinear scaled_dot_product_attention layer_norm
    group_norm softmax log_softmax gelu silu relu pixel_shuffle one_hot
"""
_IN_FUNCTIONAL = frozenset(_IN_FUNCTIONAL_TEXT.split())
_PRODUCTS = {getattr(torch.ops.aten, name).default for name in ("linear", "mm", "bmm", "addmm")}
_OTHER_DEFAULTS = frozenset(["ctc_loss"])  # torch's own function reduces nothing where the op takes a mean
# Python's names for arguments that ATen's schema calls something else.
_RENAMED = {"self": "input"}


class LibraryWriter:
    """Prints externs.

    Args:
        variables: The variable of each buffer.
        sizes: Writes sizes.
        allocations: Writes where new tensors lie.
        has_blas: Whether matrix products are those of `blas`, of runtime.py.
    """

    def __init__(
        self,
        variables: Mapping[str, str],
        sizes: SizeWriter,
        allocations: AllocationWriter,
        has_blas: bool = False,
    ) -> None:
        self._allocations = allocations
        self._buffers = allocations.plan.buffers
        self.variables = variables
        self.sizes = sizes
        self._has_blas = has_blas
        self.views: dict[str, str] = {}  # what holds a view that has a line of its own, by node

    def write(self, step: Extern) -> CallOfLibrary:
        """The call of `step`."""
        if step.memory_format is not torch.channels_last:
            call = self._plain_call(step)
            return attention_calls.held_by_position(call, step, self._buffers) if step.outputs[1:] else call
        if step.target is torch.ops.aten.conv2d.default:  # runtime.py's own
            return CallOfLibrary(CallCode("conv2d", self._arguments(step)), runtime="conv2d")
        call = self._plain_call(step)
        return CallOfLibrary(CallCode("channels_last", (call.code,)), call.needs_functional, "channels_last")

    def dtype(self, step: Extern) -> torch.dtype:
        """Of what a call makes first."""
        return self._buffers[step.outputs[0]].dtype

    def _plain_call(self, step: Extern) -> CallOfLibrary:
        name = str(step.target.overloadpacket.__name__)
        is_aten = step.target.namespace == "aten"
        special = _SPECIAL.get(name) if is_aten else None
        if special is not None and (call := special(self, step)) is not None:
            return call
        if is_aten and name.endswith("_") and step.mutates and isinstance(step.args[0], View):
            rest = self._raw_arguments(dataclasses.replace(step, args=step.args[1:]), 1)
            return CallOfLibrary(MethodCode(self.value(step.args[0]), name, rest))
        if self._has_blas and step.target in _PRODUCTS:
            arguments = self._arguments(step)
            if not any(isinstance(one, KeywordCode) for one in arguments):  # factors of an addmm
                return CallOfLibrary(CallCode(f"blas.{name}", arguments), runtime="blas")
        if is_aten and name in _IN_FUNCTIONAL:
            return functional(name, self._arguments(step))
        if is_aten and (infix := _INFIX.get(name)) is not None and (made := _operation(self, step, infix)):
            return CallOfLibrary(made)
        if is_aten and (name in _SAME_IN_TORCH or (not step.mutates and _is_public(name))):
            return CallOfLibrary(_of_torch(step, f"torch.{name}", self._arguments(step)))
        if (which := differentiated(step.target)) is not None:
            return self._by_autograd(step, which)
        of_ops = _of_torch(step, f"torch.ops.{step.target}", self._raw_arguments(step))
        return CallOfLibrary(of_ops, module=registered_by(step.target) or "")

    def _by_autograd(self, step: Extern, which: Differentiated) -> CallOfLibrary:
        """The gradients of an op that only autograd can differentiate."""
        n_given = len(which.given)
        arguments, gradients = map(self.value, (step.args[:-n_given], step.args[-n_given:]))
        said: dict[str, object] = {"wanted": which.wanted}
        said |= {} if which.given == (0,) else {"results": which.given}
        said |= {"keywords": which.keywords} if which.keywords else {}
        parts: list[Code] = [NameCode(f"torch.ops.{which.target}"), arguments, gradients]
        parts += [KeywordCode(word, LiteralCode(str(value))) for word, value in said.items()]
        made: Code = CallCode("gradients_of", tuple(parts))
        made = ItemCode(made, (whole_number(0),)) if len(which.wanted) == 1 else made
        return CallOfLibrary(made, runtime="gradients_of", module=registered_by(which.target) or "")

    def value(self, value: Any) -> Code:
        """An argument: a tensor through its views, or anything else."""
        if isinstance(value, View):
            n_before = max(
                (n for n, call in enumerate(value.calls, 1) if call.origin in self.views), default=0
            )
            variable = (
                self.views[value.calls[n_before - 1].origin] if n_before else self.variables[value.buffer]
            )
            return write_view(value, variable, self.sizes, self._buffers[value.buffer], n_before)
        if isinstance(value, list | tuple) and any(isinstance(item, View) or item is None for item in value):
            return SeveralCode(tuple(map(self.value, value)), "[]")
        is_gpu = isinstance(value, torch.device) and value.type == "cuda"  # of which a unit runs on one
        return NameCode(self._allocations.device) if is_gpu else argument(value, self.sizes)

    def named(self, step: Extern) -> dict[str, Any]:
        """All arguments by the schema's names, defaults filled in."""
        arguments: dict[str, Any] = {}
        given = dict(step.kwargs)
        for place, parameter in enumerate(step.target._schema.arguments):
            if place < len(step.args) and not parameter.kwarg_only:
                arguments[parameter.name] = step.args[place]
            elif parameter.name in given:
                arguments[parameter.name] = given[parameter.name]
            elif parameter.has_default_value():
                arguments[parameter.name] = parameter.default_value
        return arguments

    def _arguments(self, step: Extern) -> tuple[Code, ...]:
        """Tensors by position; of the rest what is not the default, by name, and so are flags and fractions."""
        parts: list[Code] = []
        by_name = False
        given = self.named(step)
        name = str(step.target.overloadpacket.__name__)
        for parameter in step.target._schema.arguments:
            if parameter.name not in given:
                continue
            value = given[parameter.name]
            is_default = parameter.has_default_value() and _equal(value, parameter.default_value)
            if is_default and name not in _OTHER_DEFAULTS:
                by_name = True
                continue
            is_told = parameter.name in TOLD
            made = self._buffers.get(step.outputs[0]) if is_told and step.outputs else None
            told = told_argument(parameter.name, given, self.sizes, self.value, made) if is_told else None
            text = told or (_uniform(value, self.sizes) if _is_per_dim(name, value) else self.value(value))
            # Python calls a tensor `self` input, a number `self` (bucketize, searchsorted): it stands by position.
            is_setting = parameter.name != "self" and (
                isinstance(value, bool | float) or parameter.has_default_value()
            )
            by_name |= parameter.kwarg_only or (is_setting and not _holds_tensor(value))
            word = _RENAMED.get(parameter.name, parameter.name)
            parts.append(KeywordCode(word, text) if by_name else text)
        return tuple(parts)

    def _raw_arguments(self, step: Extern, first: int = 0) -> tuple[Code, ...]:
        """Arguments as they are given; those by position begin with the schema's number `first`."""
        names = [parameter.name for parameter in step.target._schema.arguments[first:]]
        given = dict(zip(names, step.args, strict=False))
        made = self._buffers[step.outputs[0]] if len(step.outputs) == 1 else None
        parts: list[Code] = []
        by_name = False  # what is no tensor says what it is, and so does all after it
        for name, value in given.items():
            is_word = not keyword.iskeyword(name)  # ``from`` is none
            by_name |= not first and name != "self" and is_word and not _holds_tensor(value)
            told = told_argument(name, given, self.sizes, self.value, made) if name in TOLD else None
            text = told or self.value(value)
            parts.append(KeywordCode(name, text, not is_word) if by_name else text)
        for name, value in step.kwargs:
            if name == "scale" and "attention" in str(step.target.overloadpacket.__name__):
                parts += attention_calls.scale_argument(self.named(step), self.dtype(step))
            else:
                parts.append(KeywordCode(name, self.value(value)))
        return tuple(parts)


def _of_torch(step: Extern, function: str, given: tuple[Code, ...]) -> Code:
    """The call; of ops that return a list even of one tensor (unbind, split) that tensor."""
    words = tuple(one.name for one in step.target._schema.arguments)
    call = OperatorCode(function, given, str(step.target.overloadpacket.__name__), words)
    is_list = any(isinstance(result.type, torch.ListType) for result in step.target._schema.returns)
    return ItemCode(call, (whole_number(0),)) if is_list and len(step.outputs) == 1 else call


def _holds_tensor(value: Any) -> bool:
    return any(map(_holds_tensor, value)) if isinstance(value, list | tuple) else isinstance(value, View)


def _equal(value: Any, default: Any) -> bool:
    if _holds_tensor(value):
        return False
    if isinstance(value, list | tuple) and isinstance(default, list | tuple):
        return list(value) == list(default)
    return type(value) is type(default) and bool(value == default)


def _uniform(values: Any, sizes: SizeWriter) -> Code:
    """``2`` for (2, 2)."""
    items = list(values)
    if items and all(isinstance(item, int | sympy.Symbol) and item == items[0] for item in items):
        return argument(items[0], sizes)
    return argument(tuple(items), sizes)


def _is_per_dim(name: str, value: Any) -> bool:
    """Whether a value is one number for each spatial dimension, for which F's functions take one for all."""
    is_windowed = name.startswith(("conv", "max_pool", "avg_pool"))
    return is_windowed and isinstance(value, list | tuple) and len(value) > 0


def _convolution(writer: LibraryWriter, step: Extern) -> CallOfLibrary | None:
    given = writer.named(step)
    n_dims, transposed = len(given["weight"].shape) - 2, bool(given["transposed"])
    if n_dims not in (1, 2, 3):
        return None
    parts = [writer.value(given["input"]), writer.value(given["weight"])]
    if given.get("bias") is not None:
        parts.append(writer.value(given["bias"]))
    parts += _steps_and_edges(writer, given)
    return functional(f"conv{'_transpose' * transposed}{n_dims}d", parts)


def _steps_and_edges(writer: LibraryWriter, given: Mapping[str, Any]) -> list[Code]:
    """How a convolution goes over its input, where it does not one by one."""
    defaults = {"stride": 1, "padding": 0, "output_padding": 0, "groups": 1, "dilation": 1}
    if not given["transposed"]:
        defaults.pop("output_padding")
    parts: list[Code] = []
    for name, default in defaults.items():
        value = given[name]
        is_count = name == "groups"
        told = told_argument(name, given, writer.sizes, writer.value) if is_count else None
        text = told or (argument(value, writer.sizes) if is_count else _uniform(value, writer.sizes))
        if text != whole_number(default):
            parts.append(KeywordCode(name, text))
    return parts


def _convolution_backward(writer: LibraryWriter, step: Extern) -> CallOfLibrary:
    """``convolution_backward(d_out, x, weight, padding=1)``, of runtime.py: ATen's takes eleven arguments."""
    given = writer.named(step)
    parts = [writer.value(given[name]) for name in ("grad_output", "input", "weight")]
    parts += _steps_and_edges(writer, given)
    if given["transposed"]:
        parts.append(KeywordCode("transposed", LiteralCode("True")))
    wanted = tuple(map(bool, given["output_mask"]))
    if wanted != (True, True, False):
        parts.append(KeywordCode("wanted", LiteralCode(str(wanted))))
    return CallOfLibrary(CallCode("convolution_backward", tuple(parts)), runtime="convolution_backward")


def _item(writer: LibraryWriter, step: Extern) -> CallOfLibrary:
    return CallOfLibrary(MethodCode(writer.value(step.args[0]), "item", ()))


def _embedding(writer: LibraryWriter, step: Extern) -> CallOfLibrary:
    given = writer.named(step)
    return functional("embedding", [writer.value(given["indices"]), writer.value(given["weight"])])


def _attention(writer: LibraryWriter, step: Extern) -> CallOfLibrary | None:
    return attention_calls.attention_call(step.target, writer.named(step), writer.dtype(step), writer.value)


def _contiguous(writer: LibraryWriter, step: Extern) -> CallOfLibrary | None:
    source = step.args[0]
    formats = {value for _, value in step.kwargs} - {torch.contiguous_format}
    if not isinstance(source, View) or formats - {torch.channels_last}:
        return None
    layout = KeywordCode("memory_format", NameCode("torch.channels_last"))
    return CallOfLibrary(MethodCode(writer.value(source), "contiguous", (layout,) if formats else ()))


def _index_put(writer: LibraryWriter, step: Extern) -> CallOfLibrary | None:
    indices = (given := writer.named(step))["indices"]
    # One number is no index of its own in a subscript: the dimension would be gone.
    if given["accumulate"] or any(isinstance(index, View) and not index.shape for index in indices):
        return None if None in indices else _new_values(writer, step)
    places = tuple(SliceCode() if index is None else writer.value(index) for index in indices)
    item = ItemCode(writer.value(given["self"]), places)
    return CallOfLibrary(InfixCode(item, "=", writer.value(given["values"])))


def _new_values(writer: LibraryWriter, step: Extern) -> CallOfLibrary | None:
    """``inv_perm.index_put((perm,), values)``: some elements replaced."""
    given = writer.named(step)
    indices = given["indices"]
    if any(index is None for index in indices):  # which the public one does not take
        return CallOfLibrary(CallCode("torch.ops.aten.index_put.default", writer._raw_arguments(step)))
    places = SeveralCode(tuple(map(writer.value, indices)))
    added = [KeywordCode("accumulate", LiteralCode("True"))] if given["accumulate"] else []
    name = str(step.target.overloadpacket.__name__)  # or, in place, index_put_
    parts = (places, writer.value(given["values"]), *added)
    return CallOfLibrary(MethodCode(writer.value(given["self"]), name, parts))


def _unfilled(writer: LibraryWriter, step: Extern) -> CallOfLibrary | None:
    given = writer.named(step)
    size, order = given["size"], list(given["physical_layout"])
    if order != sorted(order) or given.get("layout") not in (None, torch.strided):
        return None
    where = (name for name in ("dtype", "device") if given.get(name) is not None)
    said = [KeywordCode(name, writer.value(given[name])) for name in where]
    return CallOfLibrary(CallCode("torch.empty", (*(tuple(map(writer.value, size)) or (NO_CODE,)), *said)))


def _resized(writer: LibraryWriter, step: Extern) -> CallOfLibrary | None:
    """``F.interpolate(x, scale_factor=2.0, mode="nearest")``"""
    name, given = str(step.target.overloadpacket.__name__), writer.named(step)
    if step.target._overloadname != "vec":
        return None
    mode = name.removeprefix("upsample_").removesuffix("1d").removesuffix("2d").removesuffix("3d")
    wanted = "scale_factor" if given["output_size"] is None else "size"
    values = list(given["scale_factors"] if given["output_size"] is None else given["output_size"])
    is_one = len(values) > 1 and all(value == values[0] for value in values) and wanted == "scale_factor"
    said = {wanted: values[0] if is_one else tuple(values), "mode": mode}
    said |= {"align_corners": True} if given.get("align_corners") else {}
    parts = [KeywordCode(word, writer.value(value)) for word, value in said.items()]
    return functional("interpolate", [writer.value(given["input"]), *parts])


def _over_list(writer: LibraryWriter, step: Extern) -> CallOfLibrary:
    tensors = all_of_a_name([writer.variables[view.buffer] for view in step.args[0]], writer.variables)
    call = CallCode("torch._foreach_add_", (tensors, *map(writer.value, step.args[1:])))
    return CallOfLibrary(call, runtime="buffers_named" if isinstance(tensors, CallCode) else "")


_OPERATIONS = "add sub mul div eq ne lt le gt ge bitwise_and bitwise_or"
_SIGNS = "+ - * / == != < <= > >= & |"
_INFIX = dict(zip(_OPERATIONS.split(), _SIGNS.split(), strict=True))


def _operation(writer: LibraryWriter, step: Extern, infix: str) -> Code | None:
    """``gathered * 2``; None where the call says more than its two operands."""
    given = writer.named(step)
    others = {name: value for name, value in given.items() if name not in ("self", "other")}
    if len(given) - len(others) != 2 or not isinstance(given["self"], View):
        return None
    if any(value not in (None, 1) for value in others.values()):
        return None
    return InfixCode(writer.value(given["self"]), infix, writer.value(given["other"]))


def _is_public(name: str) -> bool:
    """Whether torch has a function of an op's name, made of the op's own schema."""
    return not name.startswith("_") and isinstance(getattr(torch, name, None), types.BuiltinFunctionType)


_UPSAMPLES = """
    upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d
    upsample_bicubic2d upsample_trilinear3d
"""
_SPECIAL: dict[str, Callable[[LibraryWriter, Extern], CallOfLibrary | None]] = {
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "embedding": _embedding,
    "scaled_dot_product_attention": _attention,
    "_scaled_dot_product_cudnn_attention": _attention,
    "_scaled_dot_product_cudnn_attention_backward": _attention,
    "contiguous": _contiguous,
    "index_put_": _index_put,
    "_foreach_add_": _over_list,
    "item": _item,
    "index_put": _new_values,
    "empty_permuted": _unfilled,
    **dict.fromkeys(_UPSAMPLES.split(), _resized),
}
