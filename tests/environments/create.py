"""Makes a virtual environment of the Python that runs this, with a torch that longhand supports: create.py FOLDER.

Needs nothing but Python. A torch that this Python has is used; else a build without CUDA is installed where nothing
could use CUDA and pip finds such a build, since PyPI's brings gigabytes. Exits with 1 and a line on stderr where this
Python will not do.

Where the PATH has several of this version, the fastest makes it, unless PYTHON= asked for this one or this one has a
torch: Pythons that were compiled without optimization (pyenv's) take half as long again as a distribution's.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata, util
from pathlib import Path

# As in longhand/torch_versions.py and pyproject.toml, which need more than Python to be read.
PYTHON = ((3, 11), (3, 13))
TORCH = ((2, 11), (2, 15))
CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
# What interpreters are timed at: some hundredths of a second, the best of five.
WORK = """
import ensurepip, os, sysconfig, time
assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))  # longhand's frame hook is compiled
def taken():
    begun, counts = time.process_time(), {}
    for i in range(50_000):
        counts[i % 100] = counts.get(i % 100, 0) + len(str(i))
    return time.process_time() - begun
print(min(taken() for _ in range(5)))
"""
# Less than this apart, two are as fast as one another.
MUCH_FASTER = 0.85
# Nobody waits for minutes to learn that there is no network.
LOOK = ["--retries", "1", "--timeout", "30", "index", "versions", "torch"]


def problem() -> str | None:
    """What keeps this Python from running longhand, None if nothing does."""
    if not PYTHON[0] <= sys.version_info[:2] <= PYTHON[1]:
        return f"Python {platform.python_version()} is not supported"
    if util.find_spec("venv") is None or util.find_spec("ensurepip") is None:
        return "it has no venv (on Debian: apt install python3-venv)"
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return "it has no headers for extensions (on Debian: apt install python3-dev)"
    return None


def is_supported(version: str) -> bool:
    """Whether this is a release of torch that longhand knows: 2.13.0 or 2.13.0+cpu, but not 2.13.0a0+git."""
    found = re.fullmatch(r"(\d+)\.(\d+)\.\d+(\+.*)?", version)
    return found is not None and TORCH[0] <= (int(found[1]), int(found[2])) <= TORCH[1]


def installed_torch() -> str | None:
    """The torch that this Python has and that an environment made from it can see."""
    if sys.prefix != sys.base_prefix:  # an environment itself: one made from it sees past it
        return None
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None
    return version if is_supported(version) else None


def time_taken(python: str) -> float | None:
    """Seconds that a Python takes for `WORK`; None where it does not run (pyenv's shims) or has no headers."""
    done = subprocess.run([python, "-I", "-c", WORK], capture_output=True, text=True)
    try:
        return float(done.stdout)
    except ValueError:
        return None


def faster_pythons() -> list[str]:
    """Others of this version on the PATH that are much faster than this one, the fastest first."""
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    found = [Path(folder, name) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    others = {path.resolve(): str(path) for path in reversed(found) if os.access(path, os.X_OK)}
    others.pop(Path(sys.executable).resolve(), None)
    own = time_taken(sys.executable)
    if not others or own is None:
        return []
    taken = {python: seconds for python in others.values() if (seconds := time_taken(python)) is not None}
    return sorted((one for one in taken if taken[one] < MUCH_FASTER * own), key=taken.__getitem__)


def made_by_a_faster(folder: Path) -> bool:
    """Whether a faster Python of this version made the environment."""
    if os.environ.get("PYTHON") or installed_torch():
        return False
    return any(
        subprocess.run([one, __file__, str(folder)], env={**os.environ, "PYTHON": one}).returncode == 0
        for one in faster_pythons()
    )


def has_gpu() -> bool:
    return any(os.path.exists(path) for path in ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"))


def newest_cpu_build(listing: str) -> str | None:
    """The newest supported build without CUDA in what `pip index versions torch` printed."""
    listed = re.search(r"Available versions: (.*)", listing)
    versions = [word.strip() for word in listed[1].split(",")] if listed else []
    return next((word for word in versions if word.endswith("+cpu") and is_supported(word)), None)


def find_cpu_build() -> tuple[str, str] | None:
    """(version, index) of a build without CUDA: where pip looks (index is empty then), else where such builds lie."""
    for index in dict.fromkeys(("", os.environ.get("TORCH_INDEX", CPU_BUILDS))):
        command = [sys.executable, "-m", "pip", *LOOK]
        command += ["--extra-index-url", index] if index else []
        version = newest_cpu_build(subprocess.run(command, capture_output=True, text=True).stdout)
        if version is not None:
            return version, index
    return None


def torch_options() -> tuple[list[str], str]:
    """(arguments of pip install, words)."""
    wanted = os.environ.get("TORCH")
    if wanted:
        return [wanted], f"TORCH={wanted}"
    if platform.system() == "Linux" and platform.machine() == "x86_64" and not has_gpu():
        found = find_cpu_build()
        if found is not None:
            version, index = found
            return [f"torch=={version}", *(["--extra-index-url", index] if index else [])], f"torch {version}"
    (major, oldest), (_, newest) = TORCH
    requirement = f"torch>={major}.{oldest},<{major}.{newest + 1}"
    return [requirement], f"{requirement}, maybe with gigabytes of CUDA"


def create(folder: Path) -> None:
    """Makes the environment.

    Raises:
        subprocess.CalledProcessError: pip did not install it.
    """
    own = None if os.environ.get("TORCH") else installed_torch()
    arguments, words = ([], f"its own torch {own}") if own else torch_options()
    print(f"Python {platform.python_version()} ({sys.executable}) with {words}", flush=True)
    visible = ["--system-site-packages"] if own else []
    subprocess.run([sys.executable, "-m", "venv", "--clear", *visible, str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--upgrade", "pip"], check=True)
    if arguments:
        subprocess.run([*pip, *arguments], check=True)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    reason = problem()
    if reason is None:
        try:
            if not made_by_a_faster(target):
                create(target)
        except subprocess.CalledProcessError:
            # Half an environment would be taken for a whole one.
            shutil.rmtree(target, ignore_errors=True)
            reason = "pip did not install torch for it (see above)"
    if reason is not None:
        sys.exit(f"{sys.executable}: {reason}")
