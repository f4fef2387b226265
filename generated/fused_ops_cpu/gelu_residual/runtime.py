"""What the unit needs besides its kernels: input checks, weights, and the way to build and launch."""

import contextlib
import ctypes
import dataclasses
import fcntl
import functools
import hashlib
import math
import mmap
import os
import platform
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

# ---- Checks: what a call is given must be what the kernels were written for ----


def check_tensor(name, tensor, *, dtype, shape, device, stride=None):
    """Raise TypeError or ValueError unless an argument is as expected.

    In `shape` a word stands for a size that may be anything. `stride` is None for a contiguous tensor. The call's
    first tensor may be on any `device` of a kind, "cpu" or "cuda"; the others must be where it is.
    """
    is_first = isinstance(device, str)
    if (
        type(tensor) not in PLAIN
        or tensor.layout is not torch.strided
        or tensor.is_neg()
        or not tensor.data_ptr()
    ):
        check_is_plain(name, tensor)
    if tensor.dtype != dtype:
        raise TypeError(f"{name}: expected {dtype}, got {tensor.dtype}")
    if tensor.shape != shape and not _fits(tensor.shape, shape):
        expected = ", ".join(map(str, shape))
        raise ValueError(f"{name}: expected shape ({expected}), got {tuple(tensor.shape)}")
    is_there = (
        tensor.device == device if not is_first else tensor.is_cuda if device == "cuda" else tensor.is_cpu
    )
    if not is_there:
        raise ValueError(f"{name}: expected device {device}, got {tensor.device}")
    if not (tensor.is_contiguous() if stride is None else tensor.stride() == stride):
        expected = "a contiguous tensor" if stride is None else f"strides {stride}"
        raise ValueError(f"{name}: expected {expected}, got strides {tensor.stride()}")
    if is_first and torch.is_autocast_enabled(device):
        raise RuntimeError("these kernels have types of their own: call outside torch.autocast")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise RuntimeError(
            f"{name} requires grad, but these kernels compute no gradients: call under torch.no_grad() or detach {name}"
        )


PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})


def check_is_plain(name, tensor):
    """Raise TypeError or ValueError unless a tensor's elements lie in memory as its shape and strides say."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
    if type(tensor) not in PLAIN:
        raise TypeError(
            f"{name}: expected a torch.Tensor, got {type(tensor).__name__}, whose own operations kernels do not run: "
            f"pass a plain tensor, such as {name}.as_subclass(torch.Tensor) where it holds its elements itself"
        )
    if tensor.layout is not torch.strided:
        raise ValueError(f"{name}: expected a dense tensor, got {tensor.layout}: pass {name}.to_dense()")
    if tensor.is_neg():
        raise ValueError(
            f"{name}: its memory holds its elements with the opposite sign: pass {name}.resolve_neg()"
        )
    if tensor.numel() and not tensor.is_meta and not tensor.data_ptr():
        raise TypeError(f"{name}: expected a plain tensor, got one that holds no memory")


def _fits(shape, expected):
    return len(shape) == len(expected) and all(
        isinstance(wanted, str) or size == wanted for size, wanted in zip(shape, expected, strict=True)
    )


# ---- Large results on the CPU: memory from a pool, since fresh pages cost more than most kernels ----

POOLED_BYTES = 1 << 20  # smaller results come from torch.empty

HUGE_PAGE = 1 << 21

MOST_FREE_BYTES = 2 << 30  # unused memory that the pool keeps

# Blocks of 128 KB and more malloc maps apart and unmaps when they are freed. These it keeps from now on: 32 MB are the
# most that it does, and twice as much may lie free at the heap's end (mallopt(3)).
if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
    mallopt(-3, 31 * POOLED_BYTES)  # M_MMAP_THRESHOLD
    mallopt(-1, 62 * POOLED_BYTES)  # M_TRIM_THRESHOLD

_free: dict[int, list[mmap.mmap]] = {}

_lent: dict[int, "_Loan"] = {}


class _Loan(weakref.ref):
    """Watches the memoryview behind a tensor; its block goes back to the pool when the tensor's last view dies."""

    __slots__ = ("block",)
    block: mmap.mmap


