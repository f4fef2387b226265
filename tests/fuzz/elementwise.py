"""Statements of random programs that compute each element by itself, from elements at its place."""

from __future__ import annotations

from tests.fuzz.operands import dim_of, is_bool, is_float, is_number, is_whole
from tests.fuzz.programs import Known, Writer

_ANY_FLOAT = (
    "torch.sin({0})",
    "torch.tanh({0})",
    "torch.sigmoid({0})",
    "F.gelu({0})",
    'F.gelu({0}, approximate="tanh")',
    "F.silu({0})",
    "F.softplus({0})",
    "F.elu({0})",
    "torch.exp({0}.clamp(max=3))",
    "torch.expm1({0}.clamp(-3, 3))",
    "torch.sqrt({0}.abs())",
    "torch.rsqrt({0}.abs() + 0.5)",
    "torch.log1p({0}.abs())",
    "torch.erf({0})",
    "torch.cos({0}) * 0.5",
    "{0} / (1 + {0}.abs())",
    "1 / (2 + {0}.square())",
    "{0} * 0.3 - 1.5",
    "1 - {0}",
    "torch.atan({0})",
    "torch.logaddexp({0}, -{0})",
)
# The same numbers in any precision.
_EXACT_UNARY = (
    "-{0}",
    "{0}.abs()",
    "F.relu({0})",
    "{0}.clamp(-0.5, 1.25)",
    "{0}.clamp(min=0)",
    "torch.nan_to_num({0}, 0.5, 2.0, -2.0)",
    "F.hardtanh({0})",
    "{0}.clone()",
    "{0}.contiguous()",
    "{0} * 2",
    "{0}.sign()",
)
_OF_EXACT = (
    "{0} > 0.25",
    "{0} != 0",
    "{0}.isnan()",
    "{0}.isinf()",
    "torch.floor({0})",
    "torch.round({0})",
    "torch.trunc({0})",
    "{0}.sign()",
    "{0}.bool()",
    "(torch.nan_to_num({0}, 1.0, 4.0, -4.0) * 4).clamp(-100, 100).to(torch.int32)",
)
_OF_WHOLE = (
    "{0} + 3",
    "{0} * {0}",
    "{0} // 3",
    "{0} % 5",
    "-{0}",
    "{0} >> 1",
    "{0} << 2",
    "{0} & 6",
    "{0} ^ 5",
    "~{0}",
    "{0} > 2",
    "{0} == 3",
    "{0}.clamp(-3, 9)",
    "{0}.float() / 7",
    "{0} / 3",
    "{0} * 0.25",
    "torch.where({0} > 0, {0}, 7)",
)
_OF_BOOL = ("~{0}", "{0}.float()", "{0}.long()", "{0} * 1.5", "torch.where({0}, 1.0, -1.0)", "{0}.sum({d})")
_BINARY = (
    "{0} + {1}",
    "{0} - {1}",
    "{0} * {1}",
    "{0} / (1 + {1}.abs())",
    "torch.atan2({0}, {1})",
    "{0} - 0.5 * {1}",
    "torch.lerp({0}, {1}, 0.25)",
    "torch.hypot({0}, {1})",
    "torch.addcmul({0}, {0}, {1}, value=0.5)",
)
_EXACT_BINARY = ("torch.maximum({0}, {1})", "torch.minimum({0}, {1})", "torch.fmax({0}, {1})")
_COMPARISONS = ("{0} > {1}", "{0} <= {1}", "{0} == {1}", "{0} != {1}", "torch.where({0} > {1}, {0}, {1})")


def _add(writer: Writer, template: str, *given: Known, is_exact: bool = False) -> bool:
    value = writer[given[0]]
    words = {"d": dim_of(writer, value)}
    return writer.add(template.format(*(one.name for one in given), **words), is_exact)


def unary(writer: Writer) -> bool:
    """Arithmetic on one floating-point value."""
    x = writer.choose(is_float)
    if x is None:
        return False
    if writer.draw.random() < 0.3:
        return _add(writer, writer.draw.choice(_EXACT_UNARY), x, is_exact=x.is_exact)
    return _add(writer, writer.draw.choice(_ANY_FLOAT), x)


def exact(writer: Writer) -> bool:
    """Roundings and tests, of exact values."""
    x = writer.choose(is_float, exact=True)
    return x is not None and _add(writer, writer.draw.choice(_OF_EXACT), x, is_exact=True)


def whole(writer: Writer) -> bool:
    """Arithmetic on whole numbers."""
    x = writer.choose(is_whole)
    return x is not None and _add(writer, writer.draw.choice(_OF_WHOLE), x)


def mask(writer: Writer) -> bool:
    """What is done with bools."""
    x = writer.choose(is_bool)
    if x is None:
        return False
    y = writer.choose(is_bool)
    if y is not None and writer.draw.random() < 0.4:
        return _add(writer, writer.draw.choice(("{0} & {1}", "{0} | {1}", "{0} ^ {1}")), x, y)
    return _add(writer, writer.draw.choice(_OF_BOOL), x)


def binary(writer: Writer) -> bool:
    """Two values that broadcast, of any dtypes."""
    x, y = writer.choose(is_number), writer.choose(is_number)
    if x is None or y is None:
        return False
    both = x.is_exact and y.is_exact
    kind = writer.draw.random()
    if kind < 0.2:
        return _add(writer, writer.draw.choice(_EXACT_BINARY), x, y, is_exact=both)
    if kind < 0.45 and both:
        return _add(writer, writer.draw.choice(_COMPARISONS), x, y, is_exact=True)
    return _add(writer, writer.draw.choice(_BINARY), x, y)


def choice(writer: Writer) -> bool:
    """Values under a mask."""
    condition, x, y = writer.choose(is_bool, exact=True), writer.choose(is_number), writer.choose(is_number)
    if condition is None or x is None or y is None:
        return False
    forms = (
        ("torch.where({0}, {1}, {2})", x.is_exact and y.is_exact),
        ("{1}.masked_fill({0}, -1.0)", x.is_exact),
        ("torch.where({0}, {1}, 0.5)", x.is_exact),
        ("{1} * {0}", x.is_exact),
        ("torch.where({0}, {1}, {2}.flip(0))", x.is_exact and y.is_exact),
    )
    template, is_exact = writer.draw.choice(forms)
    return _add(writer, template, condition, x, y, is_exact=is_exact)
