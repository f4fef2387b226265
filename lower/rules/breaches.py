"""The rules that a program or a plan keeps, how a breach of one is told, and what they are checked against."""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
from collections.abc import Mapping, Set

import sympy
import torch

from longhand.lower.ir import Buffer, Contraction, Extern, Load, Nest, Step, Store


class PlanRule(enum.Enum):
    """What holds after every pass, of a program in the making and of every plan."""

    WRITTEN_FIRST = "every buffer is written before it is read"
    INSIDE = "every access is inside its buffer"
    MASKS_COVER = "masks cover what lies outside"
    ALIASES = "only aliases that may share memory do"
    ADDS = "what is added at positions that are data is added once, and seen when it is whole"
    DTYPES = "dtypes agree"
    PRODUCTS = "a contraction is one sum of products, told alike as loops and as a call"
    NAMES = "names of buffers, axes, sizes and kernels exist"


def is_verifying() -> bool:
    """Whether LONGHAND_VERIFY asks for it now."""
    return os.environ.get("LONGHAND_VERIFY", "") not in ("", "0")


@dataclasses.dataclass(frozen=True)
class RuleBreach:
    """A breach of a rule: by which step, and how."""

    rule: PlanRule
    step: str
    what: str


@dataclasses.dataclass(frozen=True, eq=False)
class Surroundings:
    """What steps may name.

    Attributes:
        buffers: By name.
        symbols: Of sizes, that some input has.
        kept: The buffers that the caller sees as results.
        mutated: The caller's buffers that the call may write.
    """

    buffers: Mapping[str, Buffer]
    symbols: Set[sympy.Symbol]
    kept: Set[str]
    mutated: Set[str]

    @functools.cached_property
    def dtypes(self) -> Mapping[str, torch.dtype]:
        """By buffer."""
        return {name: buffer.dtype for name, buffer in self.buffers.items()}


def step_words(step: Step) -> str:
    """A step in words, for errors."""
    match step:
        case Nest():
            made = dict.fromkeys(value.buffer for value in step.body if isinstance(value, Store))
            read = dict.fromkeys(value.buffer for value in step.body if isinstance(value, Load))
            return f"the nest that makes {', '.join(made)} of {', '.join(read) or 'nothing'}"
        case Contraction():
            made = dict.fromkeys(value.buffer for value in step.body if isinstance(value, Store))
            return f"the contraction {step.call.target} that makes {', '.join(made)}"
        case Extern():
            return (
                f"the call of {step.target} that makes {', '.join(filter(None, step.outputs)) or 'nothing'}"
            )
