"""The text of the function that runs instead of a captured frame, from its parts."""

from __future__ import annotations

import ast
import re

__all__ = ["CLASSES_TEXT", "LEAVE", "STATE_TEXT", "entry_text", "parameter_name"]

LEAVE = "result.pop()(*result.pop())"
STATE_TEXT = "state() == STATE"
CLASSES_TEXT = "same_code(FUNCTIONS, CODES) and (same_tags(KINDS, TAGS) or recheck())"


def parameter_name(name: str) -> str:
    """What the entry calls an argument; a comprehension's is called ``.0``."""
    return "a_" + re.sub(r"\W", lambda found: f"_{ord(found[0])}_", name)


def entry_text(
    given: str, checks: list[str], loads: list[str], body: list[str], ending: tuple[str, str]
) -> str:
    """The entry. The hook pauses in it: nothing that guards, graph or side effects call is captured."""
    first, *more = checks
    lines = [f"def entry({given}):", "    paused = pause()", "    try:", f"        hit = {first}"]
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
    return text


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)