def _take_back(loan: _Loan) -> None:
    # Single operations on built-in containers: safe from any thread, and in a forked child (whose copy is its own).
    _lent.pop(id(loan), None)
    if sum(size * len(blocks) for size, blocks in list(_free.items())) < MOST_FREE_BYTES:
        _free.setdefault(len(loan.block), []).append(loan.block)


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Like torch.empty on the CPU. Large tensors take memory that earlier results gave back.

    Such a tensor is an ordinary one whose storage cannot grow: `resize_` to more elements raises.
    """
    n_elements = math.prod(shape)
    n_bytes = n_elements * dtype.itemsize
    if n_bytes < POOLED_BYTES:
        # Sizes one by one: a torch.Size costs PyTorch twice the time.
        return torch.empty(*shape, dtype=dtype) if shape else torch.empty((), dtype=dtype)
    size = -(-n_bytes // HUGE_PAGE) * HUGE_PAGE
    try:
        block = _free[size].pop()
    except (KeyError, IndexError):
        block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            block.madvise(mmap.MADV_HUGEPAGE)
    view = memoryview(block)
    loan = _Loan(view, _take_back)
    loan.block = block
    _lent[id(loan)] = loan
    return torch.frombuffer(view, dtype=dtype, count=n_elements).view(shape).data  # no view itself


# ---- Shapes: the comment on a kernel's tensor says what the tensor must be, and calls are held to it ----


@dataclasses.dataclass(frozen=True)
class Shape:
    """What the comment on a tensor says: `(n_rows, n_cols)`; `the first (n_rows, n_cols)` of one that may be larger;
    `(n_rows, n_cols) in memory` of one whose own dimensions are in another order. No sizes are one element.
    """

    words: str
    sizes: tuple[str, ...]
    is_first: bool
    in_memory: bool


SHAPE = re.compile(r"(the first )?(?:\(([\w, ]+)\)|(?:one )?element)( in memory)?(?=;|$)")


def read_shape(comment, numbers):
    """The shape that a comment begins with; None where it has none, or one of other sizes than the call's `numbers`."""
    said = SHAPE.match(comment)
    sizes = tuple(re.findall(r"\w+", said[2] or "")) if said else ()
    if said is None or not all(size in numbers or size.isdecimal() for size in sizes):
        return None
    return Shape(said[0], sizes, bool(said[1]), bool(said[3]))


def check_shape(who, tensor, shape, numbers):
    """Raise ValueError unless a tensor is as its comment says, at the numbers of this call."""
    expected = math.prod(int(size) if size.isdecimal() else numbers[size] for size in shape.sizes)
    if tensor.numel() < expected or (tensor.numel() > expected and not shape.is_first):
        raise ValueError(
            f"{who}: expected {shape.words}, {expected} elements, got shape {tuple(tensor.shape)}"
        )
    if not (tensor.is_contiguous() or (shape.in_memory and is_dense(tensor))):
        raise ValueError(
            f"{who}: expected a contiguous tensor, got shape {tuple(tensor.shape)} with strides "
            f"{tensor.stride()}"
        )


def is_dense(tensor):
    """Whether a tensor's elements lie one after the other, in whatever order of its dimensions."""
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    return tensor.permute(order).is_contiguous()


# ---- C++: kernels/*.cpp are built with g++ when they change, and called through the Python C API ----

KERNELS = Path(__file__).resolve().parent / "kernels"

COMPILER = os.environ.get("CXX", "g++")  # or several words: ccache g++

ON_X86 = platform.machine() == "x86_64"

# Never -ffast-math: it lets g++ drop NaN checks and flushes denormals to zero in the whole process.
FLAGS = [
    "-std=c++20",
    "-O3",
    *(["-march=native", "-mprefer-vector-width=512"] if ON_X86 else ["-mcpu=native"]),
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-code-hoisting",  # with it, g++ 12 gets some loops wrong that sum by a condition
    "-fwrapv",
    "-fPIC",
    "-shared",
]

