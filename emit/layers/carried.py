"""What a loop begins with, under the names of what its layers hand on.

hidden_states = embedded
hidden_states, residual = normed, hidden_states
"""

from __future__ import annotations

from collections.abc import Sequence

from longhand.schedule.named_plan import first_word


def begin_carried(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """A line for each name and what it is first; one line for all where one's name is another's first value.

    Args:
        pairs: (name in the loop, variable before it).
    """
    moved = [(name, variable) for name, variable in pairs if name != variable]
    overwritten: set[str] = set()
    for name, variable in moved:
        if first_word(variable) in overwritten:
            names, variables = zip(*moved, strict=True)
            return [f"{', '.join(names)} = {', '.join(variables)}"]
        overwritten.add(name)
    return [f"{name} = {variable}" for name, variable in moved]
