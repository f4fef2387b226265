"""How each family of operators becomes loops, one module a family."""
