"""What the unit needs besides its kernels: input checks, weights, and the way to build and launch."""

import contextlib
import ctypes
import dataclasses
import fcntl
import functools
import hashlib
import inspect
import itertools
import logging
import math
import operator
import os
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
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path

import torch
import triton
from torch import nn

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


# ---- Weights: parameters and buffers under the names of the original's state_dict ----


@dataclasses.dataclass(frozen=True)
class buffer:
    """The shape and dtype of a buffer; `value` if it is in no state_dict."""

    shape: tuple = ()
    dtype: torch.dtype = torch.float32
    value: torch.Tensor = None


class Weights(nn.Module):
    """A module that holds tensors: shapes make parameters of `dtype`, `buffer` makes buffers.

    An existing parameter or buffer given here is shared (tied), a module becomes a sub-module. The tensors keep the
    dtypes and shapes that the kernels were written for: a cast raises. They require no grad.
    """

    def __init__(self, members=None, /, dtype=torch.float32, **named):
        super().__init__()
        self.__dict__[EXPECTED] = expected = {}
        for name, member in {**(members or {}), **named}.items():
            if isinstance(member, nn.Module):
                self.add_module(name, member)
            elif isinstance(member, buffer):
                value = (
                    member.value
                    if member.value is not None
                    else torch.zeros(member.shape, dtype=member.dtype)
                )
                self.register_buffer(name, value.clone(), persistent=member.value is None)
            elif isinstance(member, nn.Parameter):
                self.register_parameter(name, member)
            elif isinstance(member, torch.Tensor):
                self.register_buffer(name, member)
            else:
                self.register_parameter(
                    name, nn.Parameter(torch.empty(member, dtype=dtype), requires_grad=False)
                )
        for name, tensor in own_tensors(self):
            expected[name] = (tensor.dtype, tensor.shape, steps_of(tensor))


# Where a module keeps what its tensors were: no attribute's name, so that a parameter may have any.
EXPECTED, SEEN = "expected tensors", "seen weights"


def own_tensors(module):
    """The parameters and buffers that a module itself holds, by name."""
    yield from module.named_parameters(recurse=False, remove_duplicate=False)
    yield from module.named_buffers(recurse=False, remove_duplicate=False)


def steps_of(tensor):
    """The strides that kernels rely on, of dimensions with more than one position; None: filters lie as they like."""
    if hasattr(tensor, "lies_as_it_likes"):
        return None
    return tuple(
        step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1 and tensor.numel()
    )


def check_own_tensors(path, module, device):
    """Raise unless a module's tensors are as they were made, in shape, dtype and memory, and on `device`."""
    for name, tensor in own_tensors(module):
        dtype, shape, steps = module.__dict__[EXPECTED][name]
        where = f"{path}.{name}" if path else name
        check_is_plain(where, tensor)
        if tensor.dtype != dtype:
            raise TypeError(
                f"{where}: expected {dtype}, which the kernels were written for, got {tensor.dtype}"
            )
        if tensor.shape != shape:
            raise ValueError(f"{where}: expected shape {tuple(shape)}, got {tuple(tensor.shape)}")
        if tensor.device != device:
            raise ValueError(f"{where}: expected device {device}, where the input is, got {tensor.device}")
        if steps is not None and steps_of(tensor) != steps:
            expected = (
                "a contiguous tensor" if steps_of(tensor.new_empty(shape)) == steps else f"strides {steps}"
            )
            raise ValueError(f"{where}: expected {expected}, got strides {tensor.stride()}")


def check_weights(module, device):
    """Raise unless all weights are what the kernels were written for, and on `device`.

    Looks at addresses first: only after weights were loaded, moved or replaced are they looked at again. A layer that
    replaces another is used if it holds tensors of the same shapes and dtypes.
    """
    state = module.__dict__.setdefault(SEEN, {})
    layers = [*itertools.chain.from_iterable([held.values() for held in state.get("layer_holders", ())])]
    # The first call, or a layer was put in another's place.
    if "holders" not in state or layers != state["layers"]:
        named = [*module.named_modules(remove_duplicate=False)]
        expected = {path: part.__dict__[EXPECTED] for path, part in named if isinstance(part, Weights)}
        for path, known in state.setdefault("expected", expected).items():
            if expected.get(path) != known:
                raise TypeError(
                    f"{path}: not the layer that the kernels were written for; load weights instead"
                )
        state["layer_holders"] = [part._modules for _, part in named if part._modules]
        state["layers"] = [layer for held in state["layer_holders"] for layer in held.values()]
        parts = [part for part in module.modules() if isinstance(part, Weights)]
        state["holders"] = [held for part in parts for held in (part._parameters, part._buffers) if held]
        state["weights"] = None
    tensors = [*itertools.chain.from_iterable([held.values() for held in state["holders"]])]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise RuntimeError(
            "a weight requires grad, but these kernels compute no gradients: call under torch.no_grad()"
        )
    seen = (device, [*map(torch.Tensor.data_ptr, tensors)])
    if seen != state["weights"]:
        for path, part in module.named_modules():
            if isinstance(part, Weights):
                check_own_tensors(path, part, device)
            for held in (part._modules, part._parameters, part._buffers):
                part.__dict__.update(held)  # found there at once, without nn.Module.__getattr__
        state["weights"] = seen