LIBRARIES = ["-lmvec", "-lm"] if ON_X86 else ["-lm"]


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of a C++ kernel: its type as written, without const, its name, and what its comment says of it."""

    type: str
    name: str
    shape: Shape | None = None


@functools.cache
def load_kernel(file_name: str) -> Callable[..., None]:
    """The function of kernels/<file_name>, built first if it or a header changed since the last build.

    It takes tensors for pointers, ints and floats, in the order of the C++ parameters or by their names, and returns
    nothing. A tensor must be of its parameter's type, in this memory, and as its comment says: contiguous, and of
    n_rows * n_cols elements behind `// (n_rows, n_cols)`. A call costs about 0.15 us, and 0.3 us more where the kernel
    has an OpenMP region.
    """
    source = KERNELS / file_name
    if not source.exists():
        raise KernelBuildError(f"{source} does not exist.")
    path, error = _builds().get(source, (None, f"{source} is not among the kernels."))
    if path is None:
        raise KernelBuildError(error)
    name, parameters = parse_signature(source)
    if _has_binding():
        binding = ctypes.PyDLL(str(path)).longhand_binding
        binding.restype, binding.argtypes = ctypes.py_object, [ctypes.py_object]
        return binding(torch.Tensor)
    return _through_ctypes(ctypes.CDLL(str(path)), name, parameters)


@functools.cache
def _builds() -> dict[Path, tuple[Path | None, str]]:
    """For every kernel the shared object, or None and what went wrong. All that are missing are built at once."""
    sources = sorted(KERNELS.glob("*.cpp"))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return dict(zip(sources, threads.map(_build_or_error, sources), strict=True))


def _build_or_error(source: Path) -> tuple[Path | None, str]:
    try:
        return build(source), ""
    except KernelBuildError as error:
        return None, str(error)


def build(source: Path) -> Path:
    """The shared object of one kernel: from the cache folder if nothing changed, else compiled now."""
    unit = _translation_unit(source)
    built = _cache_folder() / f"{source.stem}-{_build_key(source, unit)}.so"
    if not is_kept(built):
        compiler = shlex.split(COMPILER)
        if not compiler or shutil.which(compiler[0]) is None:
            raise KernelBuildError(
                f"The C++ compiler {COMPILER!r} was not found: {source.name} cannot be built. Install g++ 11 or newer, "
                "or set the environment variable CXX to a compiler."
            )
        flags = [*FLAGS, f"-I{source.parent}", *_python_flags()]
        compile_and_keep(built, source, unit, [*compiler, *flags], LIBRARIES)
    return built


def parse_signature(source: Path) -> tuple[str, list[Parameter]]:
    """The name and the parameters of the ``extern "C" void`` function that a kernel file is about."""
    written = source.read_text(encoding="utf-8")
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", written, flags=re.DOTALL)
    functions = dict(re.findall(r'extern\s+"C"\s+void\s+(\w+)\s*\(([^)]*)\)', text))
    name = source.stem if source.stem in functions else next(iter(functions), "")
    if not name or (len(functions) > 1 and name != source.stem):
        raise KernelBuildError(f'{source}: expected one function `extern "C" void {source.stem}(...)`.')
    parameters = []
    for words in filter(None, (piece.strip() for piece in functions[name].split(","))):
        match = re.fullmatch(
            r"(?:const\s+)?([\w:]+)\s*(\*?(?:\s*const\s*\*)?)\s*(?:__restrict__\s+|__restrict\s+)?(\w+)",
            words,
        )
        if match is None or (not match[2] and match[1] not in _NUMBERS):
            known = ", ".join(_NUMBERS)
            raise KernelBuildError(f"{source}: parameter `{words}` is neither a pointer nor one of {known}.")
        parameters.append(Parameter(match[1] + match[2], match[3]))
    return name, _with_shapes(parameters, written)


def _with_shapes(parameters: list[Parameter], written: str) -> list[Parameter]:
    """The parameters with what the comments behind them say of tensors: `const float *x,  // (n_rows, n_cols)`."""
    comments = dict(re.findall(r"\*(\w+)(?:,|\) \{)[ \t]*//[ \t]*(.*?)[ \t]*$", written, flags=re.MULTILINE))
    numbers = {one.name for one in parameters if _NUMBERS.get(one.type, ("",))[0] == "integer"}
    return [
        (
            dataclasses.replace(one, shape=read_shape(comments.get(one.name, ""), numbers))
            if one.type.count("*") == 1
            else one
        )
        for one in parameters
    ]


# C++ type: (how the binding reads it, the ctypes type).
_NUMBERS = {
    "long": ("integer", ctypes.c_long),
    "int64_t": ("integer", ctypes.c_int64),
    "int32_t": ("integer", ctypes.c_int32),
    "int": ("integer", ctypes.c_int),
    "bool": ("integer", ctypes.c_bool),
    "float": ("real", ctypes.c_float),
    "double": ("real", ctypes.c_double),
}

# C++ type: (what DLPack calls elements of it, and their bits; what torch does).
_ELEMENTS = {
    "float": (2, 32, torch.float32),
    "double": (2, 64, torch.float64),
    "float16": (2, 16, torch.float16),
    "bfloat16": (4, 16, torch.bfloat16),
    "bool": (6, 8, torch.bool),
    "uint8_t": (1, 8, torch.uint8),
    "int8_t": (0, 8, torch.int8),
    "int16_t": (0, 16, torch.int16),
    "int32_t": (0, 32, torch.int32),
    "int64_t": (0, 64, torch.int64),
}

_ANY_ELEMENTS = (0, 0, None)  # tables of addresses

_BINDING = r"""
#include <Python.h>

