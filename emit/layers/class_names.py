"""What a class of equal layers is called in model.py."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from longhand.schedule.names.words import identifier, singular

_ORDINALS = ("Other", "Third", "Fourth", "Fifth", "Sixth")


def free_name(name: str, taken: Sequence[str], owner: str, *, is_in_turn: bool) -> str:
    """A name for a class that none has yet, with what the user calls the part of the model that the list is of.

    ``Stage1Block`` of ``stages.1.blocks``; ``OtherBlock`` for the second kind of block in one list.
    """
    owned = "".join(singular(part)[:1].upper() + singular(part)[1:] for part in owner.split(".")[:-1])
    whose = [f"{identifier(owned)}{name}"] if owned and not is_in_turn else []
    ordinals = (f"{word}{name}" for word in _ORDINALS if is_in_turn and name in taken)
    longer = (f"{name}{'Layer' * count}" for count in itertools.count())
    return next(one for one in itertools.chain([name], whose, ordinals, longer) if one not in taken)
