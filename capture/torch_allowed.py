"""Which functions torch.compiler.allow_in_graph was told of, by private names of torch's Dynamo; see torch_private.py.

Dynamo is not imported for it: where nobody has, nothing was told.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["is_allowed_in_graph"]


def is_allowed_in_graph(function: Any) -> bool:
    """Whether a function is one call of the graph."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    return rules is not None and id(function) in rules._allowed_callable_ids
