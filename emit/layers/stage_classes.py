"""The one class of layers of several lists that do the same in other widths: see schedule/layers/stage_classes.py."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from longhand.emit.layers.layer_methods import Method
from longhand.emit.layers.model_loops import LayerClass
from longhand.emit.module.model_weights import construct_block, construct_branch
from longhand.emit.module.module_tree import ModuleTree
from longhand.emit.module.paragraphs import PythonLine, statements_of
from longhand.emit.text.python_code import (
    Code,
    KeywordCode,
    LiteralCode,
    NameCode,
    PythonStatement,
    SeveralCode,
    whole_number,
)
from longhand.emit.text.quoting import python_docstring
from longhand.schedule.named_plan import (
    Loop,
    StageLayers,
    are_many,
    class_of_stages,
    layers_called,
    stages_alike,
)
from longhand.schedule.names.words import first_free, further_names, listed

_MOST_LISTED = 3  # lists that a docstring tells one by one


def share_classes(
    blocks: Sequence[tuple[Loop, LayerClass]], tree: ModuleTree
) -> list[tuple[Loop, LayerClass]]:
    """The classes of layers, those of several lists that are the same as one.

    Args:
        blocks: Each loop, and the class of its layers; of a backward pass their function.
        tree: The modules.
    """
    first = {block.name: loop for loop, block in reversed(blocks)}
    classes = {block.name: block for _, block in blocks}
    bases = {block.base for block in classes.values()}
    stages = {
        name: _stage(block, first[name], tree)
        for name, block in classes.items()
        if block.base and not (block.is_variant or name in bases or block.position)
    }
    shared: dict[str, LayerClass] = {}
    for group in stages_alike(stages):
        if _are_many([classes[name] for name in group]):
            continue
        made = _shared([classes[name] for name in group], [stages[name] for name in group], tree)
        given = {
            loop_path(loop): made.arguments[stages[block.name].path]
            for loop, block in blocks
            if block.name in group
        }
        shared |= dict.fromkeys(group, dataclasses.replace(made, arguments=given))
    return [(loop, shared.get(block.name, block)) for loop, block in blocks]


def with_layers_held(
    blocks: Sequence[tuple[Loop, LayerClass]], tree: ModuleTree
) -> list[tuple[Loop, LayerClass]]:
    """The classes, each saying which layers it makes that nobody calls: what these do stands elsewhere.

    Args:
        blocks: Each loop, and the class of its layers; a backward pass has functions, which hold nothing.
        tree: The modules.
    """
    called: dict[str, frozenset[int]] = {}
    for loop, _ in blocks:
        called[loop.owner] = called.get(loop.owner, frozenset()) | layers_called(loop)
    held: dict[str, list[str]] = {}
    for loop, block in blocks if called else ():
        if block.base and loop.owner not in [one.rpartition(".")[0] for one in held.get(block.name, [])]:
            made = construct_block(tree, loop_path(loop), block.position)
            places = [n for n, name in enumerate(tree.root.at(loop.owner).branches) if name == str(n)]
            paths = [f"{loop.owner}.{n}" for n in places if n not in called[loop.owner]]
            plain = [path for path in paths if not any(other.startswith(f"{path}.") for other in called)]
            alike = [path for path in plain if construct_block(tree, path, block.position) == made]
            held.setdefault(block.name, []).extend(alike)
    return [(loop, _saying_what_it_holds(block, held.get(block.name, []))) for loop, block in blocks]


def _saying_what_it_holds(block: LayerClass, paths: Sequence[str]) -> LayerClass:
    """``stages.2.blocks[0] to [5]; of [15] only the weights``"""
    if not paths:
        return block
    owners = [path.rpartition(".") for path in paths]
    told = listed(f"[{place}]" if owner in block.owner else f"{owner}[{place}]" for owner, _, place in owners)
    return dataclasses.replace(block, owner=f"{block.owner}; of {told} only the weights")


def loop_path(loop: Loop) -> str:
    """The first of a loop's layers."""
    return f"{loop.owner}.{loop.positions[0]}"


def _stage(block: LayerClass, loop: Loop, tree: ModuleTree) -> StageLayers:
    module = tree.root.at(loop_path(loop))
    methods = tuple(one.name for one in block.methods)
    work = tuple(_whatever_numbers(one).work for one in block.methods)
    return StageLayers(loop.owner, module, methods, block.numbers.words, work, loop.positions[0])


def _shared(blocks: Sequence[LayerClass], stages: Sequence[StageLayers], tree: ModuleTree) -> LayerClass:
    """The class of layers in several lists."""
    each = zip(*(block.methods for block in blocks), strict=True)
    numbers = _numbers(blocks)
    columns = dict(zip(_words_of(numbers), numbers.values(), strict=True))
    stated = [[method.stated for method in methods] for methods in each]
    stage_class = class_of_stages(stages, stated, columns)
    made = construct_branch(stage_class.module, tree)
    given = {place: f"self.{stage_class.given[word]}" for place, word in zip(numbers, columns, strict=True)}
    methods = [_given_numbers(one, number, given) for number, one in enumerate(blocks[0].methods)]
    return dataclasses.replace(
        blocks[0],
        owner=_owners_of(blocks, stages),
        base=made.base,
        base_arguments=made.base_arguments,
        members=tuple(made.members),
        methods=tuple(map(_with_attributes, methods, stage_class.told)),
        runtime_names=blocks[0].runtime_names | made.runtime_names,
        uses_nn=made.uses_nn,
        parameters=stage_class.parameters,
        attributes=tuple(f"self.{name} = {text}" for name, text in stage_class.attributes.items()),
        arguments={path: ", ".join(map(str, sizes)) for path, sizes in stage_class.arguments.items()},
    )