#include <cstdint>

#pragma GCC optimize("O1")  // a call is as quick, and it compiles in half the time
namespace {
// What torch.Tensor.__dlpack_c_exchange_api__ holds and fills (dlpack.h, versions 1.x).
struct Tensor {
  void *data;
  int32_t device_type, device_number, n_dims;
  uint8_t kind, bits;
  uint16_t lanes;
  int64_t *sizes, *strides;
  uint64_t offset;
};
struct Exchange {
  uint32_t major_version, minor_version;
  const Exchange *earlier;
  void *others[3];
  int (*read)(void *object, Tensor *result);
};
constexpr int32_t CPU = 1;

PyObject *tensor_class;
const Exchange *exchange;

[[maybe_unused]] bool has_elements(const Tensor &tensor) {
  for (int dim = 0; dim < tensor.n_dims; ++dim) {
    if (tensor.sizes[dim] == 0) return false;
  }
  return true;
}

[[maybe_unused]] bool tensor(
    PyObject *value, const char *kernel, const char *name, int kind, int bits, const char *dtype, Tensor *result) {
  if (!Py_IS_TYPE(value, reinterpret_cast<PyTypeObject *>(tensor_class)) &&
      PyObject_IsInstance(value, tensor_class) != 1) {
    PyErr_Format(PyExc_TypeError, "%s: %s must be a tensor, got %s", kernel, name, Py_TYPE(value)->tp_name);
    return false;
  }
  if (exchange->read(value, result) != 0 || (result->data == nullptr && has_elements(*result))) {
    PyErr_Format(PyExc_TypeError, "%s: %s holds no memory: it is no plain tensor", kernel, name);
    return false;
  }
  const bool is_on_cpu = result->device_type == CPU;
  if (is_on_cpu && (bits == 0 || (result->kind == kind && result->bits == bits))) return true;
  PyObject *found = PyObject_GetAttrString(value, is_on_cpu ? "dtype" : "device");
  if (found == nullptr) return false;
  const char *words = is_on_cpu ? "%s: %s must be %s, got %S" : "%s: %s must be on %s, got %S";
  PyErr_Format(PyExc_TypeError, words, kernel, name, is_on_cpu ? dtype : "cpu", found);
  Py_DECREF(found);
  return false;
}

// Whether a tensor is as the comment on its parameter says: that many elements, one after the other in memory.
[[maybe_unused]] bool fits(
    PyObject *value, const char *kernel, const char *name, const Tensor &tensor, long expected, const char *said,
    bool is_first, bool in_memory) {
  int64_t count = 1, dense = 1;
  bool is_contiguous = true;
  for (int dim = tensor.n_dims - 1; dim >= 0; --dim) {
    is_contiguous &= tensor.sizes[dim] == 1 || tensor.strides == nullptr || tensor.strides[dim] == count;
    count *= tensor.sizes[dim];
  }
  for (int dim = 0; in_memory && !is_contiguous && dim < tensor.n_dims; ++dim) {  // the next by its step
    for (int other = 0; other < tensor.n_dims; ++other) {
      if (tensor.sizes[other] == 1 || tensor.strides[other] != dense) continue;
      dense *= tensor.sizes[other];
      break;
    }
  }
  const bool is_dense = is_contiguous || count == 0 || (in_memory && dense == count);
  const bool is_enough = count == expected || (is_first && count > expected);
  if (is_dense && is_enough) return true;
  PyObject *found = PyObject_GetAttrString(value, "shape");
  PyObject *shape = found == nullptr ? nullptr : PySequence_Tuple(found);
  PyObject *strides = shape == nullptr ? nullptr : PyObject_CallMethod(value, "stride", nullptr);
  if (strides != nullptr && !is_enough) {
    const char *words = "%s: %s: expected %s, %ld elements, got shape %R";
    PyErr_Format(PyExc_ValueError, words, kernel, name, said, expected, shape);
  } else if (strides != nullptr) {
    const char *words = "%s: %s: expected a contiguous tensor, got shape %R with strides %R";
    PyErr_Format(PyExc_ValueError, words, kernel, name, shape, strides);
  }
  Py_XDECREF(found);
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  return false;
}

[[maybe_unused]] bool integer(PyObject *value, const char *kernel, const char *name, long *result) {
  *result = PyLong_AsLong(value);
  if (*result != -1 || !PyErr_Occurred()) return true;
  PyErr_Clear();
  PyErr_Format(PyExc_TypeError, "%s: %s must be an int, got %R", kernel, name, value);
  return false;
}

[[maybe_unused]] bool real(PyObject *value, const char *kernel, const char *name, double *result) {
  *result = PyFloat_AsDouble(value);
  if (*result != -1.0 || !PyErr_Occurred()) return true;
  PyErr_Clear();
  PyErr_Format(PyExc_TypeError, "%s: %s must be a number, got %R", kernel, name, value);
  return false;
}

PyObject *parameters[@COUNT@ + 1];  // their names

// Puts arguments that some name in another order than the kernel's into its order.
bool arrange(PyObject *const *given, Py_ssize_t n_placed, PyObject *names, PyObject **arranged) {
  for (Py_ssize_t i = 0; i < n_placed; ++i) arranged[i] = given[i];
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    PyObject *name = PyTuple_GET_ITEM(names, i);
    int at = 0;
    while (at < @COUNT@ && PyUnicode_Compare(name, parameters[at]) != 0) ++at;
    if (at == @COUNT@ || arranged[at] != nullptr) {
      const char *words = at == @COUNT@ ? "%s has no parameter %R" : "%s is given %R twice";
      PyErr_Format(PyExc_TypeError, words, "@USAGE@", name);
      return false;
    }
    arranged[at] = given[n_placed + i];
  }
  return true;
}

