"""The rules of a plan, and how a breach of one is told."""

from __future__ import annotations

import dataclasses
import enum

from longhand.lower.ir import Contraction, Extern, Load, Nest, Store
from longhand.schedule.plan import Launch, PlanStep, touched


class PlanRule(enum.Enum):
    """What holds of every plan, after every pass."""

    WRITTEN_FIRST = "every buffer is written before it is read"
    INSIDE = "every access is inside its buffer"
    MASKS_COVER = "masks cover what lies outside"
    ALIASES = "only aliases that may share memory do"
    DTYPES = "dtypes agree"
    PRODUCTS = "a contraction is one sum of products, told alike as loops and as a call"
    NAMES = "names of buffers, axes, sizes and kernels exist"


@dataclasses.dataclass(frozen=True)
class RuleBreach:
    """A breach of a rule: by which step, and how."""

    rule: PlanRule
    step: str
    what: str


def named(step: Nest | Contraction | PlanStep) -> str:
    """A step in words, for errors."""
    match step:
        case Nest():
            made = dict.fromkeys(value.buffer for value in step.body if isinstance(value, Store))
            read = dict.fromkeys(value.buffer for value in step.body if isinstance(value, Load))
            return f"the nest that makes {', '.join(made)} of {', '.join(read) or 'nothing'}"
        case Contraction():
            made = dict.fromkeys(value.buffer for value in step.body if isinstance(value, Store))
            return f"the contraction {step.call.target} that makes {', '.join(made)}"
        case Launch():
            return f"the launch for {', '.join(step.origins)} on {', '.join(step.touched)}"
        case Extern():
            return (
                f"the call of {step.target} that makes {', '.join(filter(None, step.outputs)) or 'nothing'}"
            )
    return f"{type(step).__name__} of {', '.join(touched(step))}"
