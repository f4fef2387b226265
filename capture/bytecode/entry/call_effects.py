"""What a call of a graph does besides computing: it writes into an argument, or takes random numbers."""

from __future__ import annotations

import inspect
import re
import types
from typing import Any

import torch
from torch import fx

_DRAWS = re.compile(
    r"(alpha_|feature_|feature_alpha_)?dropout[123]?d?_?|rand(n|int|perm)?(_like)?|bernoulli_?|normal_?|multinomial"
    r"|poisson|binomial|uniform_|exponential_|cauchy_|geometric_|log_normal_|random_|rrelu_?|gumbel_softmax"
    r"|scaled_dot_product_attention|multi_head_attention_forward|native_dropout|rnn_\w+|lstm|gru|fractional_\w+"
)


def name_of(target: Any) -> str:
    """A function's name; a method's is given as it is."""
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))


def mutates(node: fx.Node) -> bool:
    """Whether a call writes into one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    if schema is not None:
        return bool(schema.is_mutable)
    name = name_of(node.target)
    if node.kwargs.get("out") is not None or statistics_written(node.target, node.args, node.kwargs):
        return True
    is_operator = getattr(node.target, "__module__", "") == "_operator" and name.startswith("i")
    return is_operator or name in ("setitem", "__setitem__") or (name.endswith("_") and name[-2:] != "__")


def statistics_written(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The running statistics that a batch norm in training writes: PyTorch does not count these writes."""
    if not name_of(target).endswith("batch_norm"):
        return []
    given = dict(zip(_parameters(target), args, strict=False)) | kwargs
    if not given.get("training"):
        return []
    statistics = (given.get("running_mean"), given.get("running_var"))
    return [tensor for tensor in statistics if tensor is not None]


def _parameters(target: Any) -> list[str]:
    if isinstance(target, types.FunctionType):
        return list(inspect.signature(target).parameters)
    packet = getattr(torch.ops.aten, name_of(target).partition(".")[0])
    return [argument.name for argument in packet.default._schema.arguments]


def draws(node: fx.Node) -> bool:
    """Whether a call may take random numbers."""
    is_custom = isinstance(node.target, torch._ops.OpOverload | torch._ops.OpOverloadPacket)
    return node.op.startswith("call") and (is_custom or bool(_DRAWS.fullmatch(name_of(node.target))))


def random_state(devices: tuple[torch.device, ...]) -> list[tuple[torch.Generator, torch.Tensor]]:
    """The default generators of some devices as they are now."""
    generators = [
        torch.cuda.default_generators[device.index or 0] if device.type == "cuda" else torch.default_generator
        for device in devices
    ]
    return [(generator, generator.get_state()) for generator in generators]


def restore_random_state(state: list[tuple[torch.Generator, torch.Tensor]]) -> None:
    """Makes random_state() come true again."""
    for generator, known in state:
        generator.set_state(known)
