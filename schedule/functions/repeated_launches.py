"""Launches that a file makes several times, each with the weights of one module: a call of a function then.

A kernel for a norm takes what the norm holds one by one, and the sizes of what it goes over: ten lines, which stand in
the file for each norm of the model, and say nothing new from the second time on. What a launch takes of its module, the
memory that it fills and the sizes are the function's, which is called after the kernel; a call says what is normalized,
and by which norm.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from longhand.lower.ir import Extern
from longhand.schedule.functions.alike_calls import (
    FEWEST_LAUNCHES,
    CallsAlike,
    CallSite,
    call_site,
    modules_around,
)
from longhand.schedule.functions.alike_steps import SiteSteps
from longhand.schedule.functions.call_records import SharedCall
from longhand.schedule.layers.model_steps import ModelStep
from longhand.schedule.layers.outside import references
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.words import first_free, listed
from longhand.schedule.plan import Allocate, KernelPlan, Launch, Release, Reuse

_FEWEST_ARGUMENTS = 5  # of a launch, which is written in more than one line
_LONGEST = 100  # of a remark
# Between the words of a kernel's name, and what says how it is written: `make_x`, `column_sum_few_rows`.
LINKS = frozenset({"and", "with", "of", "by", "to", "make", "keep", "few", "rows"})


@dataclasses.dataclass(frozen=True)
class LaunchWords:
    """What a kernel's own function calls itself, and each tensor that it is given."""

    kernel: str
    pointers: tuple[str, ...]

    @classmethod
    def of(cls, plan: KernelPlan, kernel: str, pointers: Mapping[str, str]) -> LaunchWords:
        """Those of a kernel.

        Args:
            plan: Its plan.
            kernel: Its name.
            pointers: By the key of a pointer: its word.
        """
        return cls(kernel, tuple(pointers[one.name] for one in plan.pointers if not one.scratch))


Form = tuple[object, ...]


class RepeatedLaunches:
    """The launches of a file, and runs of them that one module makes by itself.

    Args:
        bodies: The steps of each function of model.py.
        words: The captured graph's.
        roots: For each function the path of the module that it is a method of.
        weights: By buffer: the path of the weight that it is.
        kernels: The words of kernels, by the plan's key.
    """

    def __init__(
        self,
        bodies: Sequence[Sequence[ModelStep]],
        words: BufferNamer,
        roots: Sequence[str],
        weights: Mapping[str, str],
        kernels: Mapping[str, LaunchWords],
    ) -> None:
        self._bodies = bodies
        self._words = words
        self._weights = weights
        self._kernels = kernels
        self._called = {"", *(path for node in words.nodes for path in words.provenance(node).around)}
        self._sites: dict[Form, list[CallSite]] = defaultdict(list)
        for number, (steps, root) in enumerate(zip(bodies, roots, strict=True)):
            for run in (*self._runs(steps), *([place] for place in range(len(steps)))):
                launches = [step for place in run if isinstance(step := steps[place], Launch)]
                path = self._module_of(launches, root) if launches else ""
                calls = CallSite(number, run[0], run[-1] + 1, path, root)
                site = call_site(calls, steps) if path else None
                if site is not None:
                    self._sites[self._form(launches, steps[site.start : site.stop])].append(site)

    def written_often(self, calls: Mapping[int, SharedCall]) -> frozenset[Form]:
        """Those that a file has three times or more, where some of them stand in functions that modules share.

        Args:
            calls: Of these functions, by the first step of each.
        """
        spans = [
            [
                (at, at + call.n_steps, call.name)
                for at, step in enumerate(steps)
                if (call := calls.get(id(step)))
            ]
            for steps in self._bodies
        ]

        def where(site: CallSite) -> object:
            around = [one for one in spans[site.body] if one[0] <= site.start and site.stop <= one[1]]
            inmost = min(around, key=lambda one: one[1] - one[0], default=None)
            return (site.body, site.start) if inmost is None else inmost[2]

        return frozenset(
            form for form, sites in self._sites.items() if len({*map(where, sites)}) >= FEWEST_LAUNCHES
        )

    def candidates(self, taken: Collection[CallSite], often: Collection[Form]) -> list[CallsAlike]:
        """What may be functions: the longest first, and then that which is called most often.

        Args:
            taken: What is a call of something else already.
            often: Those that are worth it.
        """
        found = []
        for form in often:
            free = tuple(site for site in self._sites[form] if all(map(site.goes_with, taken)))
            if len(free) >= FEWEST_LAUNCHES:
                found.append(
                    CallsAlike(str(form[-1]), free, len(form) - 1, 1.0, is_whole=True, is_launch=True)
                )
        return sorted(
            found, key=lambda one: (-one.n_calls, -len(one.sites), one.sites[0].body, one.sites[0].start)
        )

    def _runs(self, steps: Sequence[ModelStep]) -> Iterator[list[int]]:
        """Launches behind each other that one module makes, which holds no other and does nothing in between."""
        run, of = list[int](), ""
        for place, step in enumerate(steps):
            if isinstance(step, Allocate | Reuse | Release):
                continue
            around = modules_around(step, self._words) if isinstance(step, Launch) else {}
            inmost = max(around, key=len, default="")
            if run and (not inmost or inmost != of):
                yield from [run] * (len(run) > 1)
                run = []
            run, of = [*run, place] if inmost else [], inmost
        yield from [run] * (len(run) > 1)

    def _form(self, launches: Sequence[Launch], steps: Sequence[ModelStep]) -> Form:
        """Which kernels, where their memory comes from, and where which weight stands: alike in calls of a function."""
        buffers = list(dict.fromkeys(name for launch in launches for name in launch.buffers))
        reused = {one.buffer: one.of for one in steps if isinstance(one, Reuse)}
        made = [one.buffer for one in steps if isinstance(one, Allocate)]
        memory = tuple(
            (buffers.index(of) if (of := reused.get(name, name)) in buffers else -1, name in made)
            for name in buffers
        )
        held = tuple(self._weights.get(name, "").rpartition(".")[2] for name in buffers)
        places = tuple(tuple(map(buffers.index, launch.buffers)) for launch in launches)
        return (memory, held, places), *(self._kernels[launch.kernel].kernel for launch in launches)

    def _module_of(self, launches: Sequence[Launch], root: str) -> str:
        """The module that holds most weights of launches within what their operations stand in; empty if none does."""
        read = (one for launch in launches for one in references(launch))
        paths = list(dict.fromkeys(self._weights[one] for one in read if one in self._weights))
        owners = Counter(path.rpartition(".")[0] for path in paths).most_common(2)
        is_many = len(owners) > 1 and owners[0][1] == owners[1][1]  # as well another's
        if any(launch.others for launch in launches) or not owners or is_many:
            return ""
        owner, launch = owners[0][0], launches[-1]
        n_arguments = len(launch.buffers) + len(launch.sizes) + len(launch.ints) + len(launch.scalars)
        is_below = not root or owner.startswith(f"{root}.")
        is_long = n_arguments >= _FEWEST_ARGUMENTS
        return owner if is_long and is_below and self._stands_in(launch, owner) else ""

    def _stands_in(self, launch: Launch, owner: str) -> bool:
        """Whether a launch is done within a module, or the one that calls it: not by a layer before."""
        around, path = {"", *modules_around(launch, self._words)}, owner.rpartition(".")[0]
        while path not in self._called:  # a list, say
            path = path.rpartition(".")[0]
        return owner in around or path in around


