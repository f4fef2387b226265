"""Kernel schedules, one module each: when it applies, its loops, and its tunables with what they were measured by."""
