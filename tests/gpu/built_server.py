"""A server that has a built CUDA unit, torch and triton: no compiler, no longhand, nothing in any cache.

``python built_server.py FOLDER NAME``: checks the unit as its own check.py does, prints how many launches were of
binaries, and fails if Triton compiled anything. It must be started with an empty PATH.
"""

import collections
import importlib
import os
import shutil
import sys
import threading
import time
from pathlib import Path

sys.modules["longhand"] = None
sys.path.insert(0, sys.argv[1])

import torch  # noqa: E402

assert not any(map(shutil.which, ("gcc", "cc", "clang", "g++", "nvcc", "ptxas"))), "a compiler is in reach"
unit = importlib.import_module(sys.argv[2])
runtime = importlib.import_module(f"{sys.argv[2]}.runtime")
launches = collections.Counter()
launch = runtime.Binary.__call__


def counted(self, *args):
    launches["binaries"] += 1
    return launch(self, *args)


def refused(self, *args):
    raise AssertionError(f"Triton is to compile {self.kernel.fn.__name__}")


runtime.Binary.__call__ = counted
runtime.BuiltLaunch.through_triton = refused
check = importlib.import_module(f"{sys.argv[2]}.check")
assert check.main([]) == 0
n_first = launches["binaries"]
assert n_first > 0

# A thread that did nothing on the GPU before, and a CUDA graph of one call.
thread = threading.Thread(target=lambda: launches.update(in_thread=bool(check.run())))
thread.start()
thread.join()
assert launches["in_thread"] == 1
if "training" not in (Path(unit.__file__).parent / "model.py").read_text().partition('"""\n')[0]:
    arguments = check.make_arguments()
    arguments = arguments if isinstance(arguments, tuple) else (arguments,)
    model = check.make_model() if hasattr(check, "make_model") else getattr(unit, unit.__all__[0])
    with torch.no_grad():
        expected = model(*arguments)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            model(*arguments)
        torch.cuda.synchronize()
        if isinstance(expected, torch.Tensor):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                recorded = model(*arguments)
            recorded.zero_()
            graph.replay()
            torch.cuda.synchronize()
            torch.testing.assert_close(recorded, expected, equal_nan=True)
            print("a CUDA graph of it replays")
        begin = time.perf_counter()
        for _ in range(50):
            model(*arguments)
        host = (time.perf_counter() - begin) / 50
        torch.cuda.synchronize()
        total = (time.perf_counter() - begin) / 50
    print(f"a call: {1e6 * host:.0f} us until it returned, {1e6 * total:.0f} us until it was done")
built = [path for path in Path(os.environ["HOME"]).rglob("*") if path.suffix in (".so", ".cubin", ".ptx")]
assert not built, built
print(f"served: {n_first} launches of binaries in the check")
