"""Schedule: a loop program becomes a complete plan (schedule/plan.py holds the result)."""
