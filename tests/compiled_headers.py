"""The headers of every C++ kernel, compiled once a session: they are half of what a kernel's build takes.

g++ is told to include them first and finds the compiled form beside them, which it takes where the flags are the same
and ignores where not. What a kernel has to include by itself is still tested: the gallery is compiled without this.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

UNIT = Path(__file__).resolve().parents[1] / "generated" / "gpt_cpu"
HEADERS = ("algorithm", "cmath", "cstdint", "cstring", "vector", "Python.h")
ASK = "import json, runtime; print(json.dumps([*runtime.FLAGS, *runtime._python_flags()]))"


def compile_headers() -> Path | None:
    """The folder of the compiled headers, which ``CXX`` names from now on; None where there is no g++ or CXX is set."""
    if "CXX" in os.environ or shutil.which("g++") is None:
        return None
    asked = subprocess.run([sys.executable, "-c", ASK], cwd=UNIT, capture_output=True, text=True, check=True)
    flags = [flag for flag in json.loads(asked.stdout) if flag != "-shared"]
    folder = Path(tempfile.mkdtemp(prefix="longhand-headers-"))
    header = folder / "kernel_headers.h"
    # A look at the syntax alone is without Python's folder.
    guarded = (f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n" for name in HEADERS)
    header.write_text("".join(guarded), encoding="utf-8")
    subprocess.run(["g++", *flags, "-x", "c++-header", str(header), "-o", f"{header}.gch"], check=True)
    # Which linker it is changes nothing of a kernel: this one takes half as long.
    linker = "-fuse-ld=gold -fno-use-linker-plugin " if shutil.which("ld.gold") else ""
    os.environ["CXX"] = f"g++ {linker}-include {header}"
    return folder
