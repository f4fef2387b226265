"""What forward hooks keep of values that gradients flow through: a later gradient to one, or its own, is asked for.

All results of a graph are autograd's of one call: none of them leads to another. So a value that a hook keeps, and that
leads to what else leaves the graph, is an intermediate result only where the graph ends at the hook.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any

import torch
from torch import fx

from longhand.capture.autograd.leading_values import leading_to_others
from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.values.tracked import Cell, Dict, Func, New, Seq, Tensor, Value

__all__ = ["KeptByHooks", "KeptInGraph"]


class KeptInGraph(Exception):
    """Hooks keep values that lead to others that leave the graph.

    Args:
        codes: Of these hooks.
    """

    def __init__(self, codes: frozenset[CodeType]) -> None:
        super().__init__("forward hooks keep values that gradients flow through")
        self.codes = codes


class KeptByHooks:
    """What one capture knows of the forward hooks that run in it.

    Args:
        apart: Hooks at whose modules the graph ends.
    """

    def __init__(self, apart: frozenset[CodeType]) -> None:
        self._apart = apart
        self._codes: set[CodeType] = set()
        self._kept: dict[fx.Node, CodeType] = {}

    def meet(self, hooks: Iterable[Any]) -> None:
        """Notes the hooks of a module that is called.

        Raises:
            Unsupported: The graph ends at one of them.
        """
        if not torch.is_grad_enabled():
            return
        codes = {code for hook in hooks if (code := _code_of(hook)) is not None}
        if codes & self._apart:
            raise Unsupported(
                "a forward hook keeps a value that gradients flow through", "Keep what detach() gives of it."
            )
        self._codes |= codes

    def is_hook(self, code: CodeType) -> bool:
        """Whether a hook that was met runs this."""
        return code in self._codes

    def note(self, code: CodeType, before: Iterable[Tensor], after: Iterable[Tensor]) -> None:
        """What is kept after a hook's call and was not before it."""
        known = {tensor.node for tensor in before}
        self._kept.update({tensor.node: code for tensor in after if tensor.node not in known})

    def require_apart(self, outputs: Sequence[fx.Node]) -> None:
        """Looks at what leaves the graph.

        Raises:
            KeptInGraph: A hook keeps some of it that leads to other parts.
        """
        if codes := frozenset(self._kept[node] for node in leading_to_others(outputs) if node in self._kept):
            raise KeptInGraph(codes)


def tensors_among(values: Iterable[Value]) -> list[Tensor]:
    """The tensors that values hold, of what was looked at."""
    seen: set[int] = set()
    tensors: list[Tensor] = []
    waiting: list[Value | None] = list(values)
    while waiting:
        value = waiting.pop()
        if value is None or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, Seq):
            waiting += value.items
        elif isinstance(value, Dict):
            waiting += value.items.values()
        elif isinstance(value, New):
            waiting += [*value.attributes.values(), value.storage]
        elif isinstance(value, Cell):
            waiting.append(value.content)
        elif isinstance(value, Func):
            waiting += value.closure
    return tensors


def _code_of(hook: Any) -> CodeType | None:
    """The code that a call of a hook runs."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    hook = getattr(hook, "__func__", hook)
    code = getattr(hook, "__code__", None)
    if code is None:
        code = getattr(vars(type(hook)).get("__call__"), "__code__", None)
    return code if isinstance(code, CodeType) else None