def words_of_launch(site: SiteSteps, kernels: Mapping[str, LaunchWords]) -> dict[str, str]:
    """What a function of launches calls everything: as the kernels' own do.

    Args:
        site: The steps of one such call.
        kernels: The words of kernels, by the plan's key.
    """
    own: dict[str, str] = {}
    for launch in _launches(site):
        for name, word in zip(launch.buffers, kernels[launch.kernel].pointers, strict=True):
            if name not in site.weights and name not in own:
                free = (word, *(f"{kernel.kernel}_{word}" for kernel in kernels.values()))
                own[name] = first_free(free, {*own.values()})
    for (
        step
    ) in site.steps:  # memory that is written over keeps its name, if it is no other tensor to the kernel
        if isinstance(step, Reuse) and step.of not in own and step.buffer in own:
            own[step.of] = own[step.buffer]
    return own


def is_in_place(site: SiteSteps) -> bool:
    """Whether launches write over what their function is given."""
    is_twice = any(len(set(launch.buffers)) < len(launch.buffers) for launch in _launches(site))
    return is_twice or any(isinstance(one, Reuse) and one.of in site.given for one in site.steps)


def _launches(site: SiteSteps) -> list[Launch]:
    return [step for step in site.steps if isinstance(step, Launch)]


def word_of_last_launch(site: SiteSteps, names: Mapping[str, str], name: str) -> str:
    """``statistics``: what a function computes last, if a kernel does that and its name does not say so.

    Args:
        site: Its steps.
        names: The kernels', by the plan's key.
        name: The function's.
    """
    calls = [step for step in site.steps if isinstance(step, Launch | Extern)]
    last = names[calls[-1].kernel] if calls and isinstance(calls[-1], Launch) else ""
    return next((word for word in reversed(last.split("_")) if word not in {*name.split("_"), *LINKS}), "")


def words_for_holder(kernel: str, paths: Sequence[str]) -> Iterator[str]:
    """What the function of a launch may call the module: by its attribute without a number, or by the kernel."""
    lasts = {path.rpartition(".")[2].strip("_0123456789") for path in paths}
    yield from (word for word in lasts if len(lasts) == 1 and len(word) > 1 and word.isidentifier())
    yield from (word for word in ("norm",) if word in kernel.split("_"))
    yield "module"


def remark_on_launch(kernels: Mapping[str, LaunchWords], module: str, site: SiteSteps) -> str:
    """``kernels.batch_norm_relu by norm's own weight and bias.``"""
    named = list(dict.fromkeys(kernels[one.kernel].kernel for one in _launches(site)))
    called = listed(f"kernels.{name}" for name in named)
    told = f"{called} by {module}'s own {listed(site.weights.values())}."
    before = " and what it reads" * (len(named) > 1)
    return told if len(told) <= _LONGEST else f"kernels.{named[-1]}{before}, by what {module} holds."
