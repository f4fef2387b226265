"""Every word that the generated files use, chosen once (schedule/names/naming.py) and only printed afterwards.

A pass is what it runs, in these words. The ledger says which kernel was given which words; it is kept in the lock,
so that a name once given stays.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections import Counter
from collections.abc import Mapping, Set
from typing import Any

from longhand.capture.graph import TrainingGraphs
from longhand.lower.ir import Load, arguments
from longhand.schedule.layers.model_steps import Loop, LoopKey, ModelStep
from longhand.schedule.layers.returned_gradients import ReturnedGradients
from longhand.schedule.layers.saved_layers import SavedLayers
from longhand.schedule.modules.held import HeldModules
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.dimensions.dimension_names import DimNamer
from longhand.schedule.names.words import KernelScope, first_free, further_names, is_word
from longhand.schedule.plan import Halves, KernelPlan, UnitPlan


def pointer_word(word: str) -> str:
    """What a Triton kernel calls the address of a tensor: ``x_ptr``, so that ``x`` is free for what is loaded."""
    return f"{word}_ptr"


@dataclasses.dataclass(frozen=True)
class AxisNames:
    """The words for one axis of a kernel.

    Attributes:
        index: The loop or lane variable: ``row``, ``col``, ``head``.
        size: The argument that holds its size: ``n_rows``, ``n_cols``, ``n_heads``.
    """

    index: str
    size: str


_LONGEST_QUOTE = (
    200  # of a longer statement a reader of a comment wants to know what it calls, not with all of what
)
_SHORT_QUOTE = 110
_LEFT_OUT = ", ..."


@functools.lru_cache(maxsize=4096)
def shortened(statement: str) -> str:
    """A statement as it is quoted: of a very long one, calls without their last arguments, ``F.batch_norm(x, ...)``.

    It names what a person finds in the source; the lock has all of it.
    """
    while len(statement) > _LONGEST_QUOTE and statement.isascii():
        try:
            tree = ast.parse(statement)
        except SyntaxError:  # the head of a compound statement
            break
        calls = (_given(node) for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno == 1)
        longest = max(
            (call for call in calls if len(call) > 2), key=lambda call: call[-1] - call[0], default=None
        )
        if longest is None or longest[-1] - longest[0] <= len(_LEFT_OUT) + 1:
            break
        *ends, stop = longest
        told = [end for end in ends[:-1] if len(statement) - (stop - end) + len(_LEFT_OUT) <= _SHORT_QUOTE]
        statement = f"{statement[: (told or ends)[-1 if told else 0]]}{_LEFT_OUT}{statement[stop:]}"
    return statement


def _given(call: ast.Call) -> list[int]:
    """Where the arguments of a call end, and then where the call does, before its bracket."""
    given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    return [*sorted(one.end_col_offset or 0 for one in given), (call.end_col_offset or 0) - 1]


@dataclasses.dataclass(frozen=True)
class Quote:
    """A statement of the user's, quoted in a comment: ``Attention.forward    out = q @ k.transpose(-2, -1)``.

    Attributes:
        qualname: The function that it stands in.
        statement: It.
        is_again: Whether a backward pass computes it once more, and differentiates nothing of it there.
        is_part: Whether that is but a part of it, which its derivative reads: an operand, with its factor.
        is_ahead: Whether a forward pass computes what only its derivative reads, and nothing of it there.
    """

    qualname: str
    statement: str
    is_again: bool = False
    is_ahead: bool = False
    is_part: bool = False

    @property
    def shown(self) -> str:
        """The statement as it is printed."""
        return shortened(self.statement)


@dataclasses.dataclass(frozen=True)
class KernelNames:
    """The words of one kernel file.

    Attributes:
        kernel: The kernel's and the file's name: ``add_layer_norm``.
        title: What it computes, in one sentence or formula, for the first line: ``the residual sum, normalized.``
        quotes: The user's statements that it does.
        pointers: By pointer key: ``x`` (in Triton as `pointer_word` has it).
        axes: By axis name.
        ints: By IntParameter name: ``qkv_stride``.
        scalars: By position of the ScalarParameter: ``eps``.
        values: By position in the body: values that get a line of their own, and its name. All others are written
            inside the expression that uses them.
        notes: Further lines for the docstring: what is read and written how often, what was fused.
        lists: By pointer key, for pointers that are `many`: the word of the list, ``params`` where the pointer's own
            is ``param``.
        constants: By position in the body: the user's names for numbers, ``BETA1``.
    """

    kernel: str
    title: str
    quotes: tuple[Quote, ...]
    pointers: Mapping[str, str]
    axes: Mapping[str, AxisNames]
    ints: Mapping[str, str]
    scalars: Mapping[int, str]
    values: Mapping[int, str]
    notes: tuple[str, ...] = ()
    lists: Mapping[str, str] = dataclasses.field(default_factory=dict)
    constants: Mapping[int, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class LayerNames:
    """The words of layers that are one function.

    Attributes:
        word: For all of them: ``blocks``.
        gradients: For the dictionary of their gradients: ``d_blocks``; layers in turn have one together.
        variables: By buffer of the pattern: its variable in the function; weights that a module holds are left out.
        record: Of a backward pass: what the layers saved for it, if that is a record.
        own: Of a backward pass: what only one layer of them reads.
        of_one: By place among the outputs: the word for one layer's, where the variable is a list of all layers'.
        twins: By the name of a buffer or a node: the one in another list's layers, whose words its sizes have.
        following: For the module that comes next, where layers end in it: ``norm``, as in ``norms`` and ``next_norm``.
    """

    word: str
    gradients: str
    variables: Mapping[str, str]
    record: SavedLayers | None = None
    own: Set[str] = frozenset()
    of_one: Mapping[int, str] = dataclasses.field(default_factory=dict)
    twins: Mapping[str, str] = dataclasses.field(default_factory=dict)
    following: str = ""


@dataclasses.dataclass(frozen=True)
class UnitNames:
    """The words of a whole unit.

    Attributes:
        kernels: By kernel key.
        buffers: The Python variable that holds each buffer in model.py: ``scores``, ``self.W_q.weight``.
        sizes: Python expressions for symbolic sizes and words for numbers: ``batch``.
        steps: The steps of model.py that `buffers` are the variables of, repeats arranged as loops.
        layers: By the key of each loop among the steps.
        numbers: By the word of kernels' arguments: the number that all of them are given, a constant of the file.
    """

    kernels: Mapping[str, KernelNames]
    buffers: Mapping[str, str]
    sizes: Mapping[str, str]
    steps: tuple[ModelStep, ...]
    layers: Mapping[LoopKey, LayerNames] = dataclasses.field(default_factory=dict)
    numbers: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def of_layers(self, loop: Loop) -> LayerNames:
        """The words of a loop's layers."""
        return self.layers[loop.key]


