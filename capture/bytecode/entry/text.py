"""The text of the function that runs instead of a captured frame, from its parts."""

from __future__ import annotations

import ast
import dataclasses
import re

__all__ = ["CLASSES_TEXT", "LEAVE", "STATE_TEXT", "HeldText", "entry_text", "parameter_name"]

LEAVE = "result.pop()(*result.pop())"
STATE_TEXT = "state() == STATE"
CLASSES_TEXT = "same_code(FUNCTIONS, CODES) and (same_tags(KINDS, TAGS) or recheck())"


def parameter_name(name: str) -> str:
    """What the entry calls an argument; a comprehension's is called ``.0``."""
    return "a_" + re.sub(r"\W", lambda match: f"_{ord(match[0])}_", name)


@dataclasses.dataclass(frozen=True)
class HeldText:
    """Guards that are remembered between calls, see capture/_held_paths.h.

    Attributes:
        roots: What their paths begin at, in the entry.
        parameters: What the function that walks them calls that.
        names: What their values are called.
        walk: Evaluates them: the tuple of these values, or None.
    """

    roots: str
    parameters: str
    names: tuple[str, ...]
    walk: str

    def function(self) -> str:
        """The function that walks the paths where they are not remembered."""
        lines = [f"def walked({self.parameters}):", f"    learnt = learn({self.parameters})"]
        lines += [f"    held = {self.walk}", "    if held is not None:", "        keep(learnt)"]
        return "\n".join([*lines, "    return held", ""])

    def lines(self) -> list[str]:
        """Takes the values out of what is remembered, else walks."""
        names = "".join(f"{name}, " for name in self.names)
        lines = [f"held = recall({self.roots})", "if held is None:", f"    held = walked({self.roots})"]
        lines.append("hit = held is not None")
        return [*lines, "if hit:", f"    {names}= held"] if names else lines


def entry_text(
    given: str,
    checks: list[str],
    loads: list[str],
    body: list[str],
    ending: tuple[str, str],
    held: HeldText | None = None,
) -> str:
    """The entry. The hook pauses in it: nothing that guards, graph or side effects call is captured.

    Args:
        given: The arguments.
        checks: Conditions: of the settings, of the guards, and of what `loads` loads.
        loads: Assignments.
        body: What runs when the conditions hold.
        ending: What it results in, and what is done with that outside.
        held: Guards that come before the second condition.
    """
    settings, guards, *more = checks
    lines = [f"def entry({given}):", "    paused = pause()", "    try:", f"        hit = {settings}"]
    if held is not None:
        lines += ["        if hit:", *(f"            {line}" for line in held.lines())]
    lines += ["        if hit:", f"            hit = {guards}"]
    if more:
        lines += ["        if hit:", *(f"            {load}" for load in loads)]
        lines.append(f"            hit = {' and '.join(more)}")
    lines += ["    except Exception:", "        hit = False", "    if not hit:", "        resume(paused)"]
    lines += [f"        return miss({given})", "    try:"]
    lines += [f"        {line}" for line in ([] if more else loads) + body]
    lines += [
        f"        result = {ending[0]}",
        "    finally:",
        "        resume(paused)",
        f"    return {ending[1]}",
    ]
    text = "\n".join(lines) + "\n"
    if ending[1] == LEAVE:
        # While the rest runs nothing here may hold what it works on: an exception that it keeps would keep all of that.
        stored = {
            node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name) and _is_stored(node)
        }
        names = sorted(stored.union(given.split(", ")) - {"result", "paused", "hit"})
        text = "".join(
            [*(line + "\n" for line in lines[:-1]), f"    {' = '.join(names)} = None\n", lines[-1], "\n"]
        )
    return text if held is None else f"{held.function()}\n\n{text}"


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)