PyObject *call(PyObject *, PyObject *const *given, Py_ssize_t n_placed, PyObject *names) {
  const Py_ssize_t n_named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  if (n_placed + n_named != @COUNT@) {
    return PyErr_Format(PyExc_TypeError, "%s takes %d arguments, got %zd", "@USAGE@", @COUNT@, n_placed + n_named);
  }
  PyObject *arranged[@COUNT@ + 1] = {};
  for (Py_ssize_t i = 0; i < n_named; ++i) {
    if (PyTuple_GET_ITEM(names, i) == parameters[n_placed + i]) continue;  // in order, as model.py writes them
    if (!arrange(given, n_placed, names, arranged)) return nullptr;
    given = arranged;
    break;
  }
@READ@
  Py_BEGIN_ALLOW_THREADS
  ::@NAME@(@ARGUMENTS@);
  Py_END_ALLOW_THREADS
  Py_RETURN_NONE;
}

const auto plain_call = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call));
PyMethodDef method = {"@NAME@", plain_call, METH_FASTCALL | METH_KEYWORDS, "@USAGE@"};
}  // namespace

extern "C" PyObject *longhand_binding(PyObject *tensor) {
  tensor_class = Py_NewRef(tensor);
@NAMES@
  PyObject *capsule = PyObject_GetAttrString(tensor, "__dlpack_c_exchange_api__");
  if (capsule == nullptr) return nullptr;
  exchange = static_cast<const Exchange *>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  while (exchange != nullptr && exchange->major_version > 1) exchange = exchange->earlier;
  if (exchange != nullptr && exchange->read != nullptr) return PyCFunction_New(&method, nullptr);
  return PyErr_Format(PyExc_RuntimeError, "this torch tells nothing of its tensors through DLPack 1.x");
}
"""


def _translation_unit(source: Path) -> str:
    """What is compiled: the kernel, and where Python.h is there the function that Python calls."""
    name, parameters = parse_signature(source)
    include = f'#include "{source.name}"\n'
    if not _has_binding():
        return include
    reads, arguments = [], []
    for number, parameter in enumerate(parameters):
        value, given = f"value{number}", f'given[{number}], "{name}", "{parameter.name}"'
        if parameter.type.endswith("*"):
            kind, bits, dtype = _ELEMENTS.get(parameter.type.removesuffix("*"), _ANY_ELEMENTS)
            reads.append(f"  Tensor {value};")
            reads.append(f'  if (!tensor({given}, {kind}, {bits}, "{dtype}", &{value})) return nullptr;')
            arguments.append(f"static_cast<{parameter.type}>({value}.data)")
        else:
            reader = _NUMBERS[parameter.type][0]
            reads.append(f"  {'long' if reader == 'integer' else 'double'} {value};")
            reads.append(f"  if (!{reader}({given}, &{value})) return nullptr;")
            arguments.append(f"static_cast<{parameter.type}>({value})")
    reads += [
        _shape_check(name, parameters, number, one.shape)
        for number, one in enumerate(parameters)
        if one.shape
    ]
    usage = f"{name}({', '.join(parameter.name for parameter in parameters)})"
    words = {"NAME": name, "USAGE": usage, "COUNT": str(len(parameters))}
    words |= {"READ": "\n".join(reads), "ARGUMENTS": ", ".join(arguments)}
    interned = [
        f'  parameters[{i}] = PyUnicode_InternFromString("{p.name}");' for i, p in enumerate(parameters)
    ]
    words["NAMES"] = "\n".join(interned)
    return include + re.sub(r"@(\w+)@", lambda match: words[match[1]], _BINDING)


def _shape_check(kernel: str, parameters: list[Parameter], number: int, shape: Shape) -> str:
    """The line of the binding that compares a tensor with the numbers that come with it."""
    names = [one.name for one in parameters]
    sizes = [size if size.isdecimal() else f"value{names.index(size)}" for size in shape.sizes]
    given = f'given[{number}], "{kernel}", "{names[number]}", value{number}, {" * ".join(sizes) or "1"}'
    flags = f"{str(shape.is_first).lower()}, {str(shape.in_memory).lower()}"
    return f'  if (!fits({given}, "{shape.words}", {flags})) return nullptr;'


def _through_ctypes(library: ctypes.CDLL, name: str, parameters: list[Parameter]) -> Callable[..., None]:
    """The caller where there is no Python.h: the same checks, about 1 us slower."""
    function = getattr(library, name)
    function.restype = None
    kinds = [ctypes.c_void_p if p.type.endswith("*") else _NUMBERS[p.type][1] for p in parameters]
    function.argtypes = kinds
    dtypes = [_ELEMENTS.get(parameter.type.removesuffix("*"), _ANY_ELEMENTS)[2] for parameter in parameters]
    usage = f"{name}({', '.join(parameter.name for parameter in parameters)})"

    def call(*given: object, **named: object) -> None:
        n_given = len(given) + len(named)
        given = (*given, *(named.pop(one.name) for one in parameters[len(given) :] if one.name in named))
        if named:
            raise TypeError(f"{usage} has no parameter {next(iter(named))!r}, or is given it twice")
        if n_given != len(parameters):
            raise TypeError(f"{usage} takes {len(parameters)} arguments, got {n_given}")
        values = []
        for value, parameter, kind, dtype in zip(given, parameters, kinds, dtypes, strict=True):
            if kind is ctypes.c_void_p:
                value = _address(name, parameter.name, dtype, value)
            elif _NUMBERS[parameter.type][0] == "integer" and not hasattr(value, "__index__"):
                raise TypeError(f"{name}: {parameter.name} must be an int, got {value!r}")
            elif _NUMBERS[parameter.type][0] == "real" and not hasattr(value, "__float__"):
                raise TypeError(f"{name}: {parameter.name} must be a number, got {value!r}")
            values.append(value)
        numbers = dict(zip((one.name for one in parameters), values, strict=True))
        for value, parameter in zip(given, parameters, strict=True):
            if parameter.shape is not None:
                check_shape(f"{name}: {parameter.name}", value, parameter.shape, numbers)
        function(*values)

    call.__name__, call.__doc__ = name, usage
    return call


def _address(kernel: str, name: str, dtype: torch.dtype | None, value: object) -> int:
    """Where a tensor's elements lie; raises TypeError unless they are there and of the parameter's type."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{kernel}: {name} must be a tensor, got {type(value).__name__}")
    address = value.data_ptr()
    if not address and value.numel():
        raise TypeError(f"{kernel}: {name} holds no memory: it is no plain tensor")
    if not value.is_cpu:
        raise TypeError(f"{kernel}: {name} must be on cpu, got {value.device}")
    if dtype is not None and value.dtype != dtype:
        raise TypeError(f"{kernel}: {name} must be {dtype}, got {value.dtype}")
    return address


