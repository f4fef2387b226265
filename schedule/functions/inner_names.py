"""The words of a function that several modules share: its own name's parts, its module's, and those of its variables.

``key_states = self.k_proj(current_states)`` tells what the projection reads: parameters are called as in the user's
function, not as the first one's caller has them; a local of one module's name loses that.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Container, Iterator, Mapping, Sequence

from longhand.lower.ir import Extern
from longhand.schedule.functions.alike_calls import CallsAlike, CallSite
from longhand.schedule.functions.alike_steps import AlikeSteps, SiteSteps
from longhand.schedule.functions.long_functions import ModuleDerivative
from longhand.schedule.functions.repeated_launches import LINKS, LaunchWords, is_in_place, word_of_last_launch
from longhand.schedule.layers.model_steps import ModelStep
from longhand.schedule.layers.outside import references
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.module_names import names_of_places
from longhand.schedule.names.reached import entry_of
from longhand.schedule.names.shared.forward_parameters import users_of, words_of_forward
from longhand.schedule.names.shared.place_words import attribute_of, without_parts, without_place
from longhand.schedule.names.shared.words_inside import Place, WordsInside
from longhand.schedule.names.view_names import named_views, view_key
from longhand.schedule.names.words import (
    OWN_WORDS,
    RESERVED_IN_MODULE,
    GradientWord,
    first_free,
    further_names,
    identifier,
    listed,
    singular,
    snake_case,
)
from longhand.schedule.plan import Allocate, Launch, PlanStep, Release, Reuse, buffers_read

_WIDEST = 100  # of a docstring
_IN_LIST = re.compile(r"(.+?)\[(\d+)\]([^\[]*)")


def remark_on(alike: CallsAlike, is_backward: bool = False) -> str:
    """``What MgpstrA3Module does: char_a3_module, bpe_a3_module and wp_a3_module.``, as far as a line goes.

    Of what is fused with its neighbours, the rest is done there: ``Part of MgpstrA3Module``. How many modules there
    are goes unsaid where a line cannot tell all: one call may stand in a loop over many.
    """
    paths = list(dict.fromkeys(map(_reached, alike.sites)))
    end = ".".join(paths[0].rsplit(".", 2)[-2:])
    wheres = [f": {listed(paths)}", *_span(paths)]
    wheres += [f": {paths[0]} and others", ", in several places"] if len(paths) > 1 else [f": {end}"]
    whole, part = f"What {alike.class_name} does", f"Part of {alike.class_name}"
    if is_backward:
        whole, part = (f"{head} derivative of {alike.class_name}" for head in ("The", "Part of the"))
    said = whole if alike.is_whole else part
    texts = [f"{said}{where}." for where in wheres]
    return next((text for text in texts if len(text) <= _WIDEST), texts[-1])


def _span(paths: Sequence[str]) -> list[str]:
    """``: blocks[2].attn to [9].attn``, if it is all of these that are meant."""
    found = [_IN_LIST.fullmatch(path) for path in paths]
    parts = [one.groups() for one in found if one is not None]
    if len(parts) < len(paths) or len({(owner, rest) for owner, _, rest in parts}) > 1:
        return []
    places = [int(place) for _, place, _ in parts]
    if places != list(range(places[0], places[0] + len(places))):
        return []
    return [f": {paths[0]} to [{places[-1]}]{parts[0][2]}"]


def _reached(site: CallSite) -> str:
    """``blocks[3].attn`` of blocks.3.attn; ``blocks[i].attn`` in what all blocks do."""
    owner, _, position = site.root.rpartition(".")
    path = f"{owner}.[i]{site.path.removeprefix(site.root)}" if position.isdigit() else site.path
    parts = (
        f"[{part}]" if part.isdigit() else part if part == "[i]" else f".{part}" for part in path.split(".")
    )
    return "".join(parts).removeprefix(".")


def words_for_module(alike: CallsAlike) -> Iterator[str]:
    """What a function may call the module that it is given: by its attribute, or its list, or its class."""
    lasts = {attribute_of(site.path) for site in alike.sites}
    if len(lasts) == 1 and not lasts & RESERVED_IN_MODULE:
        yield from lasts
    own = snake_case(alike.class_name)
    noun = own.rpartition("_")[2]
    yield from (word for word in (noun, "module") if word not in (own, *RESERVED_IN_MODULE))
    yield from further_names("module")


class FunctionNames:
    """Names for functions.

    Args:
        kernels: The words of kernels, by the plan's key.
        ending: Of the names.
    """

    def __init__(self, kernels: Mapping[str, LaunchWords], ending: str) -> None:
        self._names = {key: one.kernel for key, one in kernels.items()}
        self._ending = ending
        self._kernels: dict[str, tuple[str, ...]] = {}  # by function: the words of those that it launches
        self._parts: dict[str, tuple[str, ...]] = {}  # by function: what it reads of its module
        self._ends: dict[str, str] = {}  # by function: the word for what it computes last

    def of(self, alike: CallsAlike, site: SiteSteps, module: str, taken: Collection[str]) -> str:
        """The class's name, with a word for what the function reads, or does, and earlier ones do not.

        That of one launch is called as the kernel.
        """
        if alike.is_launch:
            name = f"{alike.class_name}{'_in_place' * is_in_place(site)}"
            return first_free(itertools.chain((name, f"{name}_of_{module}"), further_names(name)), taken)
        word = f"{snake_case(alike.class_name)}{self._ending}"
        plain = f"{word}_" if word in RESERVED_IN_MODULE else word  # of a class called Lambda, say
        words = _kernel_names(site, self._names)
        known = {word for other, of in self._kernels.items() if other.startswith(plain) for word in of}
        end = word_of_last_launch(site, self._names, plain)
        alike_ends = {of for other, of in self._ends.items() if other.startswith(plain)}
        by_end = [f"{plain}_{end}"] if end and end not in alike_ends else []
        own = (f"{plain}_{word}" for word in words if word not in known)
        parts = tuple(dict.fromkeys(path.partition(".")[0] for path in site.weights.values()))
        others = [of for other, of in self._parts.items() if other.startswith(plain)]
        told_by = (f"{plain}_{word}" for word in words_for_parts(parts, others))
        # Of one of several in a list: its function is no other's.
        position = alike.sites[0].path.rpartition(".")[2]
        is_nth = len(alike.sites) == 1 and position.isdigit()
        nth = [f"{snake_case(alike.class_name)}_{position}{self._ending}"] * is_nth
        own_ending = self._ending or "_forward"  # where the module's variable has the word
        places = [*names_of_places([one.path for one in alike.sites])]
        placed = (f"{one}{ending}" for ending in (self._ending, own_ending) for one in places)
        name = first_free(
            itertools.chain(nth, [plain], told_by, by_end, own, placed, further_names(plain)), taken
        )
        self._kernels[name], self._parts[name], self._ends[name] = words, parts, end
        return name


def _kernel_names(site: SiteSteps, names: Mapping[str, str]) -> tuple[str, ...]:
    """The words in the names of the kernels that a function launches itself.

    Args:
        site: Its steps.
        names: The kernels', by the plan's key.
    """
    inside = {n for place, call in site.calls.items() for n in range(place, place + call.n_steps)}
    called = [
        names[step.kernel]
        for place, step in enumerate(site.steps)
        if isinstance(step, Launch) and place not in inside
    ]
    words = (word for name in called for word in name.split("_"))
    return tuple(dict.fromkeys(word for word in words if len(word) > 1 and word not in LINKS))


def words_for_parts(parts: Collection[str], others: Sequence[Collection[str]]) -> Iterator[str]:
    """What a function is told by: a part of its module that earlier ones of the class do not read, or all of them do.

    Args:
        parts: The names of what it reads of its module.
        others: Those of earlier functions.
    """
    of_any = dict.fromkeys(name for other in others for name in other)
    of_all = [name for name in of_any if all(name in other for other in others)]
    yield from (f"with_{snake_case(name)}" for name in parts if name not in of_any and others)
    yield from (f"without_{snake_case(name)}" for name in of_all if name not in parts)


def variables_of(
    alike: AlikeSteps,
    variables: Sequence[Mapping[str, str]],
    words: BufferNamer,
    module: str,
    paths: Sequence[str],
) -> dict[str, str]:
    """What the function calls everything in the first module's steps.

    Args:
        alike: What it does.
        variables: For each module what its buffers are called around it.
        words: The captured graph's.
        module: What it calls the module that it is given.
        paths: The modules'.
    """
    return _Words(alike, variables, words, module).chosen(paths)


class _Words:
    """Chooses them."""

    def __init__(
        self, alike: AlikeSteps, variables: Sequence[Mapping[str, str]], words: BufferNamer, module: str
    ) -> None:
        self._alike = alike
        self._words = words
        self._module = module
        self._first = alike.sites[0]
        self._around = variables
        hidden = {name for call in self._first.calls.values() for name in call.made - {*call.results}}
        self._hidden = {name: variables[0][name] for name in hidden if name in variables[0]}
        made = (*(column[0] for column in alike.made), *(column[0] for column in alike.views))
        self._locals = {
            name: variables[0][name] for name in made if name in variables[0] and name not in hidden
        }
        self._bound: dict[str, int] = {}  # by word of a local: the first step that binds it
        self._read: dict[str, int] = {}  # by buffer: the last step that reads it
        for place, step in enumerate(self._first.steps):
            for name in _bound_by(step, words):
                if name in self._locals:
                    self._bound.setdefault(self._locals[name], place)
            for name in _read_by(step):
                self._read[name] = place

    def chosen(self, paths: Sequence[str]) -> dict[str, str]:
        """The word of each, in a function for the modules of some paths."""
        path = paths[0]
        given = self._parameters()
        named = dict.fromkeys((*self._locals.values(), *given.values()))
        taken = {*named, *OWN_WORDS, *RESERVED_IN_MODULE, self._module}
        shortened = without_place if self._module else without_parts
        taken.update(word for word, _ in self._alike.numbers)
        short = shortened(named, path, taken)
        short |= self._without_places(given, short, paths, taken)
        given = {name: short.get(word, word) for name, word in given.items()}
        around = dict(self._locals)
        self._locals = {name: short.get(word, word) for name, word in around.items()}
        self._bound = {short.get(word, word): place for word, place in self._bound.items()}
        given |= self._users(given, path) if self._module else _gradient_of_result(given, path, taken)
        words = {**self._hidden, **self._locals, **given}
        for step in self._first.steps:  # a name in place is no other variable
            if isinstance(step, Reuse) and step.buffer in self._locals:
                before = self._first.aliases.get(step.of, step.of)
                if self._around[0].get(before) == around[step.buffer]:
                    words[step.buffer] = words.get(step.of, words[step.buffer])
        return words

    def _without_places(
        self, given: Mapping[str, str], short: Mapping[str, str], paths: Sequence[str], taken: Collection[str]
    ) -> dict[str, str]:
        """Of the words that still tell a place: what the function has instead.

        Args:
            given: Those of the parameters.
            short: What some words are already in the function.
            paths: The modules that it is for.
            taken: What none may be called.
        """
        named = [(name, short.get(word, word)) for name, word in (*given.items(), *self._locals.items())]
        called = {call.name for call in self._first.calls.values()}
        inside = WordsInside(self._words, self._places(paths), given, self._first.results)
        new = inside.shorter(named, {*taken, *short.values(), *called})
        before = {word: short.get(word, word) for word in (*given.values(), *self._locals.values())}
        return {word: new[now] for word, now in before.items() if now in new}

    def _places(self, paths: Sequence[str]) -> list[Place]:
        """The places that the function serves, by what each has for the buffers of the first."""
        alike = self._alike
        columns = (*alike.inputs, *alike.made, *alike.views)
        return [
            Place(
                path,
                {column[0]: site.aliases.get(column[place], column[place]) for column in columns},
            )
            for place, (path, site) in enumerate(zip(paths, alike.sites, strict=True))
        ]

    def _parameters(self) -> dict[str, str]:
        """For each parameter what most of the modules call it, if the first one can call it so, too."""
        own = [self._word(0, column[0]) for column in self._alike.inputs]
        taken = {*self._locals.values(), *own, self._module}
        chosen_words: dict[str, str] = {}
        for column in self._alike.inputs:
            words = [self._word(place, name) for place, name in enumerate(column)]
            word = max(words, key=words.count)
            is_other = word != words[0] and word not in own
            if is_other and not (word not in taken or self._is_before(column[0], word)):
                is_other = False
            word = word if is_other else words[0]
            if word in chosen_words.values():
                word = first_free((*words[1:], *(f"other_{one}" for one in words)), taken)
            chosen_words[column[0]] = word
            taken.add(word)
        return chosen_words

    def _word(self, place: int, name: str) -> str:
        """What the place's module is given as a parameter is called around it."""
        aliases, around = self._alike.sites[place].aliases, self._around[place]
        word = around[aliases.get(name, name)]
        entry = entry_of(word)  # ``xes[1]``, of what a loop gathers: an x
        return word if entry is None else identifier(singular(entry[0]))

    def _is_before(self, name: str, word: str) -> bool:
        """Whether a parameter is read for the last time before a word is bound to something else."""
        return word in self._bound and self._read.get(name, 0) <= self._bound[word]

    def _users(self, given: Mapping[str, str], path: str) -> dict[str, str]:
        """What the user's statements call parameters, where that can stand for them in the whole function."""
        told = words_of_forward({name: self._readers(name) for name in given}, path, self._words)
        words: dict[str, str] = {}
        for name, word in given.items():
            wanted = told.get(name, "")
            others = {"", word, self._module, *given.values(), *words.values()}
            is_free = wanted not in others | RESERVED_IN_MODULE
            is_there = wanted in self._bound
            if is_free and (not is_there or self._is_before(name, wanted)):
                words[name] = wanted
        return words

    def _readers(self, name: str) -> Iterator[str]:
        """The nodes that read a parameter, of which several may be the same tensor."""
        users = users_of([self._first.aliases.get(name, name)], self._words)
        for step in self._first.steps:
            if isinstance(step, Extern) and name in _read_by(step):
                yield step.origin
            elif isinstance(step, Launch) and name in _read_by(step):
                yield from (one for some in users.values() for one in some if one in step.origins)


