"""What the unit needs besides its kernels: input checks, weights, and the way to build and launch."""

import dataclasses
import functools
import inspect
import math
import operator
import re
import sys

import torch
import triton

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


def fast_launch(kernel=None, *, large=False):
    """Decorates a @triton.jit function: kernel[grid](...) then takes 2 us of host time beside the driver's, not 7.

    It also holds calls to what the comments on the kernel's tensors say: `x_ptr,  # bf16 (n_rows, n_cols)`. Without it
    the kernel runs just the same. In versions of Triton whose launcher it does not know, and in Triton's interpreter,
    it only checks, and keeps a * b + c one operation.

    Args:
        large: The kernel counts in 64 bits what may pass 2**31. Others refuse tensors that large: they would wrap.
    """
    if kernel is None:
        return functools.partial(fast_launch, large=large)
    return FastLaunch(kernel, large) if isinstance(kernel, triton.JITFunction) else CheckedLaunch(kernel)


KNOWN_LAUNCHERS = ("3.6.", "3.7.", "3.8.", "3.9.")


class FastLaunch:
    """Keeps what Triton compiled for each set of sizes, and hands it to the driver.

    Triton compiles a kernel for the values of its constexprs, for whether pointers and integers are multiples of 16,
    and for integers that are 1 or need 64 bits. The key here tells more apart than that: the alignment of the
    pointers, and every other argument as it is.

    The first call with its numbers is checked, and every call that another file than the unit's own makes. The unit's
    own pass what was proven when it was generated of the inputs that it checks itself.
    """

    def __init__(self, kernel, large=False):
        self.kernel = kernel
        self.large = large
        self.n_tensors = sum(
            parameter.name.endswith("_ptr") for parameter in kernel.params
        )  # they come first
        self.launchers = {}  # by grid
        self.compiled = {}

    def __getitem__(self, grid):
        launch = self.launchers.get(grid)
        if launch is None:
            forget_if_full(self.launchers)
            launch = self.launchers[grid] = self.launcher(grid)
        return launch

    def launcher(self, grid):
        """What kernel[grid] is."""
        if not triton.__version__.startswith(KNOWN_LAUNCHERS):
            return functools.partial(CheckedLaunch(self.kernel)[grid], enable_fp_fusion=True)
        x, y, z = (*grid, 1, 1)[:3]
        n_tensors, compiled, knobs = self.n_tensors, self.compiled, triton.knobs.runtime

        def launch(*args, **options):
            caller = current_frame(1).f_back  # who called the kernel's host function
            if caller is None or caller.f_globals.get("__package__") != __package__:
                self.check(args)
            addresses = [*map(data_ptr, args[:n_tensors])]
            numbers = args[n_tensors:]
            device = args[0].get_device()
            alignment = functools.reduce(operator.or_, addresses) % 16 and tuple([a % 16 for a in addresses])
            entry = compiled.get((device, alignment, numbers, *options.values()))
            if entry is None or knobs.launch_enter_hook.calls:  # hooks: a profiler is listening
                self.compile(device, alignment, grid, args, options)
                return
            run, function, fixed, current_stream, constants, several_devices, as_tuple = entry
            if several_devices and device != torch.cuda.current_device():
                with torch.cuda.device(device):
                    launch(*args, **options)
                return
            # Tensors as integers: the launcher would ask the driver about each.
            if as_tuple:
                run(x, y, z, current_stream(device), function, *fixed, (*addresses, *numbers, *constants))
            else:
                run(x, y, z, current_stream(device), function, *fixed, *addresses, *numbers, *constants)

        return launch

    def compile(self, device, alignment, grid, args, options):
        """Launch through Triton's own path, and keep what it compiled."""
        self.check(args)
        with torch.cuda.device(device):
            compiled = self.kernel[grid](*args, **options, enable_fp_fusion=True)
        if compiled is not None:
            names = [parameter.name for parameter in self.kernel.params]
            run, fixed, as_tuple = direct(compiled)
            forget_if_full(self.compiled)
            self.compiled[(device, alignment, args[self.n_tensors :], *options.values())] = (
                run,
                compiled.function,
                fixed,
                triton.runtime.driver.active.get_current_stream,
                tuple(options[name] for name in names[len(args) :]),
                torch.cuda.device_count() > 1,
                as_tuple,
            )

    def check(self, args):
        """Raise for tensors that the kernel cannot take."""
        check_said(self.kernel, args)
        for parameter, tensor in zip(self.kernel.params, args[: self.n_tensors], strict=False):
            if tensor.numel() >= IN_32_BITS and not self.large:
                raise ValueError(
                    f"{parameter.name}: expected less than {IN_32_BITS} elements, which this kernel counts in 32 bits, "
                    f"got {tensor.numel()}: generate it for tensors of that size"
                )


class CheckedLaunch:
    """A kernel that Triton launches, or interprets, after its tensors were compared with its comments."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        def launch(*args, **options):
            check_said(self.kernel, args)
            self.kernel[grid](*args, **options)

        return launch

    def __getattr__(self, name):
        return getattr(self.kernel, name)


def check_said(kernel, args):
    """Raise TypeError or ValueError for tensors that are not as the comments on a kernel's parameters say."""
    kernel = kernel.fn
    named = dict(zip(kernel.__code__.co_varnames, args, strict=False))
    for name, (dtype, comment) in said_of(kernel).items():
        tensor, who = named[name], f"{kernel.__name__}: {name}"
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{who}: expected a tensor, got {type(tensor).__name__}")
        if tensor.device != args[0].device:
            raise ValueError(f"{who}: expected a tensor on {args[0].device}, got {tensor.device}")
        if tensor.dtype != getattr(torch, SHORT.get(dtype, dtype)):
            raise TypeError(f"{who}: expected {dtype}, got {tensor.dtype}")
        shape = read_shape(comment, named)
        if shape is not None:
            check_shape(who, tensor, shape, named)


SHORT = {"bf16": "bfloat16", "fp16": "float16"}


@functools.cache
def said_of(function):
    """What the comments say of a kernel's tensors: `x_ptr,  # bf16 (n_rows, n_cols)` is a dtype, and a shape."""
    text = inspect.getsource(function)
    said = re.findall(
        r"^ +(\w+_ptr),  # (bf16|fp16|bool|u?int\d+|float\d+)\b(?:, | )?(.*)$", text, re.MULTILINE
    )
    return {name: (dtype, comment) for name, dtype, comment in said}


def direct(compiled):
    """What launches a compiled kernel: a function, its arguments between the kernel and the kernel's own, and whether
    it takes those as one tuple."""
    run = compiled.run
    fixed = (compiled.packed_metadata, None, None, None)  # no launch metadata, no hooks
    if run.global_scratch_size + run.profile_scratch_size or getattr(run, "gsan_enabled", False):
        return run, fixed, False
    # What run() would call, without its questions after scratch memory.
    how, scratch = (run.launch_cooperative_grid, run.launch_pdl), (None, None)
    if triton.__version__.startswith("3.6."):
        return run.launch, (*how, *scratch, *fixed), False
    return run.launch, (*how, *fixed, *scratch, run.arg_annotations, run.kernel_signature), True


data_ptr = torch.Tensor.data_ptr

current_frame = sys._getframe

IN_32_BITS = 2**31 - 2**27  # a last block may end beyond the last element


def forget_if_full(known):
    """Empty a dict that sizes which never repeat have filled."""
    if len(known) >= 1024:
        known.clear()
