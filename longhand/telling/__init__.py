"""What longhand tells of its work: logs, dumps, counts, explanations, tracebacks."""
