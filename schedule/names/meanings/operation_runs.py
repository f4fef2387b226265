"""Runs of operations that have a name of their own: ``rms_norm`` for power, mean, add, rsqrt and normalize."""

from __future__ import annotations

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
