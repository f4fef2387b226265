"""The list of templates for contractions. The first that accepts is taken; without one a library computes the sums."""

from __future__ import annotations

from longhand.lower.ir import Contraction
from longhand.schedule.contractions.template import ContractionTemplate
from longhand.schedule.targets import TargetFacts

TEMPLATES: tuple[ContractionTemplate, ...] = ()


def template_for(contraction: Contraction, target: TargetFacts) -> ContractionTemplate | None:
    """What computes all of a contraction in one kernel, if anything does."""
    return next((template for template in TEMPLATES if template.accepts(contraction, target)), None)
