"""What a module makes is not called as the module is: ``normed`` and ``o_proj_out``, not ``norm1`` and ``o_proj``.

In a function the module's own name would be read as the module, and a gradient by it as that of its parameters. Where
the user has a local of that name, it is theirs.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator

from torch import fx

from longhand.schedule.names.value_origins import ValueOrigins, is_call_of, last_word
from longhand.schedule.names.words import GradientWord, identifier, reworded, snake_case

_NORM = re.compile(r"norm|(^|_)(ln|bn)(_|\d|$)")


def names_of_modules(paths: Iterable[str]) -> frozenset[str]:
    """The names under which modules are held, as words.

    Args:
        paths: Of the modules.
    """
    parts = {part for path in set(paths) for part in path.split(".") if part and not part.isdigit()}
    return frozenset(word for part in parts for word in (identifier(part), snake_case(identifier(part))))


def of_value(word: str, modules: Container[str], own: Container[str]) -> Iterator[str]:
    """The words for what a module makes, where a word is the module's; else the word.

    Args:
        word: Of a value, or of a value's gradient.
        modules: The names of modules.
        own: The user's locals.
    """
    of = word.of if isinstance(word, GradientWord) else word
    if of not in modules or of in own:
        yield word
        return
    if _NORM.search(of):
        yield reworded(word, lambda _: "normed")
    yield reworded(word, lambda name: f"{name}_out")


def words_of_further_call(origins: ValueOrigins, node: fx.Node) -> Iterator[str]:
    """For what a statement makes that has run before: ``block_out`` of a block's last, ``bn2_relu`` of another one.

    Args:
        origins: Where values come from.
        node: The value.
    """
    origin = origins.of(node)
    if not origin.local or not origins.turn(node):
        return
    is_call = is_call_of(origin.statement, origin.module)
    around = origin.module.rpartition(".")[0] if is_call else origin.module
    kind = dict(origin.around).get(around, "")
    users = [user for user in node.users if user.op != "output"]
    if around and kind and not any(_is_inside(origins.of(user).module, around) for user in users):
        yield f"{snake_case(kind).rpartition('_')[2]}_out"
    own = last_word(origin.module) if is_call else None
    given = next((one for one in node.all_input_nodes if one.op == "call_function"), None)
    of_given = last_word(origins.of(given).module) if given is not None and own else None
    if given is not None and own and of_given and of_given != own:
        yield f"{identifier(of_given)}_{identifier(own)}"


def _is_inside(module: str, around: str) -> bool:
    return f"{module}.".startswith(f"{around}.")