@dataclasses.dataclass(frozen=True)
class Ledger:
    """What the last version of a unit called things.

    Attributes:
        kernels: Names by canonical kernel key.
        statements: What its lock says of the user's statements: ``quotes``, and what was ``renamed`` since.
    """

    kernels: Mapping[str, KernelNames] = dataclasses.field(default_factory=dict)
    statements: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, sorted by the kernel's name."""
        entries = sorted(self.kernels.items(), key=lambda entry: entry[1].kernel)
        return {key: _to_json(names) for key, names in entries}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Ledger:
        """What `to_json` wrote; entries that are damaged are left out (their names are then given anew)."""
        kernels = {}
        for key, entry in data.items():
            try:
                kernels[key] = _from_json(entry)
            except (KeyError, TypeError, ValueError, AttributeError):
                continue
        return Ledger(kernels)


_ANYTHING = KernelScope(())


def is_name(word: Any) -> bool:
    """Whether a kernel's file may call something so."""
    return is_word(word) and _ANYTHING.is_free(word)


def _to_json(names: KernelNames) -> dict[str, Any]:
    lists = {"lists": [list(entry) for entry in names.lists.items()]} if names.lists else {}
    constants = {str(position): word for position, word in names.constants.items()}
    return {
        **lists,
        **({"constants": constants} if constants else {}),
        "kernel": names.kernel,
        "title": names.title,
        "quotes": [[quote.qualname, quote.statement] for quote in names.quotes],
        # Lists, for the order: a buffer that the user's code now calls otherwise keeps its word by its place.
        "pointers": [list(entry) for entry in names.pointers.items()],
        "axes": [[axis, words.index, words.size] for axis, words in names.axes.items()],
        "ints": [list(entry) for entry in names.ints.items()],
        "scalars": {str(position): word for position, word in names.scalars.items()},
        "values": {str(position): word for position, word in names.values.items()},
        "notes": list(names.notes),
    }