def _build_key(source: Path, unit: str) -> str:
    """Everything that the shared object depends on: texts, flags, compiler, Python and processor."""
    digest = hashlib.sha256()
    for path in (source, *sorted(source.parent.glob("*.h"))):
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    program = shutil.which(shlex.split(COMPILER)[0]) or "" if COMPILER.strip() else ""
    facts = os.stat(program) if program else None
    compiler = (os.path.realpath(program), facts.st_size, facts.st_mtime_ns) if facts else ()
    digest.update(
        repr((unit, FLAGS, LIBRARIES, COMPILER, compiler, sys.version_info[:2], _processor())).encode()
    )
    return digest.hexdigest()[:20]


@functools.cache
def _processor() -> str:
    """What -march=native looks at: a cache folder may be shared by machines."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(line for line in text.split("\n\n")[0].splitlines() if line.startswith(wanted))


@functools.cache
def _has_binding() -> bool:
    """Whether kernels are called through Python's C API, and not through ctypes."""
    has_headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    return has_headers and hasattr(torch.Tensor, "__dlpack_c_exchange_api__")


def _python_flags() -> list[str]:
    return [f"-I{sysconfig.get_path('include')}"] if _has_binding() else []


# ---- What a compiler makes is kept in the user's cache folder ----

MOST_BUILDS = 1000  # shared objects kept in the cache folder

