"""A built unit as a wheel: `pip install` puts it where `import` finds it. It needs torch and nothing of longhand."""

from __future__ import annotations

import base64
import hashlib
import platform
import re
import zipfile
from pathlib import Path

from longhand.deploy.building import Built
from longhand.errors import OptionError, OutputError

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever it is made


def write_wheel(built: Built, folder: Path, version: str) -> Path:
    """Writes NAME-VERSION-py3-none-PLATFORM.whl.

    Args:
        built: What `build` made.
        folder: Where the wheel goes.
        version: The package's.

    Raises:
        OptionError: The version is none.
        OutputError: The wheel cannot be written.
    """
    if not re.fullmatch(r"\d+(\.\d+)*((a|b|rc|\.post|\.dev)\d+)?", version):
        raise OptionError(f"--version {version!r} is no version of a package.", hint="For instance 1.0.2.")
    is_for_cpu = built.device == "cpu"
    tag = f"py3-none-linux_{platform.machine()}" if is_for_cpu else "py3-none-any"
    info = f"{built.name}-{version}.dist-info"
    requires = ["torch"] if is_for_cpu else ["torch", "triton"]
    files = {
        f"{built.name}/{path.relative_to(built.folder).as_posix()}": path.read_bytes()
        for path in sorted(built.folder.rglob("*"))
        if path.is_file()
    }
    metadata = [
        f"Metadata-Version: 2.1\nName: {built.name}\nVersion: {version}",
        *map("Requires-Dist: {}".format, requires),
    ]
    files[f"{info}/METADATA"] = ("\n".join(metadata) + "\n").encode()
    pure = "false" if is_for_cpu else "true"
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: longhand\nRoot-Is-Purelib: {pure}\nTag: {tag}\n".encode()
    )
    record = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in files.items()]
    files[f"{info}/RECORD"] = ("\n".join([*record, f"{info}/RECORD,,"]) + "\n").encode()
    target = folder / f"{built.name}-{version}-{tag}.whl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = target.with_suffix(".new")
        with zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED) as wheel:
            for path, content in files.items():
                entry = zipfile.ZipInfo(path, _EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                wheel.writestr(entry, content)
        scratch.replace(target)
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {error}.") from error
    return target


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
