"""Lower: a captured graph becomes a loop program (lower/ir.py holds the result)."""
