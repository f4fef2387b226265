"""Whether a unit is what its model generates today, and what people changed in it."""
