"""Where a tracked value came from: a path of attribute and item steps from an argument of the frame."""

from __future__ import annotations

import dataclasses

__all__ = ["Source", "attribute", "is_default", "item", "root"]


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """A Python expression that finds the value again in a later call.

    Attributes:
        base: Where the path comes from; None at its root.
        step: The last step as Python text with `{}` for the base; at a root the expression itself.
        name: How the path reads for people and for names: ``L['self']._modules['q']``.
    """

    base: Source | None
    step: str
    name: str

    @property
    def is_buffer(self) -> bool:
        """Whether a module holds the value as its buffer."""
        return self.base is not None and self.base.step.endswith("._buffers")

    def expression(self) -> str:
        """The whole path as one expression."""
        return self.step if self.base is None else self.step.format(self.base.expression())

    def then(self, step: str, name: str | None = None) -> Source:
        """One step further; `{}` in `step` (and `name`) stands for the path so far."""
        return Source(self, step, (name or step).format(self.name))


def root(expression: str, name: str) -> Source:
    """A path's start: a name of the generated check."""
    return Source(None, expression, name)


def attribute(base: Source, name: str) -> Source:
    """``base.name``."""
    return base.then("{}." + name)


def item(base: Source, key: object) -> Source:
    """``base[key]`` for a key that prints as itself."""
    text = repr(key).replace("{", "{{").replace("}", "}}")
    return base.then("{}[" + text + "]")


def is_default(source: Source) -> bool:
    """Whether a function holds the value as the default of a parameter."""
    return source.base is not None and source.base.step in ("{}.__defaults__", "{}.__kwdefaults__")
