"""The words for sizes that a function binds in its first lines."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.emit.text.python_code import PythonStatement

_WIDEST = 90  # of a line that says what words stand for


@dataclasses.dataclass(frozen=True)
class BoundSizes:
    """The words that a function binds: to what shapes tell, what others stand for, and what padded ones do."""

    told: tuple[PythonStatement, ...]
    stated: Mapping[str, int | str]
    padding: tuple[PythonStatement, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """``dim, vocab_size = 64, 99``, and the other lines around it."""
        lines, words = [str(line) for line in self.told], list(self.stated)
        while words:
            some = (words[:n] for n in range(len(words), 0, -1))
            few = next(one for one in some if len(one) == 1 or len(self._line(one)) <= _WIDEST)
            lines.append(self._line(few))
            words = words[len(few) :]
        return (*lines, *map(str, self.padding))

    def _line(self, words: Sequence[str]) -> str:
        return f"{', '.join(words)} = {', '.join(str(self.stated[word]) for word in words)}"
