"""The table from a function to what a call of it does to tracked values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.tracked import Value

__all__ = ["Rule", "Rules"]

Rule = Callable[[Trace, list[Value], dict[str, Value]], Value]


class Rules(dict[Any, Rule]):
    """What calls of functions do, by the functions."""

    def of(self, *functions: Any) -> Callable[[Any], Any]:
        """Registers a rule for these functions."""

        def register(rule: Any) -> Any:
            self.update(dict.fromkeys(functions, rule))
            return rule

        return register
