"""The rules that bring ATen calls into the canonical form that capture/functionalize/decompositions.py describes.

A rule is called with the rewriter, the op, its arguments and eager's fake result; it returns handles, or
NotImplemented to leave the call to the rewriter.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture.functionalize import foreach
from longhand.capture.functionalize.decompositions import ALIAS_IDENTITIES, CASTS, DROPOUTS, FRESH_IDENTITIES
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter, Rule
from longhand.capture.functionalize.gradient_tracking import GradientTracking
from longhand.capture.functionalize.view_nodes import seen
from longhand.capture.functionalize.views import VIEW_RULES
from longhand.capture.functionalize.writes import WRITE_RULES, bound
from longhand.options import Device

aten = torch.ops.aten


def _identity(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    return rewriter.same(args[0], args[0].fake if eager is None else eager)


def _fresh_identity(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    return rewriter.fresh(rewriter.read(args[0]), eager)


def _dropout(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    given = bound(target, args, kwargs)
    is_native = isinstance(eager, list | tuple)
    if given["train"] and (given["p"] != 0 or is_native):  # the native one draws numbers all the same
        return NotImplemented
    if is_native:  # (output, mask)
        ones = rewriter.call(aten.full_like.default, (args[0], True), {"dtype": torch.bool})
        return [rewriter.fresh(rewriter.read(args[0]), eager[0]), ones]
    return rewriter.same(args[0], eager)


def _cast(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    source: Proxy = args[0]
    if eager.dtype == source.fake.dtype and eager.device == source.fake.device:
        return rewriter.same(source, eager)
    changed: dict[str, Any] = {}
    if eager.dtype != source.fake.dtype:
        changed["dtype"] = eager.dtype
    if eager.device != source.fake.device:
        changed["device"] = eager.device
    return rewriter.fresh(rewriter.emit(aten._to_copy.default, (source,), changed, value=eager), eager)


def _softmax(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    whole = aten.softmax.int if target is aten._softmax.default else aten.log_softmax.int
    widened = (torch.float32,) if args[2] else ()
    return rewriter.keep(whole, (args[0], args[1], *widened), {}, eager)


def _native_layer_norm(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """(output, mean, rstd): the output as one layer_norm; the op itself stays for whoever reads the others."""
    whole = rewriter.keep(aten.layer_norm.default, tuple(args), {}, eager[0])
    return [whole, *rewriter.keep(target, args, kwargs, eager)[1:]]


def _native_group_norm(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    x, weight, bias, _, _, _, groups, eps = args
    whole = rewriter.keep(aten.group_norm.default, (x, groups, weight, bias, eps), {}, eager[0])
    return [whole, *rewriter.keep(target, args, kwargs, eager)[1:]]


def _eval_batch_norm(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    x, weight, bias, mean, var, momentum, eps = args
    whole = rewriter.keep(
        aten.batch_norm.default, (x, weight, bias, mean, var, False, momentum, eps, False), {}, eager[0]
    )
    return [whole, *rewriter.keep(target, args, kwargs, eager)[1:]]


def _batch_norm(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    given = bound(target, args, kwargs)
    if not given["training"]:
        return rewriter.keep(target, tuple(given.values()), {}, eager)
    if any(isinstance(size, int) and size == 0 for size in given["input"].fake.shape):
        return _batch_norm_of_nothing(rewriter, given)
    return _training_batch_norm(rewriter, given)[0]


def _batch_norm_of_nothing(rewriter: Rewriter, given: dict[str, Any]) -> Any:
    """As eager has it: nothing is counted, and the first weight and bias have gradients of zero."""
    result = rewriter.call(aten.clone.default, (given["input"],), {})
    for op, scale in ((aten.mul.Tensor, given["weight"]), (aten.add.Tensor, given["bias"])):
        if scale is not None:
            first = rewriter.call(aten.select.int, (scale, 0, 0), {})
            result = rewriter.call(op, (result, first), {})
    return result


def _native_batch_norm(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """What batch norm is below autocast; that it writes into the running statistics, its schema does not say."""
    given = bound(target, args, kwargs)
    if given["training"]:
        return list(_training_batch_norm(rewriter, given)[:3])
    plain = {**given, "cudnn_enabled": False}
    whole = rewriter.keep(aten.batch_norm.default, tuple(plain.values()), {}, eager[0])
    return [whole, *rewriter.keep(target, tuple(given.values()), {}, eager)[1:]]


def _legit_batch_norm(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    given = bound(target, args, kwargs)
    if not given["training"] or "running_mean" not in given:
        return NotImplemented
    return list(_training_batch_norm(rewriter, given)[:3])


def _updating_batch_norm(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """On the CPU it is batch norm in training, and keeps nothing besides."""
    given = bound(target, args, kwargs)
    if rewriter.device is not Device.CPU or given["running_mean"] is None:
        return NotImplemented
    made = list(_training_batch_norm(rewriter, {**given, "training": True})[:3])
    like = {"dtype": torch.uint8, "device": given["input"].fake.device}
    return [*made, rewriter.call(aten.empty.memory_format, ([0],), like)]


def _training_batch_norm(rewriter: Rewriter, given: dict[str, Any]) -> Any:
    """By the batch's own statistics: the results, those first; the running ones are written."""
    common = (given["input"], given["weight"], given["bias"])
    if given["running_mean"] is None:
        return _with_statistics(rewriter, aten._native_batch_norm_legit.no_stats, given, common, ())
    op = aten._native_batch_norm_legit_functional.default
    running = (given["running_mean"], given["running_var"])
    result = _with_statistics(rewriter, op, given, common, running)
    with contextlib.nullcontext() if rewriter.gradients is None else rewriter.gradients.stopped():
        for handle, new in zip(running, result[3:], strict=True):
            rewriter.write(handle, rewriter.read(new))
    return result