def buffers_named(module, name):
    """The buffers of that name that a module and those inside it hold."""
    held = module.__dict__.get(SEEN, {}).get("holders") or [part._buffers for part in module.modules()]
    return [tensors[name] for tensors in held if name in tensors]


# ---- Modes: in the other one the model computes otherwise, with dropout or the statistics of the batch ----


def check_mode(module, *, training):
    """Raise RuntimeError unless the module is in the mode that it was generated in."""
    if module.training is not training:
        call, other = (
            ("train()", "in eval mode") if training else ("eval()", "in training mode, with --train")
        )
        raise RuntimeError(
            f"in this mode the model computes otherwise than these kernels: call {call}, "
            f"or longhand generate it {other}"
        )


# ---- Autocast: the kernels have types of their own ----


def own_types(device):
    """Turns autocast off inside; where it is off already, a backward pass does not pay for that."""
    if torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return contextlib.nullcontext()


# ---- Images channels last: (batch, channels, height, width) with the channels innermost in memory ----


def channels_last(images):
    """The same images, channels last. That is how the library makes them of such images: then nothing is copied."""
    return images.contiguous(memory_format=torch.channels_last)


def conv2d(images, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """F.conv2d of images channels last, which makes such images. It is what that calls, and takes 4 us less."""
    steps = (stride, stride) if isinstance(stride, int) else stride
    edges = (padding, padding) if isinstance(padding, int) else padding
    gaps = (dilation, dilation) if isinstance(dilation, int) else dilation
    return channels_last(torch.convolution(images, weight, bias, steps, edges, gaps, False, (0, 0), groups))


def filters(*shape, dtype=torch.float32):
    """The weight of a convolution, channels last, so that no call has to convert it; loading keeps it so."""
    weight = torch.empty(shape, dtype=dtype, memory_format=torch.channels_last)
    weight = nn.Parameter(weight, requires_grad=False)
    weight.lies_as_it_likes = True  # a convolution takes it anyhow
    return weight


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


# ---- C beside this file: what takes Python too long, built once on a machine ----


def native_functions(files, way_in, known):
    """What a function of a C file here, the first of `files`, returns for `known`; it is built first where it is new.

    Raises:
        RuntimeError: Here is no compiler, or Python's headers are missing; or what the file itself raises.
    """
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise RuntimeError("Python runs without its lock")
    function = getattr(ctypes.PyDLL(str(build_native(Path(__file__).resolve().parent, files))), way_in)
    function.restype, function.argtypes = ctypes.py_object, [ctypes.py_object]
    return function(known)


NATIVE_FLAGS = ["-std=gnu11", "-O2", "-fPIC", "-shared"]


@functools.cache
def build_native(folder, files):
    """The shared object of a C file and its headers: from the cache folder if nothing changed, else compiled now."""
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        raise RuntimeError(f"there is no {headers / 'Python.h'}")
    named = shlex.split(os.environ.get("CC", ""))
    compiler = named or [word for word in ("gcc", "clang", "cc") if shutil.which(word)][:1]
    program = shutil.which(compiler[0]) if compiler else None
    if program is None:
        raise RuntimeError(f"there is no C compiler{' ' + named[0] if named else ''}")
    source = folder / files[0]
    texts = [(folder / name).read_text(encoding="utf-8") for name in files]
    flags = [*NATIVE_FLAGS, f"-I{folder}", f"-I{headers}"]
    facts = os.stat(program)
    program_is = (compiler, os.path.realpath(program), facts.st_size, facts.st_mtime_ns)
    python_is = (sys.version, sysconfig.get_config_var("SOABI"), str(headers))
    rests_on = (texts, NATIVE_FLAGS, program_is, python_is)
    key = hashlib.sha256(repr(rests_on).encode()).hexdigest()[:20]
    built = _cache_folder() / f"{source.stem}-{key}.so"
    if not is_kept(built):
        compile_and_keep(built, source, texts[0], [*compiler, *flags], ["-ldl"])
    return built


def ceil_div(a, b):
    """a / b, rounded up. (triton.cdiv takes 1.5 us outside of a kernel.)"""
    return -(-a // b)


def next_power_of_2(n):
    """The smallest power of two that is at least n."""
    return 1 << max(n - 1, 0).bit_length()


def fast_launch(kernel=None, *, large=False):
    """Decorates a @triton.jit function: kernel[grid](...) then takes 1 us of host time beside the driver's, not 7.

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
        """What kernel[grid] is: of launch.c where that can be used, for a third of the time that Python takes."""
        if not triton.__version__.startswith(KNOWN_LAUNCHERS):
            return functools.partial(CheckedLaunch(self.kernel)[grid], enable_fp_fusion=True)
        x, y, z = grid = (*grid, 1, 1)[:3]
        n_tensors, compiled, knobs = self.n_tensors, self.compiled, triton.knobs.runtime
        try:
            current_stream = triton.runtime.driver.active.get_current_stream
        except RuntimeError:  # there is no GPU: Triton says so in the first launch
            current_stream = None
        several_devices = torch.cuda.device_count() > 1

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
                return None
            if several_devices and device != torch.cuda.current_device():
                with torch.cuda.device(device):
                    return launch(*args, **options)
            run, before, constants, takes_tuple = entry
            # Tensors as integers: the launcher would ask the driver about each.
            if takes_tuple:
                run(x, y, z, current_stream(device), *before, (*addresses, *numbers, *constants))
            else:
                run(x, y, z, current_stream(device), *before, *addresses, *numbers, *constants)
            return entry  # so that launch.c may do the same

        torchs = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        native = native_launcher() if n_tensors and current_stream is torchs else None
        return launch if native is None else native(launch, __package__, grid, n_tensors)

    def compile(self, device, alignment, grid, args, options):
        """Launch through Triton's own path, and keep what it compiled."""
        self.check(args)
        with torch.cuda.device(device):
            compiled = self.kernel[grid](*args, **options, enable_fp_fusion=True)
        if compiled is not None:
            names = [parameter.name for parameter in self.kernel.params]
            run, fixed, takes_tuple = direct(compiled)
            forget_if_full(self.compiled)
            self.compiled[(device, alignment, args[self.n_tensors :], *options.values())] = (
                run,
                (compiled.function, *fixed),
                tuple(options[name] for name in names[len(args) :]),
                takes_tuple,
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


@functools.cache
def native_launcher():
    """What makes a launch of launch.c; None where that file cannot be used, and LONGHAND_LOGS=kernels tells why."""
    current_device = torch._C._cuda_getDevice if torch.cuda.device_count() > 1 else None
    known = (torch.Tensor, torch.nn.Parameter, triton.knobs.runtime, current_device)
    try:
        return native_functions(("launch.c", "tensors.h"), "longhand_launch", known)
    except Exception as error:  # whatever is missing: a compiler, Python's headers
        logging.getLogger("longhand.kernels").info("kernels are launched from Python: %s", error)
        return None


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


# ---- What a forward pass keeps for its backward pass: a record of what it made, and weights of the module ----


def keep_for_backward(ctx, saved, module=None, unread=()):
    """Let autograd keep what the backward pass reads. It minds writes to that, and tells hooks of it.

    Args:
        ctx: Of the autograd.Function.
        saved: A record. Its fields are tensors, further records, and lists of such.
        module: Whose weights the backward pass reads, if it does.
        unread: How the names of those end that it does not read; of whole modules how they begin.
    """
    tensors = weights_read(module, unread)
    n_weights = len(tensors)
    ctx.kept = module, unread, n_weights, taken_apart(saved, tensors)
    ctx.save_for_backward(*tensors)


def kept_for_backward(ctx):
    """The module as it was in the forward pass, and the record; raises where any of that was written to since."""
    module, unread, n_weights, form = ctx.kept
    tensors = list(ctx.saved_tensors)
    ctx.maybe_clear_saved_tensors()  # unless the graph is retained, each is dropped once it is read
    weights, made = tensors[:n_weights], tensors[n_weights:]
    return with_weights(module, unread, weights), put_together(form, iter(made))


def taken_apart(saved, tensors):
    """Append the tensors of a record, those of its own first; what it returns says how to put it together again."""
    names, records = [], {}
    for name, value in vars(saved).items():
        if isinstance(value, list) or is_dataclass(value):
            records[name] = value
        else:
            names.append(name)
            tensors.append(value)
    forms = {
        name: [taken_apart(one, tensors) for one in of] if isinstance(of, list) else taken_apart(of, tensors)
        for name, of in records.items()
    }
    return type(saved), names, forms


def put_together(form, tensors):
    """A record like the one that was taken apart, of the next tensors."""
    made, names, forms = form
    record = made.__new__(made)
    vars(record).update(zip(names, tensors))  # noqa: B905, the rest is of other records
    for name, of in forms.items():
        if isinstance(of, list):
            vars(record)[name] = [put_together(one, tensors) for one in of]
        else:
            vars(record)[name] = put_together(of, tensors)
    return record


# ---- Gradients by the names of the weights ----

NAMES = "names of parameters"  # where a module keeps them


def of_parameters(module, gradients):
    """For each of a module's parameters, in order, the gradient that has its name; None where there is none."""
    looked_at = module.__dict__.get(SEEN, {}).get("holders")
    known = module.__dict__.get(NAMES)
    if known is None or known[0] is not looked_at:
        known = module.__dict__[NAMES] = looked_at, [name for name, _ in module.named_parameters()]
        if not gradients.keys() <= {*known[1]}:
            raise KeyError(f"no parameters: {', '.join(sorted(gradients.keys() - {*known[1]}))}")
    return [gradients.get(name) for name in known[1]]


READ = "weights read"  # where a module keeps which of its weights the backward pass reads


def holders_read(module, unread):
    """Where the weights are that the backward pass reads: the dict that holds each, and its name there."""
    looked_at = module.__dict__.get(SEEN, {}).get("holders")
    known = module.__dict__.get(READ)
    if known is None or known[0] is not looked_at:
        parts = dict(module.named_modules())
        whole = tuple(one for one in unread if one.endswith("."))
        paths = (path for path, _ in module.named_parameters() if not path.startswith(whole))
        ends = (path.rpartition(".") for path in paths if not f"model.{path}".endswith(unread))
        known = looked_at, [(parts[owner]._parameters, name) for owner, _, name in ends]
        module.__dict__[READ] = known
    return known[1]


def weights_read(module, unread):
    """The weights that the backward pass reads, as the module holds them now."""
    return [] if module is None else [held[name] for held, name in holders_read(module, unread)]


def with_weights(module, unread, weights):
    """The module if it holds these weights; else a copy that does: others took their place, or a hook made copies."""
    if module is None or all(map(operator.is_, weights_read(module, unread), weights)):
        return module
    holders = holders_read(module, unread)
    return holding(
        module,
        {(id(held), name): one for (held, name), one in zip(holders, weights, strict=True)},
    )


def holding(module, weights):
    """A copy of a module, and of those in it, that holds other weights: by the dict that held each, and its name."""
    copied = module.__class__.__new__(module.__class__)
    parts = {name: holding(part, weights) for name, part in module._modules.items() if part is not None}
    held = {
        name: weights.get((id(module._parameters), name), one) for name, one in module._parameters.items()
    }
    vars(copied).update(
        {**vars(module), "_modules": {**module._modules, **parts}, "_parameters": held, **parts, **held}
    )
    return copied


# ---- The gradients of convolutions ----


def convolution_backward(
    d_out,
    x,
    weight,
    *,
    stride=1,
    padding=0,
    dilation=1,
    groups=1,
    transposed=False,
    output_padding=0,
    wanted=(True, True, False),
):
    """The gradients of a convolution's input, weight and bias, which lie as these do; None for what is not wanted."""
    n_dims = weight.dim() - 2
    steps = stride if isinstance(stride, tuple) else (stride,) * n_dims
    edges = padding if isinstance(padding, tuple) else (padding,) * n_dims
    gaps = dilation if isinstance(dilation, tuple) else (dilation,) * n_dims
    more = output_padding if isinstance(output_padding, tuple) else (output_padding,) * n_dims
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    # A part of wider images lies with gaps. The library would copy it twice, for each gradient of its own.
    is_last = n_dims == 2 and x.is_contiguous(memory_format=torch.channels_last)
    d_out = d_out.contiguous(memory_format=torch.channels_last if is_last else torch.contiguous_format)
    d_x, d_weight, d_bias = torch.ops.aten.convolution_backward.default(
        d_out, x, weight, (channels,), steps, edges, gaps, transposed, more, groups, wanted
    )
    return lying_as(d_x, x), lying_as(d_weight, weight), d_bias


def lying_as(gradient, x):
    """The gradient of x, laid out as x is; nothing is copied where the library made it so."""
    if gradient is None or gradient.stride() == x.stride():
        return gradient
    if x.is_contiguous():
        return gradient.contiguous()
    is_last = x.is_contiguous(memory_format=torch.channels_last)
    return gradient.contiguous(memory_format=torch.channels_last) if is_last else gradient


def parameters_of(module):
    """What module.parameters() yields, which looks for it in each call, after check_weights() looked at the module."""
    state = module.__dict__.get(SEEN)
    if state is None:  # there was no need to look
        return list(module.parameters())
    if state.get("parameters are of") is not state["holders"]:
        state["parameters are of"] = state["holders"]
        state["parameters"] = [part._parameters for part in module.modules() if part._parameters]
    found = []
    for held in state["parameters"]:
        found += held.values()
    return [parameter for parameter in dict.fromkeys(found) if parameter is not None]
