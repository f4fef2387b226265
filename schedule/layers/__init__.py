"""Equal layers: found in the plan, and made from one another."""
