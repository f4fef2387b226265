"""The Jinja environment of the C++ templates."""

from __future__ import annotations

from typing import Any

import jinja2

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("longhand.templates", "cpp"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,
)


def render_template(name: str, **values: Any) -> str:
    """A template of templates/cpp, filled."""
    return _ENVIRONMENT.get_template(name).render(**values)
