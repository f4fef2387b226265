"""``make sanitize``: the frame hook, CUDA units' C files and the gallery's C++ kernels, built with sanitizers, tested.

Runs with the sanitizers' runtimes preloaded, and with compilers (``CC``, ``CXX``) that build with them. What they find
ends the process.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from examples.gallery import entries

ROOT = Path(__file__).resolve().parents[1]
HOOK = "longhand.capture._frame_eval"
FLAGS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
    "-g",
    "-O1",
)
TESTS = (
    "tests/capture/bytecode/test_frame_eval.py",
    "tests/longhand/test_compiled_threads.py",
    "tests/native",  # blas.c and launch.c, which are built with $CC
)


def sanitized_hook(folder: Path) -> None:
    """Builds capture/_frame_eval.c and puts it in the place of the installed one."""
    built = folder / "_frame_eval.so"
    include = sysconfig.get_path("include")
    source = ROOT / "capture" / "_frame_eval.c"
    command = ["gcc", "-std=gnu11", *FLAGS, "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(built)]
    subprocess.run(command, check=True)
    loader = importlib.machinery.ExtensionFileLoader(HOOK, str(built))
    spec = importlib.util.spec_from_loader(HOOK, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[HOOK] = module


def main(folder: Path) -> int:
    """The exit code of the tests of the hook and of units' C files, then of the units' own checks."""
    folder.mkdir(parents=True, exist_ok=True)
    sanitized_hook(folder)
    code = int(pytest.main(["-q", "-p", "no:cacheprovider", *(str(ROOT / test) for test in TESTS)]))
    for unit in (entry.path for entry in entries() if entry.device == "cpu"):
        done = subprocess.run([sys.executable, "-m", f"generated.{unit.replace('/', '.')}.check"], cwd=ROOT)
        print(f"{unit}: {'clean' if done.returncode == 0 else 'NOT CLEAN'}", flush=True)
        code = code or done.returncode
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