def _gradient_of_result(given: Mapping[str, str], path: str, taken: Container[str]) -> dict[str, str]:
    """``d_out`` for the gradient that a derivative is given and the first module's name stands for: ``d_third``."""
    own, plain = GradientWord(identifier(path.rpartition(".")[2])), GradientWord("out")
    return {} if plain in taken else {name: plain for name, word in given.items() if word == own}


def _origins(step: Launch | Extern) -> Collection[str]:
    return step.origins if isinstance(step, Launch) else (step.origin,)


def _bound_by(step: PlanStep, words: BufferNamer) -> list[str]:
    """What a step binds to variables: buffers, and views that have names."""
    if isinstance(step, Allocate | Reuse):
        return [step.buffer]
    if isinstance(step, Extern):
        keys = [view_key(step, node) for line in named_views(step, words) for node in line.keys]
        return [*keys, *step.outputs]
    return []


def _read_by(step: PlanStep) -> Collection[str]:
    return () if isinstance(step, Release) else tuple(buffers_read(step))


def words_of_part(
    part: ModuleDerivative,
    steps: Sequence[ModelStep],
    variables: Mapping[str, str],
    words: BufferNamer,
    reserved: Collection[str],
) -> dict[str, str]:
    """What the function for a part of a derivative calls what the function around it has other words for.

    Args:
        part: It.
        steps: What it does.
        variables: The variables of the function around it.
        words: The captured graph's.
        reserved: What no variable may be called.
    """
    named = {name: variables.get(name, "") for name in names_inside(steps, words)}
    own = [(name, word) for name, word in named.items() if word.isidentifier()]
    everywhere = {*(word for _, word in own), *reserved}
    short = without_parts(sorted(word for _, word in own), part.path, everywhere)
    inside = WordsInside(words, [Place(part.path, {})], part.given, part.results)
    now = [(name, short.get(word, word)) for name, word in own]
    new = inside.shorter(now, everywhere.union(short.values()))
    told = {word: short.get(word, word) for _, word in own}
    return {word: new.get(at, at) for word, at in told.items() if at != word or at in new}


def word_of_field(
    name: str, field: str, part: ModuleDerivative, words: BufferNamer, taken: Container[str]
) -> str:
    """What that function calls what it is given of a record by itself.

    Args:
        name: The buffer.
        field: What the record calls it.
        part: Whose function it is.
        words: The captured graph's.
        taken: What it may not be called.
    """
    plain = without_parts([field], part.path, taken).get(field, field)
    new = WordsInside(words, [Place(part.path, {})], [name], ()).shorter([(name, plain)], taken)
    word = new.get(plain, plain)
    return first_free(itertools.chain((word,), further_names(word)), taken)


def names_inside(steps: Sequence[ModelStep], words: BufferNamer) -> Iterator[str]:
    """Whatever some steps name that may have a variable: buffers, and views, in order."""
    for step in steps:
        if isinstance(step, PlanStep):
            yield from references(step)
        if isinstance(step, Extern):
            yield from (view_key(step, key) for line in named_views(step, words) for key in line.keys)
