"""Operations that each language has as a function of one name: a row each, for most ops all that has to be spelled.

What is spelled otherwise stands in emit/triton/operators and emit/cpp/operators. PyTorch's name is the op's own
(emit/text/reference_ops).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from longhand.lower.ir import PRIMITIVES, PointwiseOp

Op = PointwiseOp


@dataclasses.dataclass(frozen=True)
class Function:
    """An operation by its function's names.

    Attributes:
        triton: ``tl.exp``, ``libdevice.expm1``.
        cpp: ``std::floor``. Without a namespace: a function of libm with a SIMD version in glibc's libmvec, whose name
            has an ``f`` behind it for float32.
    """

    triton: str
    cpp: str

    @property
    def is_in_libmvec(self) -> bool:
        """Whether vector_math.h declares its C++ function as a SIMD function."""
        return "::" not in self.cpp

    @property
    def is_in_libdevice(self) -> bool:
        """Whether it is CUDA's own function, which takes tensors alone."""
        return self.triton.startswith("libdevice.")


FUNCTIONS: Mapping[PointwiseOp, Function] = {
    Op.EXP: Function(triton="tl.exp", cpp="exp"),
    Op.EXP2: Function(triton="tl.exp2", cpp="exp2"),
    Op.EXPM1: Function(triton="libdevice.expm1", cpp="expm1"),
    Op.LOG: Function(triton="tl.log", cpp="log"),
    Op.LOG2: Function(triton="tl.log2", cpp="log2"),
    Op.LOG10: Function(triton="libdevice.log10", cpp="log10"),
    Op.LOG1P: Function(triton="libdevice.log1p", cpp="log1p"),
    Op.SIN: Function(triton="tl.sin", cpp="sin"),
    Op.COS: Function(triton="tl.cos", cpp="cos"),
    Op.TAN: Function(triton="libdevice.tan", cpp="tan"),
    Op.ASIN: Function(triton="libdevice.asin", cpp="asin"),
    Op.ACOS: Function(triton="libdevice.acos", cpp="acos"),
    Op.ATAN: Function(triton="libdevice.atan", cpp="atan"),
    Op.ATAN2: Function(triton="libdevice.atan2", cpp="atan2"),
    Op.SINH: Function(triton="libdevice.sinh", cpp="sinh"),
    Op.COSH: Function(triton="libdevice.cosh", cpp="cosh"),
    Op.TANH: Function(triton="libdevice.tanh", cpp="tanh"),
    Op.ASINH: Function(triton="libdevice.asinh", cpp="asinh"),
    Op.ACOSH: Function(triton="libdevice.acosh", cpp="acosh"),
    Op.ATANH: Function(triton="libdevice.atanh", cpp="atanh"),
    Op.ERF: Function(triton="tl.erf", cpp="erf"),
    Op.ERFC: Function(triton="libdevice.erfc", cpp="erfc"),
    Op.HYPOT: Function(triton="libdevice.hypot", cpp="hypot"),
    Op.POW: Function(triton="libdevice.pow", cpp="pow"),
    Op.FLOOR: Function(triton="tl.floor", cpp="std::floor"),
    Op.CEIL: Function(triton="tl.ceil", cpp="std::ceil"),
    Op.TRUNC: Function(triton="libdevice.trunc", cpp="std::trunc"),
    Op.ROUND: Function(triton="libdevice.rint", cpp="std::nearbyint"),
    Op.SQRT: Function(triton="tl.sqrt_rn", cpp="std::sqrt"),
    Op.ABS: Function(triton="tl.abs", cpp="std::abs"),
    Op.COPYSIGN: Function(triton="libdevice.copysign", cpp="std::copysign"),
    Op.NEXTAFTER: Function(triton="libdevice.nextafter", cpp="std::nextafter"),
}


def n_arguments(op: PointwiseOp) -> int:
    """How many arguments an operation takes."""
    return PRIMITIVES[op].n_arguments
