"""What a class of equal layers is called in model.py."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping

from longhand.schedule.named_plan import Loop, class_of_place, ordinal_classes
from longhand.schedule.names.words import first_free, further_names, identifier, singular, snake_case

TakenNames = Mapping[str, str]  # of classes that are there already: the path of the list that has its layers


def free_name(name: str, taken: TakenNames, owner: str, *, is_in_turn: bool) -> str:
    """A name for a class that none has yet, with what the user calls the part of the model that the list is of.

    ``Stage1Block`` of ``stages.1.blocks``; ``OtherBlock`` for the second kind of block in one list.
    """
    is_other_kind = is_in_turn and taken.get(name) == owner
    owned = "".join(
        singular(part)[:1].upper() + singular(part)[1:] for part in whose(owner, taken.get(name, ""))
    )
    camel = "".join(word[:1].upper() + word[1:] for word in identifier(owned).split("_"))
    first = [f"{camel}{name}"] if owned and not is_other_kind else []
    placed = [] if is_other_kind else [f"{class_of_place(owner)}{name}"]
    further = (f"{word}{name}" for word in ordinal_classes())
    return next(one for one in itertools.chain([name], first, placed, further) if one not in taken)


def record_name(name: str, taken: Collection[str], owner: str = "") -> str:
    """``ConvNormActSaved``: of what the forward pass keeps for conv_norm_act_backward(), or for a layer or a model.

    Of another list's layers with the list: ``Layer1BlockSaved`` of ``layers.1.blocks``.
    """
    plain = name.replace("_backward", "")
    camel = "".join(word[:1].upper() + word[1:] for word in plain.split("_"))
    around = owner.rpartition(".")[0] or owner
    placed = [f"{class_of_place(one)}{camel}" for one in (around, owner) if one]
    placed += [f"{class_of_place(owner)}Layer{camel}"] if owner else []  # beside a record of one call there
    others = itertools.chain([camel], placed, (f"{word}{camel}" for word in ordinal_classes()))
    return next(f"{one}Saved" for one in others if f"{one}Saved" not in taken)


def function_of_layers(loop: Loop, taken: TakenNames) -> str:
    """``block_backward``; of another list's layers of that class, or of another kind, with whose they are."""
    name = f"{snake_case(loop.class_name)}_backward"
    if name in taken and taken[name] != loop.owner:
        parts = (identifier(singular(part)).lstrip("_") for part in whose(loop.owner, taken[name]))
        name = "_".join([*parts, name])
    elif name in taken and loop.is_in_turn:
        name = f"other_{name}"
    if name in taken:
        placed = f"{snake_case(class_of_place(loop.owner))}_{snake_case(loop.class_name)}_backward"
        name = first_free(itertools.chain([placed], further_names(placed)), taken)
    return name


def whose(owner: str, other: str) -> list[str]:
    """The parts of a list's path that tell it from another list: ``stages`` and ``1`` of ``stages.1.blocks``.

    A number that no word stands before, as of ``nn.Sequential``, is a module's.
    """
    mine, theirs = owner.split(".")[:-1], other.split(".")[:-1]
    apart = [place >= len(theirs) or theirs[place] != part for place, part in enumerate(mine)]
    is_place = [*(part.isdigit() for part in mine[1:]), False]  # of the part behind
    told = [part for place, part in enumerate(mine) if apart[place] or (is_place[place] and apart[place + 1])]
    told = told or mine
    return ["module", *told] if told and told[0].isdigit() else told