# Numbers that calls in functions of layers are given by name: ``padding=2``.

_Place = tuple[int, int, str]  # which function, which of its numbers, for which word


def _numbers(blocks: Sequence[LayerClass]) -> dict[_Place, tuple[int, ...]]:
    """The numbers in which layers differ: what they are for each list."""
    numbers: dict[_Place, tuple[int, ...]] = {}
    for function, methods in enumerate(zip(*(block.methods for block in blocks), strict=True)):
        for place, given in enumerate(zip(*map(_numbers_of, methods), strict=True)):
            column = tuple(number for _, number in given)
            if len(set(column)) > 1:
                numbers[function, place, given[0][0]] = column
    return numbers


def _are_many(blocks: Sequence[LayerClass]) -> bool:
    """Whether a class for all would be given so many numbers that several read better."""
    n_numbers = len(_numbers(blocks))
    each = [
        [method.stated for method in methods] for methods in zip(*(b.methods for b in blocks), strict=True)
    ]
    n_sizes = sum(len({of[word] for of in stated}) > 1 for stated in each for word in stated[0])
    return are_many(n_numbers, n_sizes)


def _words_of(numbers: Mapping[_Place, tuple[int, ...]]) -> list[str]:
    """A word for each: what calls name it, of several the second one's has a number."""
    words: list[str] = []
    for _, _, word in numbers:
        words.append(first_free(itertools.chain([word], further_names(word)), words))
    return words


def _numbers_of(method: Method) -> list[tuple[str, int]]:
    """(word, number) of all calls in a function, in order."""
    found: list[tuple[str, int]] = []

    def see(word: str, number: int) -> Code:
        found.append((word, number))
        return whole_number(number)

    for statement in method.statements:
        _with_numbers(statement, see)
    return found


def _whatever_numbers(method: Method) -> Method:
    """A function with one number in the place of all of them."""
    statements = (_with_numbers(one, lambda word, number: whole_number(0)) for one in method.statements)
    return dataclasses.replace(method, statements=tuple(statements))


def _given_numbers(method: Method, function: int, given: Mapping[_Place, str]) -> Method:
    """A function whose calls are given attributes of the layer. Two lines of one text may be given two of them."""
    places = itertools.count()

    def see(word: str, number: int) -> Code:
        attribute = given.get((function, next(places), word))
        return whole_number(number) if attribute is None else NameCode(attribute)

    def line(of: str) -> str:
        if not isinstance(of, PythonLine) or of.said is None:
            return of
        said = _with_numbers(of.said, see)
        return of if said == of.said else PythonLine.of(said, of.kind)

    if not given:
        return method
    paragraphs = tuple(
        dataclasses.replace(one, lines=tuple(map(line, one.lines))) for one in method.paragraphs
    )
    statements = tuple(said for one in paragraphs for said in statements_of(one.lines))
    return dataclasses.replace(method, paragraphs=paragraphs, statements=statements)


def _with_numbers(part: Any, see: Callable[[str, int], Code]) -> Any:
    """A statement, or a part of one, with other code in the place of numbers that calls are given by name."""
    if isinstance(part, KeywordCode):
        items = part.value.items if isinstance(part.value, SeveralCode) else (part.value,)
        digits = {one.literal if isinstance(one, LiteralCode) else "" for one in items}
        if len(digits) == 1 and (digit := digits.pop()).isdigit():
            own = see(part.word, int(digit))
            whole = part.value
            value = (
                SeveralCode((own,) * len(items), whole.brackets) if isinstance(whole, SeveralCode) else own
            )
            return dataclasses.replace(part, value=value)
    if isinstance(part, tuple):
        return tuple(_with_numbers(one, see) for one in part)
    if isinstance(part, Code | PythonStatement) and dataclasses.is_dataclass(part):
        fields = [one.name for one in dataclasses.fields(part) if one.init and one.compare]
        return dataclasses.replace(part, **{one: _with_numbers(getattr(part, one), see) for one in fields})
    return part


def _with_attributes(method: Method, told: Mapping[str, str]) -> Method:
    known = {word: f"self.{told[word]}" if word in told else size for word, size in method.stated.items()}
    return dataclasses.replace(method, bound=dataclasses.replace(method.bound, stated=known))


def _owners_of(blocks: Sequence[LayerClass], stages: Sequence[StageLayers]) -> str:
    """The lists; where it is the class of some of their layers, which ones: ``layer1[1] and [2]; layer2[1] to [3]``."""
    some = list(dict.fromkeys(block.owner for block in blocks))
    if any(block.owner != stage.owner for block, stage in zip(blocks, stages, strict=True)):
        return "; ".join(some if len(some) <= _MOST_LISTED else (some[0], f"and others to {some[-1]}"))
    return python_docstring(_owners([stage.owner for stage in stages]))


def _owners(owners: Sequence[str]) -> str:
    """``stages.0.blocks and stages.1.blocks``; of many the first and the last."""
    owners = list(dict.fromkeys(owners))
    return listed(owners) if len(owners) <= _MOST_LISTED else f"{owners[0]} to {owners[-1]}"
