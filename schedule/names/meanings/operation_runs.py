"""Runs of operations that have a name of their own: ``rms_norm`` for power, mean, add, rsqrt and normalize."""

from __future__ import annotations

import itertools

from longhand.schedule.names.words import GradientWord

# Runs of operations that have a name of their own, longest first.
_WEIGHTED = (("normalize", "normalize"), ("normalize", "mul"), ("normalize",))
PATTERNS: tuple[tuple[tuple[str, ...], str], ...] = (
    # What is left of something without its mean, once or for each of its readers, over the root of its mean square.
    *(
        (("mean", "sub", *again, "power", "mean", *then, "add", *root), "layer_norm")
        for again in (("sub",), ())
        for then in (("sub",), ())
        for root in (*(("rsqrt", *weighted) for weighted in _WEIGHTED), ("sqrt", "div"))
    ),
    (("power", "mean", "add", "rsqrt", "normalize", "normalize"), "rms_norm"),
    (("power", "mean", "add", "rsqrt", "normalize", "mul"), "rms_norm"),
    (("power", "mean", "add", "rsqrt", "normalize"), "rms_norm"),
    (("neg", "cat", "mul", "mul", "add"), "rotary"),
    (("mul", "neg", "cat", "mul", "add"), "rotary"),
    (("exp", "exp", "sum", "div"), "exp_normalize"),
    (("exp", "sum", "exp", "div"), "exp_normalize"),
    (("power", "mean", "add", "rsqrt"), "rstd"),
    (("max", "sub", "exp", "sum", "div"), "softmax"),
    (("exp", "sum", "div"), "exp_normalize"),
    (("log_softmax", "nll_loss"), "cross_entropy"),
    (("silu", "mul"), "swiglu"),
    (("gelu", "mul"), "geglu"),
    (("vector_norm", "clamp", "divide_by_norm"), "l2_normalize"),
    (("vector_norm", "divide_by_norm"), "l2_normalize"),
)
# Those that have the name only where the activation is what the product is of, and of nothing that is broadcast.
_GATED = frozenset({"swiglu", "geglu"})


def match_patterns(words: list[str], has_gate: bool) -> list[str]:
    """The words, those of a run as its name.

    Args:
        words: What is done, in order.
        has_gate: Whether some product is really one of an activation, and of nothing that is broadcast.
    """
    new_words: list[str] = []
    position = 0
    while position < len(words):
        for pattern, name in PATTERNS:
            is_proven = has_gate or name not in _GATED
            if is_proven and tuple(words[position : position + len(pattern)]) == pattern:
                new_words.append(name)
                position += len(pattern)
                break
        else:
            new_words.append(words[position])
            position += 1
    return new_words


def derivatives_once(words: list[str]) -> list[str]:
    """A derivative in several parts, with other work between them, is named once: where it ends."""
    last = {word: place for place, word in enumerate(words)}
    return [word for i, word in enumerate(words) if not isinstance(word, GradientWord) or last[word] == i]


def collapsed(words: list[str]) -> list[str]:
    """Neighbours that are equal count once; several norms beside each other are ``batch_norms``, joins ``cats``."""
    collapsed_words: list[str] = []
    for word, run in itertools.groupby(words):
        has_plural = (word.endswith("_norm") or word == "cat") and not isinstance(word, GradientWord)
        is_several = len(list(run)) > 1 and has_plural
        collapsed_words.append(f"{word}s" if is_several else word)
    return collapsed_words
