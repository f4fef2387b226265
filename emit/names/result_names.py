"""What the result of an operation is, where the operation's own word would not read as a thing: ``total`` of an add."""

from __future__ import annotations

_OF_ZERO = {"le": "is_not_positive", "lt": "is_negative", "ge": "is_not_negative", "gt": "is_positive"}

# By the operation's own word.
_RESULTS = {
    "add": "total",
    "bias": "biased",
    "scale": "product",
    "mul": "product",
    "sub": "difference",
    "div": "ratio",
    "mm": "product",
    "bmm": "product",
    "matmul": "product",
    "addmm": "projected",
    "linear": "projected",
    "convolution": "features",
    "conv1d": "features",
    "conv2d": "features",
    "conv3d": "features",
    "attention": "attended",
    "softmax": "weights",
    "layer_norm": "normalized",
    "rms_norm": "normalized",
    "group_norm": "normalized",
    "batch_norm": "normalized",
    "embedding": "embedded",
    "gelu": "activated",
    "silu": "activated",
    "relu": "activated",
    "sigmoid": "gate",
    "dropout": "dropped",
    "cat": "joined",
    "stack": "stacked",
    "gather": "gathered",
    "mask": "masked",
    "where": "chosen",
    "exp": "exponentials",
    "sum": "sums",
    "cross_entropy": "losses",
    "nll_loss": "losses",
    "mean": "means",
    "rotary": "rotated",
    "exp_normalize": "normalized",
    "max": "maxima",
    "min": "minima",
    "not": "inverted",
    "copy": "copied",
    "transpose": "transposed",
    "cast": "converted",
    "max_pool2d_with_indices": "pooled",
}


def result_word(op: str) -> str:
    """The word for what an operation makes; its own where there is none."""
    return _RESULTS.get(op, op)


def has_result_word(op: str) -> bool:
    """Whether what an operation makes has a word of its own."""
    return op in _RESULTS


def comparison_word(op: str, others: tuple[object, ...]) -> str | None:
    """``is_positive``, for a comparison with 0."""
    return _OF_ZERO.get(op) if others == (0,) else None
