"""The functions that parts of derivatives have become: which of them does what a further part does.

Two do the same, whatever they call things, and whenever they drop what they made: the one that drops it first stands
for both. Where sizes differ, the function reads them all from the shapes of what it is given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from longhand.emit.layers.equal_functions import Drops, as_any_names
from longhand.emit.layers.layer_methods import Method
from longhand.emit.layers.shared_functions import SharedFunction


@dataclasses.dataclass(frozen=True)
class _FormOfPart:
    """A function in one of its forms: what it does, when it drops what, and its text."""

    does: object
    drops: Drops
    method: Method

    @classmethod
    def of(cls, method: Method) -> _FormOfPart:
        does, drops = as_any_names(method)
        return cls(does, drops, method)

    def joined(self, other: _FormOfPart) -> _FormOfPart | None:
        """The one that stands for both; None where neither does."""
        if self.does != other.does:
            return None
        if _covers(self.drops, other.drops):
            return self
        return other if _covers(other.drops, self.drops) else None


class PartFunctions:
    """All of a file's, by name."""

    def __init__(self) -> None:
        self._forms: dict[str, tuple[_FormOfPart, ...]] = {}
        self.functions: dict[str, SharedFunction] = {}

    def known(self, method: Method, general: Callable[[], Method] | None) -> str:
        """The function that does the same already, or nothing.

        Args:
            method: The part, in words for its own sizes.
            general: It, with sizes that are read from what it is given; None where no other part is like it.
        """
        wanted = _FormOfPart.of(method)
        for name, forms in self._forms.items():
            joined = forms[0].joined(wanted)
            if joined is not None:
                self._set(name, (joined, *forms[1:]))
                return name
        if general is None:
            return ""
        wanted = _FormOfPart.of(general())
        for name, forms in self._forms.items():
            joined = forms[-1].joined(wanted)
            if joined is not None:
                self._set(name, (joined,))
                return name
        return ""

    def add(self, name: str, method: Method, general: Callable[[], Method] | None) -> None:
        """A new one, that says nothing of itself yet."""
        forms = (method, *([general()] if general is not None else []))
        self._forms[name] = tuple(map(_FormOfPart.of, forms))
        self.functions[name] = SharedFunction(
            name, "", method.parameters, method.bound, method.paragraphs
        )

    def prefer(self, name: str, method: Method) -> None:
        """Takes this text of a known function, unless it would be another by its sizes or by when it drops what."""
        form, (first, *others) = _FormOfPart.of(method), self._forms[name]
        if (form.does, form.drops) == (first.does, first.drops):
            self._set(name, (form, *others))

    def say(self, name: str, remark: str) -> None:
        """Its docstring."""
        self.functions[name] = dataclasses.replace(self.functions[name], remark=remark)

    def _set(self, name: str, forms: tuple[_FormOfPart, ...]) -> None:
        self._forms[name], method = forms, forms[0].method
        self.functions[name] = dataclasses.replace(
            self.functions[name],
            parameters=method.parameters,
            bound=method.bound,
            paragraphs=method.paragraphs,
        )


def _covers(one: Mapping[object, tuple[int, ...]], other: Mapping[object, tuple[int, ...]]) -> bool:
    """Whether all that one function drops another drops as early."""
    return all(
        name in one and (one[name] == places or (len(places) == len(one[name]) == 1 and one[name] <= places))
        for name, places in other.items()
    )
