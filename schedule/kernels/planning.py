"""Plans each different nest once: 48 equal layers cost one planning."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.lower.ir import Buffer, Contraction, Extern, Nest, Step
from longhand.options import Options
from longhand.schedule.bodies import origins
from longhand.schedule.contractions.registry import template_for
from longhand.schedule.contractions.template import ContractionTemplate
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.kernels.kernel_plan import KernelPlan
from longhand.schedule.kernels.schedules.entry import ScheduleEntry
from longhand.schedule.kernels.space import Walk
from longhand.schedule.kernels.twins import NOTHING_GIVEN, Given, find_twins
from longhand.schedule.kernels.walks import best_order, walked_otherwise, walks_as_fast
from longhand.schedule.plan import Launch
from longhand.schedule.redundant_steps import buffers_of, without_names
from longhand.schedule.simplification import value_key
from longhand.schedule.sizes import Hints, Limits
from longhand.schedule.targets import facts_of

_AS_IT_IS: Mapping[str, Walk] = {}


@dataclasses.dataclass(frozen=True)
class _PlannedNest:
    """A nest that was planned.

    Attributes:
        launch: The call that does it.
        nest: What it is; others are equal up to names.
        entry: Of a contraction: what computes it.
    """

    launch: Launch
    nest: Nest
    entry: ScheduleEntry | None


class Planner:
    """Plans nests of one program.

    Attributes:
        kernels: The kernels planned so far, by key, in order of first launch.
    """

    def __init__(
        self,
        buffers: Mapping[str, Buffer],
        options: Options,
        hints: Hints,
        limits: Limits,
        position_of: Mapping[str, int],
    ) -> None:
        self.kernels: dict[str, KernelPlan] = {}
        self._buffers = buffers
        self._options = options
        self._hints = hints
        self._limits = limits
        self._position_of = position_of
        self._known: dict[object, _PlannedNest] = {}

    def plan_all(self, steps: Sequence[Step]) -> list[tuple[Launch | Extern, Nest | Extern]]:
        """The calls that do some steps, each with what it does; kernels that may be one are one."""
        planned = [one for step in steps for one in self.planned(step)]
        if not self._join_twins():
            return planned
        return [one for step in steps for one in self.planned(step)]

    def planned(self, step: Step) -> list[tuple[Launch | Extern, Nest | Extern]]:
        """The calls that do a step, each with what it does. A contraction that no template computes is in parts."""
        match step:
            case Extern():
                return [(step, step)]
            case Nest():
                return [(self.launch(step), step)]
            case Contraction():
                template = template_for(step, facts_of(self._options.target))
                if template is not None:
                    return [(self.launch(step.loops, template), step.loops)]
                return [one for part in step.steps for one in self.planned(part)]

    def launch(self, nest: Nest, template: ContractionTemplate | None = None) -> Launch:
        """The call of a kernel that does a nest; the kernel is planned if no equal nest has been.

        Args:
            nest: What it does.
            template: For the loops of a contraction: what computes them.
        """
        names = buffers_of(nest)
        entry = template.entry if template is not None else None
        key = (self._key(nest), entry.schedule.name if entry is not None else None)
        if key not in self._known:
            plan, launch = self._plan(nest, entry)
            self.kernels[plan.key] = self.kernels[plan.key] | plan if plan.key in self.kernels else plan
            self._known[key] = _PlannedNest(launch, nest, entry)
        known = self._known[key]
        renamed = dict(zip(buffers_of(known.nest), names, strict=True))
        return dataclasses.replace(
            known.launch,
            buffers=tuple(renamed[name] for name in known.launch.buffers),
            origins=self._origins(nest),
        )

    def _plan(
        self, nest: Nest, entry: ScheduleEntry | None, given: Given = NOTHING_GIVEN
    ) -> tuple[KernelPlan, Launch]:
        plan, launch = plan_kernel(
            nest, self._buffers, self._options, self._hints, self._limits, entry, given
        )
        return dataclasses.replace(plan, origins=self._origins(nest)), launch

    def _join_twins(self) -> bool:
        """Plans kernels again that are one where they are given a bit more; whether there are any."""
        groups = list(find_twins(self.kernels))
        are_any = False
        for keys, choices in groups:
            are_any |= any(self._join(keys, given) for given in choices)
        for keys in list(walked_otherwise(self.kernels)):
            for n_axes in sorted({len(self.kernels[key].axes) for key in keys}, reverse=True):
                left = tuple(key for key in keys if key in self.kernels)
                are_any |= self._join_walks(left, n_axes)
        return are_any

    def _join_walks(self, keys: tuple[str, ...], n_axes: int) -> bool:
        """Plans kernels along as many axes as the ones of them that need so many; whether some are one then."""
        keys = tuple(key for key in keys if len(self.kernels[key].axes) <= n_axes)
        first = next((key for key in keys if len(self.kernels[key].axes) == n_axes), None)
        if first is None or len(keys) < 2:
            return False
        plans: dict[str, KernelPlan] = {}
        walks: dict[str, Walk] = {}
        of_keys: dict[str, set[str]] = {}
        for key in keys:
            walk, of_nests = self._walked(key, first, n_axes)
            if walk is not None:
                walks[key] = walk
            for plan in of_nests:
                plans[plan.key] = plan
                of_keys.setdefault(plan.key, set()).add(key)
        are_any = False
        for alike, choices in list(find_twins(plans, in_any_order=True)):
            joined = tuple(key for key in keys if any(key in of_keys[one] for one in alike))
            are_any |= len(joined) > 1 and any(self._join(joined, given, walks) for given in choices)
        return are_any

    def _walked(self, key: str, first: str, n_axes: int) -> tuple[Walk | None, list[KernelPlan]]:
        """How a kernel may go along so many axes, in an order like the first one's, and the plans of its nests then.

        None, and no plans, where not all of its nests can, or not as fast, or each in another order.
        """
        first_call = self._a_call_of(first)
        plans: list[KernelPlan] = []
        walks: set[Walk] = set()
        for known in self._known.values():
            if known.launch.kernel != key:
                continue
            if known.entry is not None:
                return None, []
            walk = Walk(n_axes)
            plan, launch = self._plan(known.nest, None, Given(walk=walk))
            if len(plan.axes) == n_axes and key != first:
                walk = Walk(n_axes, best_order(self.kernels[first], first_call, plan, launch))
                plan, launch = self._plan(known.nest, None, Given(walk=walk))
            if len(plan.axes) != n_axes or not walks_as_fast(self.kernels[key], plan, launch.sizes):
                return None, []
            plans.append(plan)
            walks.add(walk)
        return (walks.pop(), plans) if len(walks) == 1 else (None, [])

    def _a_call_of(self, kernel: str) -> Launch:
        return next(known.launch for known in self._known.values() if known.launch.kernel == kernel)

    def _join(self, keys: tuple[str, ...], given: Given, walks: Mapping[str, Walk] = _AS_IT_IS) -> bool:
        """Plans kernels again with what they are given; whether they are one then, which takes their place."""
        again = {
            key: (known, *self._plan(known.nest, known.entry, given.along(walks.get(known.launch.kernel))))
            for key, known in self._known.items()
            if known.launch.kernel in keys
        }
        (_, one, _), *others = again.values()
        if any(plan.key != one.key for _, plan, _ in others):
            return False
        for key, (known, plan, launch) in again.items():
            one = one | plan
            self._known[key] = dataclasses.replace(known, launch=launch)
        place = min(map(list(self.kernels).index, keys))
        rest = [(key, plan) for key, plan in self.kernels.items() if key not in keys]
        self.kernels = dict([*rest[:place], (one.key, one), *rest[place:]])
        return True

    def _origins(self, nest: Nest) -> tuple[str, ...]:
        """The nodes that a nest computes, in the captured graph's order."""
        return tuple(sorted(origins(nest.body), key=lambda name: (self._position_of.get(name, -1), name)))

    def _key(self, nest: Nest) -> object:
        """The nest up to the names of its axes and buffers, and up to its origins; its values' words tell what a
        kernel of several nests may call them."""
        plain, memory = without_names(nest, self._buffers)
        words = tuple(getattr(value, "name", None) for value in plain.body)
        return plain.axes, tuple(value_key(value) for value in plain.body), words, memory
