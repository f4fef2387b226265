"""Says whether the Python that runs this can run longhand, and where its torch would come from; for make, which asks
every Python that it finds. Needs nothing but Python.

Prints one line: a rank (smaller is better), what pip is to install as torch, and why, with a bar between:

    1|torch==2.13.0|torch 2.13.0 is installed
    2|torch==2.13.0+cpu|pip finds a CPU build
    3|torch|torch is to be downloaded

Exits with 1 and a line on stderr where it cannot.
"""

import importlib.util
import os
import platform
import re
import subprocess
import sys
import sysconfig
from importlib import metadata

OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
OLDEST_TORCH, NEWEST_TORCH = (2, 11), (2, 15)


def missing():
    """What keeps this Python from running longhand, None if nothing does."""
    if not OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON:
        return "it is not Python 3.11 to 3.13"
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        return "it has no venv (on Debian: apt install python3-venv)"
    if not os.path.isfile(os.path.join(sysconfig.get_path("include"), "Python.h")):
        return "it has no headers for extensions (on Debian: apt install python3-dev)"
    return None


def release(version):
    """(2, 13) of 2.13.0+cpu; None of what is no release."""
    found = re.match(r"(\d+)\.(\d+)\.\d+(\+|$)", version)
    return (int(found[1]), int(found[2])) if found else None


def is_supported(version):
    known = release(version)
    return known is not None and OLDEST_TORCH <= known <= NEWEST_TORCH


def installed_torch():
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None
    return version if is_supported(version) else None


def wants_cpu_build():
    """Where PyPI's torch brings gigabytes of CUDA that nothing here could use."""
    has_gpu = os.path.exists("/proc/driver/nvidia/version") or os.path.exists("/dev/nvidiactl")
    return platform.system() == "Linux" and platform.machine() == "x86_64" and not has_gpu


def cpu_build(index):
    """The newest CPU build of torch that pip finds, also in `index` if one is given; None if there is none."""
    command = [sys.executable, "-m", "pip", "--retries", "1", "--timeout", "15", "index", "versions", "torch"]
    done = subprocess.run(
        command + (["--extra-index-url", index] if index else []), capture_output=True, text=True
    )
    listed = re.search(r"Available versions: (.*)", done.stdout)
    versions = [word.strip() for word in listed[1].split(",")] if listed else []
    return next((word for word in versions if word.endswith("+cpu") and is_supported(word)), None)


def rate(index=None):
    """(rank, requirement, why)."""
    version = installed_torch()
    if version is not None:
        return 1, f"torch=={version}", f"torch {version} is installed"
    if not wants_cpu_build():
        return 2, "torch", "torch is to be downloaded"
    version = cpu_build(index)
    if version is not None:
        return 2, f"torch=={version}", f"pip finds the CPU build {version}"
    return 3, "torch", "torch is to be downloaded, with several gigabytes of CUDA"


if __name__ == "__main__":
    problem = missing()
    if problem is not None:
        sys.exit(f"{sys.executable}: {problem}")
    print("|".join(map(str, rate(*sys.argv[1:]))))
