"""Runs the first and the last programs of kernels in Triton's interpreter, and writes down which elements they touch.

Started by test_triton_positions.py with TRITON_INTERPRET=1. No memory is read or written: what a kernel is called with
is a tensor of one element and the sizes of a large one, so that positions beyond 2**31 cost nothing.
"""

import dataclasses
import importlib.util
import itertools
import pickle
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import torch
from triton.runtime import interpreter
from triton.runtime.jit import MockTensor

from longhand.verify.interpretation import mend_interpreter

APART = 43  # bits between two tensors' addresses


@dataclasses.dataclass
class Job:
    """A call of a host function.

    Attributes:
        file: The kernel's file, in a unit.
        tensors: For each tensor its name and dtype.
        numbers: What follows them.
        tunables: Values in place of the file's, so that loops are short.
    """

    file: Path
    tensors: list[tuple[str, torch.dtype]]
    numbers: list[int | float]
    tunables: dict[str, int]


def main(folder: Path) -> None:
    jobs = pickle.loads((folder / "jobs.pickle").read_bytes())
    mend_interpreter()
    sys.path.insert(0, str(folder.parent))
    found = [touched(job) for job in jobs]
    (folder / "touched.pickle").write_bytes(pickle.dumps(found))


def touched(job: Job) -> dict[str, tuple[int, int]]:
    """For each tensor the first and the last element that the programs touch; nothing if they fail."""
    name = job.file.stem
    package = job.file.parent.parent.name
    spec = importlib.util.spec_from_file_location(f"{package}.kernels.{name}", job.file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[f"{package}.runtime"].check_said = lambda kernel, args: None  # what is far away has no shape
    for word, value in job.tunables.items():
        assert hasattr(module, word)
        setattr(module, word, value)
    tensors = [Far(dtype, place) for place, (_, dtype) in enumerate(job.tensors)]
    record = Record([word for word, _ in job.tensors])
    record.watch()
    start = time.process_time()
    try:
        getattr(module, name)(*tensors, *job.numbers)
    except interpreter.InterpreterError:
        traceback.print_exc()
        return {}
    seconds = time.process_time() - start
    if seconds > 2:
        print(f"{name}: {seconds:.1f} s", file=sys.stderr)
    return record.ends


class Far(MockTensor):
    """A tensor of any size at an address of its own, without memory."""

    def __init__(self, dtype, place):
        super().__init__(dtype)
        self.address = (place + 1) << APART

    def data_ptr(self):
        return self.address

    def new_empty(self, *sizes, dtype):
        """Scratch memory, which is small."""
        return torch.empty(*sizes, dtype=dtype)


class Record:
    """Stands in for the interpreter's memory, and runs the programs in the corners of a grid alone.

    Args:
        names: The tensors', in the order of their addresses; what lies elsewhere is scratch memory.
    """

    def __init__(self, names):
        self.names = names
        self.ends = {}

    def watch(self):
        """Takes the interpreter over."""
        builder = interpreter.interpreter_builder
        kind = type(builder)
        builder.create_masked_load = self.load
        builder.create_masked_store = lambda pointers, value, mask, *_: self.note(pointers, mask)

        def call(executor, *args, **kwargs):
            grid = (*executor.grid, 1, 1)[:3]
            corners = list(itertools.product(*({0, size - 1} for size in grid)))
            builder.set_grid_dim = lambda *_: kind.set_grid_dim(builder, *grid)
            builder.set_grid_idx = lambda x, *_: kind.set_grid_idx(builder, *corners[x])
            executor.grid = (len(corners), 1, 1)
            return run(executor, *args, **kwargs)

        run = getattr(interpreter.GridExecutor, "plain_call", interpreter.GridExecutor.__call__)
        interpreter.GridExecutor.plain_call = run
        interpreter.GridExecutor.__call__ = call
        interpreter.GridExecutor._init_args_hst = lambda self, args, kwargs: (args, kwargs)
        interpreter.GridExecutor._restore_args_dev = lambda *_: None

    def load(self, pointers, mask, other, *_):
        """Notes the positions; what is read is `other`, or 0."""
        self.note(pointers, mask)
        dtype = interpreter._get_np_dtype(pointers.get_element_ty())
        data = (
            np.zeros(pointers.data.shape, dtype)
            if other is None
            else np.broadcast_to(other.data, mask.data.shape)
        )
        return interpreter.TensorHandle(data.astype(dtype), pointers.get_element_ty())

    def note(self, pointers, mask):
        """The positions under a mask, by tensor."""
        addresses = pointers.data[np.broadcast_to(mask.data, pointers.data.shape)].astype(np.int64)
        if not addresses.size:
            return
        element = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        place = int(np.median(addresses) + (1 << APART - 1)) >> APART
        is_given = 1 <= place <= len(self.names)
        name = self.names[place - 1] if is_given else "scratch"
        base = place << APART if is_given else int(addresses.min())
        first, last = (int(address - base) // element for address in (addresses.min(), addresses.max()))
        known = self.ends.get(name, (first, last))
        self.ends[name] = (min(first, known[0]), max(last, known[1]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
