"""Launches that a file makes several times, each with the weights of one module: a call of a function then.

A kernel for a norm takes what the norm holds one by one, and the sizes of what it goes over: ten lines, which stand in
the file for each norm of the model, and say nothing new from the second time on. What a launch takes of its module, the
memory that it fills and the sizes are the function's, which is called after the kernel; a call says what is normalized,
and by which norm.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from longhand.schedule.functions.alike_calls import (
    FEWEST_LAUNCHES,
    CallsAlike,
    CallSite,
    call_site,
    modules_around,
)
from longhand.schedule.functions.alike_steps import SiteSteps
from longhand.schedule.layers.model_steps import ModelStep
from longhand.schedule.layers.outside import references
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.words import listed
from longhand.schedule.plan import KernelPlan, Launch, Reuse

_FEWEST_ARGUMENTS = 5  # of a launch, which is written in more than one line


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


_Form = tuple[tuple[int, str], ...]


class RepeatedLaunches:
    """The launches of a file.

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
        self._words = words
        self._weights = weights
        self._sites: dict[tuple[str, _Form], list[CallSite]] = defaultdict(list)
        for number, (steps, root) in enumerate(zip(bodies, roots, strict=True)):
            for place, step in enumerate(steps):
                if not isinstance(step, Launch):
                    continue
                path = self._module_of(step, root)
                site = call_site(CallSite(number, place, place + 1, path, root), steps) if path else None
                if site is not None:
                    form = self._form(step, steps[site.start : place])
                    self._sites[kernels[step.kernel].kernel, form].append(site)

    def candidates(self, taken: Collection[CallSite]) -> list[CallsAlike]:
        """What may be functions: that which is called most often first.

        Args:
            taken: What is a call of something else already.
        """
        found = list(self._alike(taken))
        return sorted(found, key=lambda one: -len(one.sites))

    def _alike(self, taken: Collection[CallSite]) -> Iterator[CallsAlike]:
        for (kernel, _), sites in self._sites.items():
            free = tuple(site for site in sites if all(map(site.goes_with, taken)))
            if len(free) >= FEWEST_LAUNCHES:
                yield CallsAlike(kernel, free, 1, 1.0, is_launch=True)

    def _form(self, step: Launch, before: Sequence[ModelStep]) -> _Form:
        """Where its memory comes from, and where which weight stands: in these, launches of one function are alike."""
        reused = {one.buffer: one.of for one in before if isinstance(one, Reuse)}
        at = [
            step.buffers.index(reused.get(name, name)) if reused.get(name, name) in step.buffers else -1
            for name in step.buffers
        ]
        held = [self._weights.get(name, "").rpartition(".")[2] for name in step.buffers]
        return tuple(zip(at, held, strict=True))

    def _module_of(self, step: Launch, root: str) -> str:
        """The module that holds all weights of a launch within what its operations stand in; empty if none does."""
        paths = list(dict.fromkeys(self._weights[one] for one in references(step) if one in self._weights))
        owners = {path.rpartition(".")[0] for path in paths}
        n_arguments = len(step.buffers) + len(step.sizes) + len(step.ints) + len(step.scalars)
        if step.others or len(owners) != 1 or n_arguments < _FEWEST_ARGUMENTS:
            return ""
        owner = owners.pop()
        around = {"", *modules_around(step, self._words)}
        is_below = not root or owner.startswith(f"{root}.")
        return owner if is_below and {owner, owner.rpartition(".")[0]} & around else ""


def words_of_launch(site: SiteSteps, kernels: Mapping[str, LaunchWords]) -> dict[str, str]:
    """What a launch's function calls everything: as the kernel's own does.

    Args:
        site: The steps of one such launch.
        kernels: The words of kernels, by the plan's key.
    """
    (launch,) = (step for step in site.steps if isinstance(step, Launch))
    words = reversed(kernels[launch.kernel].pointers)
    called = zip(
        reversed(launch.buffers), words, strict=True
    )  # the first word of a tensor that is given twice
    own = {name: word for name, word in called if name not in site.weights}
    for (
        step
    ) in site.steps:  # memory that is written over keeps its name, if it is no other tensor to the kernel
        if isinstance(step, Reuse) and step.of not in launch.buffers:
            own[step.of] = own[step.buffer]
    return own


def is_in_place(site: SiteSteps) -> bool:
    """Whether a launch writes over what its function is given."""
    (launch,) = (step for step in site.steps if isinstance(step, Launch))
    return len(set(launch.buffers)) < len(launch.buffers) or any(isinstance(one, Reuse) for one in site.steps)


def words_for_holder(kernel: str, paths: Sequence[str]) -> Iterator[str]:
    """What the function of a launch may call the module: by its attribute without a number, or by the kernel."""
    lasts = {path.rpartition(".")[2].strip("_0123456789") for path in paths}
    yield from (word for word in lasts if len(lasts) == 1 and len(word) > 1 and word.isidentifier())
    yield from (word for word in ("norm",) if word in kernel.split("_"))
    yield "module"


def remark_on_launch(kernel: str, module: str, site: SiteSteps) -> str:
    """``kernels.batch_norm_relu by norm's own weight and bias, in place.``"""
    held = listed(site.weights.values())
    return f"kernels.{kernel} by {module}'s own {held}{', in place' * is_in_place(site)}."
