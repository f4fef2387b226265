"""longhand compiles PyTorch models to source code that people own."""

from pathlib import Path

# The rooms (capture, lower, schedule, emit, templates) stand beside this package in a checkout; an
# installed distribution already has them inside.
_ROOT = Path(__file__).resolve().parent.parent
if (_ROOT / "pyproject.toml").is_file() and str(_ROOT) not in __path__:
    __path__.append(str(_ROOT))
