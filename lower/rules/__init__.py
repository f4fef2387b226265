"""The rules that a program of loops keeps: checked after each pass of lower, and after each of schedule."""