MOST_BUILD_SECONDS = 900

MOST_LOCK_SECONDS = 120

RECENT_SECONDS = 3600  # whatever was used since then is kept: another process may be about to load it


class KernelBuildError(RuntimeError):
    """What was to be compiled could not be, or does not look as the caller expects."""


def is_kept(built: Path) -> bool:
    """Whether a shared object is in the cache folder, whole; it counts as used now."""
    with _locked(built.parent, fcntl.LOCK_SH):
        if not _is_whole(built):
            return False
        os.utime(built)  # which _prune looks at
        return True


def compile_and_keep(built: Path, source: Path, text: str, compiler: list[str], libraries: list[str]) -> None:
    """Compile a source's text into the cache folder."""
    folder = built.parent
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        unit_file, result = Path(scratch) / f"unit{source.suffix}", Path(scratch) / "unit.so"
        unit_file.write_text(text, encoding="utf-8")
        exit_code, said = _run([*compiler, str(unit_file), "-o", str(result), *libraries])
        if exit_code != 0:
            words = re.sub(r"^In file included from .*unit\.\w+:\d+:\n", "", said, flags=re.MULTILINE)
            raise KernelBuildError(f"{compiler[0]} could not build {source}:\n{words.strip()}")
        digest = Path(scratch) / "unit.sha256"
        digest.write_text(hashlib.sha256(result.read_bytes()).hexdigest())
        with _locked(folder, fcntl.LOCK_EX):  # both, or none
            os.replace(result, built)
            os.replace(digest, built.with_suffix(".sha256"))
    _prune(folder)