def _with_statistics(
    rewriter: Rewriter, op: Any, given: dict[str, Any], common: tuple[Any, ...], running: tuple[Any, ...]
) -> Any:
    """The call, with the types that its statistics really have: torch's fake ones are wrong in 16 bits.

    On CUDA they have 32 bits, on the CPU only beside weights or running statistics of 32.
    """
    args = (*common, *running, True, given["momentum"], given["eps"])
    y, *statistics = rewriter.evaluate(op, args, {})
    others = [handle.fake.dtype for handle in (*common[1:], *running) if handle is not None]
    is_wide = rewriter.device is Device.CUDA or torch.float32 in others
    saved = torch.float32 if is_wide and y.dtype.itemsize == 2 else y.dtype
    dtypes = [saved, saved, *(handle.fake.dtype for handle in running)]
    with rewriter.fake_mode:
        statistics = [value.to(dtype) for value, dtype in zip(statistics, dtypes, strict=True)]
    return rewriter.call(op, args, {}, [y, *statistics])


def _variance(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """Every form of var, std and their pairs with the mean as ``.correction``."""
    given = bound(target, args, kwargs)
    packet = getattr(aten, target._schema.name.split("::")[1])
    if "unbiased" in given:
        given["correction"] = 1 if given["unbiased"] else 0
    options = {"correction": given.get("correction")}
    if given.get("keepdim"):
        options["keepdim"] = True
    dims = given.get("dim")
    return rewriter.keep(
        packet.correction, (given["self"],) if dims is None else (given["self"], dims), options, eager
    )


def _arithmetic_identity(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """``x * 1``, ``x / 1``, ``x ** 1``; ``n + 0`` and ``n - 0`` of integers (of floats they turn -0 into 0)."""
    if kwargs or len(args) != 2 or not isinstance(args[0], Proxy) or type(args[1]) not in (int, float):
        return NotImplemented
    source: Proxy = args[0]
    additive = target._schema.name in ("aten::add", "aten::sub")
    if args[1] != (0 if additive else 1) or eager.dtype != source.fake.dtype:
        return NotImplemented
    if additive and (eager.dtype.is_floating_point or eager.dtype.is_complex):
        return NotImplemented
    return rewriter.fresh(rewriter.read(source), eager)


def _item(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """A number read from a tensor that Dynamo passes a Python float in: specialized on, with Dynamo's guard."""
    return float(eager) if isinstance(eager, torch.SymFloat) else eager


def _conjugate(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """Of a number, which derivatives write as if it were a tensor: another number; of a real tensor: itself."""
    if isinstance(args[0], Proxy) and not args[0].fake.is_complex():
        return _identity(rewriter, target, args, kwargs, eager)
    return args[0].conjugate() if isinstance(args[0], complex | float | int) else NotImplemented


def _add_product(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """``addcmul`` and ``addcdiv``: torch's decomposition is a fused multiply-add of its own kind."""
    given = bound(target, args, kwargs)
    parts = (given["self"], given["tensor1"], given["tensor2"])
    if not eager.dtype.is_floating_point and not eager.dtype.is_complex:
        # Eager cuts the factor to a whole number; torch's decomposition refuses one that is none.
        return rewriter.inlined(target, parts, {"value": int(given["value"])}, eager)
    if any(part.fake.dtype != eager.dtype for part in parts) or eager.dtype.is_complex:
        return NotImplemented
    combine = aten.mul.Tensor if "addcmul" in target._schema.name else aten.div.Tensor
    product = rewriter.call(combine, parts[1:], {})
    if given["value"] != 1:
        product = rewriter.call(aten.mul.Tensor, (product, given["value"]), {})
    return rewriter.call(aten.add.Tensor, (parts[0], product), {})


def _lerp(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """From the nearer end, as eager: it is exact at both."""
    given = bound(target, args, kwargs)
    start, end, weight = given["self"], given["end"], given["weight"]
    is_plain = isinstance(weight, float | int) and start.fake.dtype == end.fake.dtype == eager.dtype
    if not is_plain or not eager.dtype.is_floating_point:
        return NotImplemented
    way = rewriter.call(aten.sub.Tensor, (end, start), {})
    if weight < 0.5:
        return rewriter.call(aten.add.Tensor, (start, rewriter.call(aten.mul.Tensor, (way, weight), {})), {})
    return rewriter.call(aten.sub.Tensor, (end, rewriter.call(aten.mul.Tensor, (way, 1 - weight), {})), {})


def _hardsigmoid_backward(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """Eager's sixth has 24 bits, in float64, too: there it is eager's own call."""
    return rewriter.keep(target, args, kwargs, eager) if eager.dtype is torch.float64 else NotImplemented


def _converted(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """What torch's decompositions say for a cast: as the cast that it is, it has a derivative."""
    return rewriter.call(aten._to_copy.default, (args[0],), {"dtype": args[1]})


def _steps(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """linspace of integers is whole: ATen rounds its ends to the dtype; what it is made of does not."""
    if eager.dtype.is_floating_point or eager.dtype.is_complex:
        return NotImplemented
    return rewriter.keep(target, args, kwargs, eager)


def _cat(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """Joined with nothing (a part of no columns, a cache that is empty), a tensor is a copy of itself."""
    tensors: Any = bound(target, args, kwargs)["tensors"]
    full = [one for one in tensors if all(isinstance(size, int) and size for size in one.fake.shape)]
    empty = [one for one in tensors if any(isinstance(size, int) and not size for size in one.fake.shape)]
    if len(full) != 1 or len(full) + len(empty) < len(tensors) or full[0].fake.dtype != eager.dtype:
        return NotImplemented
    whole = rewriter.read(full[0])
    sources = [seen(rewriter.read(one)) for one in empty]
    if rewriter.gradients is not None and not _has_all_gradients(rewriter.gradients, whole, sources):
        return NotImplemented
    return rewriter.fresh(whole, eager)


def _has_all_gradients(gradients: GradientTracking, node: fx.Node, sources: Sequence[fx.Node]) -> bool:
    """Whether each of these that carries gradients has one (of zeros, if nothing else) through the node, too."""
    return all(source not in gradients or gradients.follows(node, source) for source in sources)


def _bernoulli(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """On a CPU, float64 probabilities are compared with numbers of 53 bits; torch's decomposition draws 24."""
    is_whole = (
        target is aten.bernoulli.default and eager.dtype is torch.float64 and eager.device.type == "cpu"
    )
    return rewriter.keep(target, args, kwargs, eager) if is_whole else NotImplemented


RULES: dict[str, Rule] = {
    **dict.fromkeys(ALIAS_IDENTITIES, _identity),
    **dict.fromkeys(FRESH_IDENTITIES, _fresh_identity),
    **dict.fromkeys(DROPOUTS, _dropout),
    **dict.fromkeys(CASTS, _cast),
    **VIEW_RULES,
    "_softmax": _softmax,
    "_log_softmax": _softmax,
    "native_layer_norm": _native_layer_norm,
    "native_group_norm": _native_group_norm,
    "_native_batch_norm_legit_no_training": _eval_batch_norm,
    "batch_norm": _batch_norm,
    "native_batch_norm": _native_batch_norm,
    "_native_batch_norm_legit": _legit_batch_norm,
    "_batch_norm_with_update": _updating_batch_norm,
    **dict.fromkeys(["var", "std", "var_mean", "std_mean"], _variance),
    **dict.fromkeys(["add", "sub", "mul", "div", "pow"], _arithmetic_identity),
    **dict.fromkeys(["_conj", "conj", "_conj_physical", "conj_physical"], _conjugate),
    **dict.fromkeys(["addcmul", "addcdiv"], _add_product),
    "bernoulli": _bernoulli,
    **dict.fromkeys(["cat", "concat", "concatenate"], _cat),
    "lerp": _lerp,
    "hardsigmoid_backward": _hardsigmoid_backward,
    "linspace": _steps,
    "item": _item,
    "_local_scalar_dense": _item,
    **foreach.RULES,
    **WRITE_RULES,
}


def _detach(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """A view of its argument, kept because it stops gradients."""
    return rewriter.keep(aten.detach.default, (args[0],), {}, eager)


def _drawn(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """Whole: its result carries gradients, which are zero; those of a comparison with random numbers would not."""
    return rewriter.keep(target, args, kwargs, eager)


# What they are made of has another derivative than they have where a function is cut: at 0, or at an end of its range.
# heaviside has none, and eager says so.
_CUT = ("heaviside", "logit", "renorm", "sinc", "special_entr", "special_xlog1py", "xlogy")


def _cut(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """Whole where gradients flow through it: the op's own derivative is the right one."""
    gradients = rewriter.gradients
    leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Proxy)]
    if gradients is None or gradients.is_stopped:
        return NotImplemented
    if any(rewriter.read(leaf) in gradients for leaf in leaves):
        return rewriter.keep(target, args, kwargs, eager)
    return NotImplemented


# In a graph that is to be differentiated.
TRAINING_RULES: dict[str, Rule] = {
    **dict.fromkeys(["detach", "detach_copy"], _detach),
    "bernoulli": _drawn,
    **dict.fromkeys(_CUT, _cut),
    "convert_element_type": _converted,
}
