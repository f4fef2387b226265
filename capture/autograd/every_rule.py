"""The rules of all modules in one table: `rewritten` asks it."""

from __future__ import annotations

from longhand.capture.autograd import (
    batch_norm_rules,
    drawn_rules,
    group_norm_rules,
    norm_rules,
    own_rule,
    product_rules,
    scatter_rules,
)
from longhand.capture.autograd.max_pooling import rule as max_pooling_rule
from longhand.capture.autograd.rules import rewritten

# Importing a module registers its rules.
MODULES = (
    batch_norm_rules,
    drawn_rules,
    group_norm_rules,
    max_pooling_rule,
    norm_rules,
    own_rule,
    product_rules,
    scatter_rules,
)

__all__ = ["MODULES", "rewritten"]