def _from_json(entry: Mapping[str, Any]) -> KernelNames:
    """The names of a kernel.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: It is not what `_to_json` wrote; what would be printed as a
            name is no name.
    """
    parsed = KernelNames(
        kernel=str(entry["kernel"]),
        title=str(entry["title"]),
        quotes=tuple(Quote(qualname, statement) for qualname, statement in entry["quotes"]),
        pointers=dict(entry["pointers"]),
        axes={axis: AxisNames(index, size) for axis, index, size in entry["axes"]},
        ints=dict(entry["ints"]),
        scalars={int(position): str(word) for position, word in entry["scalars"].items()},
        values={int(position): str(word) for position, word in entry["values"].items()},
        notes=tuple(entry["notes"]),
        lists=dict(entry.get("lists", ())),
        constants={int(position): str(word) for position, word in entry.get("constants", {}).items()},
    )
    axes = [word for names in parsed.axes.values() for word in (names.index, names.size)]
    tables = (parsed.pointers, parsed.ints, parsed.scalars, parsed.values, parsed.lists)
    words = [parsed.kernel, *axes, *(word for table in tables for word in table.values())]
    texts = [text for quote in parsed.quotes for text in (quote.qualname, quote.statement)]
    if not all(map(is_name, words)) or not all(map(is_word, parsed.constants.values())):
        raise ValueError(f"{parsed.kernel!r} has words that are no names")
    if not all(isinstance(text, str) for text in (*texts, *parsed.notes)):
        raise TypeError(f"{parsed.kernel!r} has texts that are none")
    return parsed


@dataclasses.dataclass(frozen=True, eq=False)
class NamedPlan:
    """One pass: what it runs, in which words.

    Attributes:
        plan: What it runs.
        names: What is printed.
        words: Words for the captured graph's values.
        dims: Words for their dimensions.
        modules: What its module holds.
    """

    plan: UnitPlan
    names: UnitNames
    words: BufferNamer
    dims: DimNamer
    modules: HeldModules = dataclasses.field(default_factory=HeldModules)


def kernels_of(passes: list[NamedPlan]) -> dict[str, tuple[KernelPlan, NamedPlan]]:
    """Every kernel of the unit, by key, with the first pass that launches it."""
    kernels: dict[str, tuple[KernelPlan, NamedPlan]] = {}
    for one in passes:
        for key, kernel in one.plan.kernels.items():
            known, first = kernels.get(key, (kernel, one))
            kernels[key] = (known | kernel, first)  # both passes call one file
    return kernels


@dataclasses.dataclass(frozen=True, eq=False)
class NamedUnit:
    """A unit's passes in their words: all that its files say is decided.

    Attributes:
        passes: The forward pass, and in training the backward pass.
        training: In training: both graphs, as they were captured.
        records: In training: what the layers of each list save for the backward pass.
        gradients: In training: what the backward pass returns.
    """

    passes: tuple[NamedPlan, ...]
    training: TrainingGraphs | None = None
    records: tuple[SavedLayers, ...] = ()
    gradients: ReturnedGradients | None = None


_SIDES = ("first", "second")


def as_printed(plan: KernelPlan, names: KernelNames) -> tuple[KernelPlan, KernelNames]:
    """The kernel as its text has it, and the words for that; both as they are where rows are not walked by halves."""
    halves = plan.halves
    if halves is None:
        return plan, names
    scalars = {old: new for new, old in enumerate(halves.sources) if old in names.scalars}
    printed = dataclasses.replace(
        plan,
        axes=(*plan.axes[:-1], dataclasses.replace(plan.axes[-1], end=halves.limit)),
        body=halves.body,
        addresses=halves.addresses,
        scalars=tuple(
            dataclasses.replace(scalar, position=scalars[scalar.position])
            for scalar in plan.scalars
            if scalar.position in scalars
        ),
        padding={},
        numerics=halves.numerics,
        halves=None,
    )
    words = dataclasses.replace(
        names,
        scalars={scalars[old]: word for old, word in names.scalars.items() if old in scalars},
        values=_values(halves, names),
        constants={
            new: names.constants[old] for new, old in enumerate(halves.sources) if old in names.constants
        },
    )
    return printed, words


def _values(halves: Halves, names: KernelNames) -> dict[int, str]:
    """A word for each value that has one in the whole row, and for what both halves are made of."""
    taken = {*names.pointers.values(), *names.ints.values(), *names.scalars.values()} - set(
        names.values.values()
    )
    uses = Counter(argument for value in halves.body for argument in arguments(value))
    words: dict[int, str] = {}
    for position, (source, side) in enumerate(zip(halves.sources, halves.sides, strict=True)):
        value = halves.body[position]
        if source not in names.values and not (isinstance(value, Load) and uses[position] > 1):
            continue
        used = {*taken, *words.values()}
        if isinstance(value, Load) and (side is not None or source not in names.values):
            word = names.pointers[value.buffer]
            # In C++ a tensor's word is its pointer's: what is loaded from it, for both halves at once, has another.
            used -= {word} if side is not None else set()
        else:
            word = names.values[source]
            used -= {word} if isinstance(value, Load) else set()
        wanted = word if side is None else f"{_SIDES[side]}_{word}"
        words[position] = first_free((wanted, *_more(wanted, used)), used)
    return words


def _more(word: str, used: set[str]) -> list[str]:
    """Further words, should the plain one be taken."""
    words = further_names(word)
    return [next(words) for _ in range(len(used) + 1)]