def _run(command: list[str]) -> tuple[int, str]:
    """The exit code of a compiler and what it says, in whatever encoding."""
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            said = process.communicate(timeout=MOST_BUILD_SECONDS)[1]
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it started, too
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise KernelBuildError(
                f"{command[0]} was ended after {MOST_BUILD_SECONDS} s: try it by hand: {shlex.join(command)}"
            ) from None
    return process.returncode, said.decode(errors="replace")


def _is_whole(built: Path) -> bool:
    """Whether a build is there, this user's, and every byte as it was written: half a file would crash the process."""
    try:
        with open(built, "rb") as file:
            is_own = os.fstat(file.fileno()).st_uid == os.getuid()
            digest = hashlib.sha256(file.read()).hexdigest()
        return is_own and built.with_suffix(".sha256").read_text() == digest
    except (OSError, UnicodeDecodeError):
        return False


def _cache_folder() -> Path:
    """The user's own folder for built kernels; nobody else may write to it, since what lies there is run."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base, "longhand", "cpp")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = folder.resolve()
        facts = folder.stat()
        if facts.st_uid == os.getuid() and facts.st_mode & 0o077:
            folder.chmod(0o700)
        strange = _strange_parent(folder)
    except OSError as error:
        raise KernelBuildError(
            f"{folder} cannot be used for built kernels: {error}. Set XDG_CACHE_HOME."
        ) from error
    if facts.st_uid != os.getuid() or not os.access(folder, os.W_OK):
        raise KernelBuildError(f"{folder} belongs to another user or is not writable. Set XDG_CACHE_HOME.")
    if strange is not None:
        raise KernelBuildError(
            f"Others may put something else in the place of {folder}: {strange} is theirs. Set XDG_CACHE_HOME."
        )
    return folder


def _strange_parent(folder: Path) -> Path | None:
    """The first folder above that somebody else than root and this user may change; looked at by descriptor, link by
    link, so that nobody exchanges one meanwhile."""
    place = Path(folder.anchor)
    mode = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
    here = os.open(place, mode)
    try:
        for part in folder.parts[1:]:
            inner = os.open(part, mode | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here, place = inner, place / part
            facts = os.fstat(here)
            is_shared = facts.st_mode & (
                stat.S_IWOTH if facts.st_gid in (0, os.getgid()) else stat.S_IWOTH | stat.S_IWGRP
            )
            if facts.st_uid not in (0, os.getuid()) or (is_shared and not facts.st_mode & stat.S_ISVTX):
                return place
    finally:
        os.close(here)
    return None


@contextlib.contextmanager
def _locked(folder: Path, kind: int) -> Iterator[None]:
    """Among threads and processes: nobody removes a build between another's finding it and marking it as used."""
    with open(folder / ".lock", "w") as lock:
        end = time.monotonic() + MOST_LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise KernelBuildError(
                        f"Another process has held {lock.name} for {MOST_LOCK_SECONDS} s: end it (`fuser {lock.name}` "
                        "tells which), or set XDG_CACHE_HOME to another folder."
                    ) from None
                time.sleep(0.02)
        yield


def _prune(folder: Path) -> None:
    """Removes the builds unused for longest when there are too many."""
    with _locked(folder, fcntl.LOCK_EX):
        builds = sorted((path.stat().st_mtime, path) for path in folder.glob("*.so"))
        for used, path in builds[:-MOST_BUILDS]:
            if time.time() - used > RECENT_SECONDS:
                path.unlink()
                path.with_suffix(".sha256").unlink(missing_ok=True)


# ---- Gradients by the names of the weights ----

NAMES = "names of parameters"  # where a module keeps them

READ = "weights read"  # where a module keeps which of its weights the backward pass reads
