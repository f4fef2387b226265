"""What several callers share: of a kernel the words that all of them have, and plain ones where there are none."""
